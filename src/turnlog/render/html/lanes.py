"""Sub-agents of a session: their rows, and their activity as lanes of a timeline."""

from collections.abc import Iterable
from datetime import timedelta
from itertools import islice

from turnlog.conversation.nodes import AssistantNode, ChainNode, UserNode
from turnlog.conversation.session import Session
from turnlog.conversation.subagents import SubAgent
from turnlog.conversation.turn_figures import cost_of_messages
from turnlog.errors import NotFound
from turnlog.format.json_values import Fields
from turnlog.format.timestamps import parse_timestamp
from turnlog.render.html.session_pages import PageOptions, SessionPages, find_masked
from turnlog.render.json_views import usage_view
from turnlog.secrets import mask

GAP = timedelta(seconds=60)
"""Silence after which a lane counts as idle."""
MOST_LANES = 200
FIGURES = ("calls", "errors", "tokens", "cost_usd", "models")


def find_agent(session: Session, agent_id: str) -> SubAgent:
    """Return a sub-agent by its masked id, which is only compared and never used as a path."""
    found = find_masked(session.subagents, agent_id)
    if found is None:
        raise NotFound(f"no sub-agent {agent_id!r} in {session.path.name}")
    return found


def agent_page(session: Session, agent_id: str, options: PageOptions | None = None) -> Fields:
    """Return the rows of a sub-agent, or a range of them if the options set one."""
    agent = find_agent(session, agent_id)
    pages = SessionPages(session.open_subagent(agent), options)
    chosen = pages.options
    last = None if chosen.count is None else chosen.first + chosen.count
    messages: list[Fields] = []
    rows: list[Fields] = []
    for turn in pages.turns:
        page = pages.page(turn.n, PageOptions(clip=chosen.clip, count=None))
        for row in page["rows"]:
            if "message" in row:
                row["message"] += len(messages)
        messages += page["messages"]
        rows += page["rows"]
    shown = list(islice(rows, chosen.first, last))
    about: Fields = {"id": mask(agent.id), "label": mask(agent.description), "total": len(rows)}
    return about | {"first": chosen.first, "rows": shown, "messages": messages}


def lanes_of(pages: SessionPages) -> list[Fields]:
    """Return one lane for the session and one for each sub-agent, with its spans of activity."""
    session = pages.session
    spans = _spans(node for turn in pages.turns for node in turn.nodes)
    main = {"id": None, "label": "session", "line": None, "spans": spans}
    # The figures of the page's head: those of the branch.
    facts = pages.facts()
    lanes = [main | {name: facts[name] for name in FIGURES}]
    for about in pages.agents()[:MOST_LANES]:
        inner = session.open_subagent(find_agent(session, about["id"]))
        lanes.append(about | _activity(inner))
    return lanes


def _activity(session: Session) -> Fields:
    said = [message for message in session.messages if not message.is_synthetic]
    usage = usage_view(said)
    return {
        "spans": _spans(session.tree.chain),
        "calls": len(session.calls),
        "errors": sum(call.has_failed for call in session.calls),
        "tokens": sum(getattr(usage, name) for name in usage.__struct_fields__),
        "cost_usd": cost_of_messages(said)[0],
        "models": sorted({mask(message.model) for message in said if message.model}),
    }


def _spans(nodes: Iterable[ChainNode]) -> list[list[int]]:
    """Return spans of activity, in milliseconds; short pauses do not end a span."""
    talk = (node for node in nodes if isinstance(node, AssistantNode | UserNode))
    moments = sorted(moment for node in talk if (moment := parse_timestamp(node.time)))
    spans: list[list[int]] = []
    before = None
    for moment in moments:
        at = round(moment.timestamp() * 1000)
        if before is not None and moment - before <= GAP:
            spans[-1][1] = at
        else:
            spans.append([at, at])
        before = moment
    return spans
