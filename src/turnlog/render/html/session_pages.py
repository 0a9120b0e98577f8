"""The JSON that the viewer shows of a session: a head with its outline, then turns on demand.

Pure. The head is made from nodes alone, apart from the prompts' labels, so it does not grow with
the size of results. All texts are masked.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice

from turnlog.conversation.models import window_of
from turnlog.conversation.nodes import AssistantNode, BoundaryNode, ChainNode, UserNode
from turnlog.conversation.prompts import prompt_label
from turnlog.conversation.session import Session
from turnlog.conversation.turns import Turn
from turnlog.errors import NotFound
from turnlog.format.entries import User
from turnlog.format.json_values import Fields, is_array, is_object
from turnlog.format.tools import CHANGING
from turnlog.render.html.page_options import PageOptions
from turnlog.render.html.page_rows import message_json, row_json
from turnlog.render.json_views import cost_of_messages, usage_view
from turnlog.render.rows import HIDDEN_NODES, AnswerRow, Row, RowBuilder, TurnEndRow, ViewOptions
from turnlog.render.tree_drawing import milestones
from turnlog.secrets import MASKED, mask, mask_start
from turnlog.store.catalog import describe, locate_session
from turnlog.text import one_line

LABEL = 120
"""Characters of a turn's label in the outline."""
MOST_BRANCHES = 200
PLACEHOLDER = re.compile(MASKED)
SHOWN_BLOCKS = frozenset({"text", "thinking", "tool_use"})


class SessionPages:
    """The pages of one branch of a session; keeps what they share, so that each one is cheap."""

    def __init__(self, session: Session, options: PageOptions | None = None) -> None:
        self.session = session
        self.options = options or PageOptions()

    @cached_property
    def leaf(self) -> int | None:
        """The rank of the branch's leaf; None if the session is empty."""
        if self.options.leaf is None:
            return self.session.tree.active_leaf
        rank = self.session.tree.rank_of(self.options.leaf)
        if rank is None:
            raise NotFound(f"no entry {self.options.leaf!r} in {self.session.path}")
        return rank

    @cached_property
    def turns(self) -> list[Turn]:
        is_active = self.leaf == self.session.tree.active_leaf
        return self.session.turns if is_active else self.session.turns_to(self.leaf)

    def head(self, since: int = 1) -> Fields:
        """Return the session's facts, its branches, its sub-agents and its outline.

        With `since`, the outline starts at that turn: the viewer of a live session has the rest.
        """
        limit = self.options.labels
        first = min(max(1, since), max(1, len(self.turns)))
        is_labelled = limit is None or len(self.turns) - first < limit
        outline = {name: column[first - 1 :] for name, column in self._outline.items()}
        outline["label"] = self.labels(first, len(self.turns)) if is_labelled else []
        return {
            "session": self.facts(self._outline),
            "branches": branches_of(self.session),
            "outline": outline,
            "agents": agents_of(self.session, self.turns),
            "masked": None,
            "findings": [],
        }

    @cached_property
    def _outline(self) -> Fields:
        return outline_columns(self.turns)

    def labels(self, first: int, last: int) -> list[str]:
        """Return the labels of some turns, in one line each."""
        turns = self.turns[max(0, first - 1) : last]
        prompts = [turn.prompt for turn in turns if turn.prompt]
        entries = self.session.entries(prompts)
        return [_label(next(entries)) if turn.prompt else "" for turn in turns]

    def page(self, n: int, options: PageOptions | None = None) -> Fields:
        """Return the rows of a turn, or the range of them that the options ask for."""
        if not 0 < n <= len(self.turns):
            raise NotFound(f"{self.session.path.name} has {len(self.turns)} turns, no turn {n}")
        chosen = options or self.options
        turn = self.turns[n - 1]
        last = None if chosen.count is None else chosen.first + chosen.count
        rows = list(self.rows(turn))
        shown = [row_json(row, chosen.clip) for row in islice(rows, chosen.first, last)]
        messages = self._number_messages(turn, shown)
        page = {
            "n": n,
            "first": chosen.first,
            "total": len(rows),
            "rows": shown,
            "messages": messages,
            "masked": count_masked(shown),
        }
        is_cut = last is not None and last < len(rows)
        return page | {"ending": _ending(rows, chosen)} if is_cut else page

    def rows(self, turn: Turn) -> Iterator[Row]:
        """Yield the rows of a turn."""
        return self._builder.turn(turn)

    def facts(self, outline: Fields) -> Fields:
        """Return the facts of a session for the top of its page."""
        session = self.session
        about = describe(locate_session(session.path))
        said = [message for turn in self.turns for message in turn.messages]
        costs = outline["cost"]
        project = mask(about.cwd or "")
        return {
            "id": session.id,
            "title": mask(about.title or session.slug or session.id),
            "slug": mask(session.slug or ""),
            "project": project,
            "branch": mask(about.branch or ""),
            "models": sorted({mask(m.model) for m in said if m.model and not m.is_synthetic}),
            "client_version": session.client_version,
            "started": next((turn.started for turn in self.turns if turn.started), None),
            "ended": next((t.last_time for t in reversed(self.turns) if t.last_time), None),
            "resume": f"claude --resume {session.id}",
            "turns": len(self.turns),
            "lines": session.nodes[-1].line if session.nodes else 0,
            "size": session.state.size,
            "calls": sum(outline["calls"]),
            "errors": sum(outline["errors"]),
            "edits": sum(outline["edits"]),
            "tokens": sum(outline["tokens"]),
            "cost_usd": None if None in costs else round(sum(costs), 6),
            "leaf": self._leaf_uuid,
        }

    @property
    def _leaf_uuid(self) -> str | None:
        return None if self.leaf is None else self.session.tree.chain[self.leaf].uuid

    @cached_property
    def _builder(self) -> RowBuilder:
        options = ViewOptions(full=self.options.full, thinking=self.options.thinking, details=True)
        return RowBuilder(self.session, options, self.session.subagents, frozenset())

    def _number_messages(self, turn: Turn, rows: Iterable[Fields]) -> list[Fields]:
        """Set each row's message, as a place in the returned list."""
        by_line = {node.line: place for place, m in enumerate(turn.messages) for node in m.nodes}
        for row in rows:
            if row["type"] != "prompt" and row.get("line") in by_line:
                row["message"] = by_line[row["line"]]
        used = {row["message"] for row in rows if "message" in row}
        return [message_json(m) if i in used else {} for i, m in enumerate(turn.messages)]


def _ending(rows: Sequence[Row], options: PageOptions) -> list[Fields]:
    """Return the last answer and the end of a turn, which are shown while it is folded."""
    wanted = (AnswerRow, TurnEndRow)
    last = {type(row): place for place, row in enumerate(rows) if isinstance(row, wanted)}
    return [
        {"index": place, "row": row_json(rows[place], options.clip)}
        for place in sorted(last.values())
    ]


def session_head(session: Session, options: PageOptions | None = None) -> Fields:
    """Return the head of a session: its facts, branches, outline and sub-agents."""
    return SessionPages(session, options).head()


def turn_page(session: Session, turn: int, options: PageOptions | None = None) -> Fields:
    """Return the rows of a turn; for several turns, keep a `SessionPages`."""
    return SessionPages(session, options).page(turn)


def whole_page(session: Session, turn: int, options: PageOptions | None = None) -> Fields:
    """Return all rows of a turn with whole texts, as in an exported file."""
    return turn_page(session, turn, replace(options or PageOptions(), clip=None, count=None))


def count_masked(value: object) -> int:
    """Return the number of masked secrets in the JSON of a page."""
    if isinstance(value, str):
        return len(PLACEHOLDER.findall(value))
    if is_object(value):
        return sum(count_masked(each) for name, each in value.items() if name != "html")
    return sum(map(count_masked, value)) if is_array(value) else 0


def outline_columns(turns: Sequence[Turn]) -> Fields:
    """Return the outline of some turns, one list per column."""
    names = "n line kind time calls errors edits rows tokens cost context window compactions"
    rows = list(map(_outline_row, turns))
    return {name: [row[i] for row in rows] for i, name in enumerate(names.split())}


def _outline_row(turn: Turn) -> tuple[object, ...]:
    said = [message for message in turn.messages if not message.is_synthetic]
    usage = usage_view(said)
    last = usage_view(said[-1:])
    return (
        turn.n,
        (turn.prompt or turn.nodes[0]).line,
        str(turn.kind or ""),
        turn.started,
        len(turn.calls),
        sum(call.is_error for call in turn.calls) + sum(m.is_synthetic for m in turn.messages),
        sum(c.name in CHANGING and c.result is not None and not c.is_error for c in turn.calls),
        sum(map(_count_rows, turn.nodes)) + 1,
        sum(getattr(usage, name) for name in usage.__struct_fields__),
        cost_of_messages(said)[0],
        last.input_tokens + last.cache_creation_input_tokens + last.cache_read_input_tokens,
        window_of(said[-1].model or "") if said else 0,
        sum(isinstance(node, BoundaryNode) for node in turn.nodes),
    )


def _count_rows(node: ChainNode) -> int:
    """Estimate the number of rows of an entry without reading it."""
    if isinstance(node, AssistantNode):
        return sum(kind in SHOWN_BLOCKS for kind in node.blocks) if node.blocks else 1
    if isinstance(node, UserNode):
        return node.prompt not in HIDDEN_NODES
    return isinstance(node, BoundaryNode)


def branches_of(session: Session) -> list[Fields]:
    """Return the branches of a session, each with the prompt it ends with."""
    stones, firsts = milestones(session)
    depths: dict[int, int] = {}
    waiting = [(rank, 1) for rank in reversed(firsts)]
    while waiting:
        rank, depth = waiting.pop()
        depths[rank] = depth
        waiting += [(following, depth + 1) for following in reversed(stones[rank].next)]
    ends = [rank for rank in depths if not stones[rank].next][:MOST_BRANCHES]
    return [
        {
            "leaf": _last_descendant(session, rank, stones[rank].is_active),
            "line": stones[rank].node.line,
            "label": _milestone_label(session, stones[rank].node),
            "turns": depths[rank],
            "is_active": stones[rank].is_active,
        }
        for rank in ends
    ]


def _last_descendant(session: Session, rank: int, is_active: bool) -> str | None:
    tree = session.tree
    if is_active and tree.active_leaf is not None:
        return tree.chain[tree.active_leaf].uuid
    while rank in tree.children:
        rank = tree.children[rank][-1]
    return tree.chain[rank].uuid


def _milestone_label(session: Session, node: ChainNode) -> str:
    return "compaction" if isinstance(node, BoundaryNode) else _label(session.entry(node))


def _label(entry: object) -> str:
    text = prompt_label(entry) if isinstance(entry, User) else ""
    # Mask before the cut: half a token is not recognised.
    words = " ".join(one_line(mask_start(text, 4 * LABEL)).split())
    return words if len(words) <= LABEL else f"{words[: LABEL - 1]}…"


def agents_of(session: Session, turns: Sequence[Turn]) -> list[Fields]:
    """Return the sub-agents of a session with their calls, without opening their files."""
    owners = {call.id: (turn, call) for turn in turns for call in turn.calls}
    found: list[Fields] = []
    for agent in session.subagents:
        turn, call = owners.get(agent.call_id or "", (None, None))
        found.append(
            {
                "id": agent.id,
                "label": mask(agent.description),
                "type": mask(str(agent.meta.get("agentType") or "")),
                "turn": turn.n if turn else None,
                "line": call.use.line if call else None,
                "started": call.use.time if call else None,
                "ended": call.result.time if call and call.result else None,
            }
        )
    return found
