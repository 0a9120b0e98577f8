"""Compute what a session cost by model, with sub-agents separate.

Every message counts once, even if several files contain it.
"""

from collections.abc import Iterable
from dataclasses import replace

from msgspec import Struct

from turnlog.conversation.cost import understates_output
from turnlog.conversation.messages import Message, larger_usage
from turnlog.conversation.session import Session
from turnlog.format.fields import given
from turnlog.format.state import CostState
from turnlog.render.json_views import UsageView, cost_of_messages, usage_view


class ModelCost(Struct):
    """Usage and cost of one model."""

    model: str
    messages: int
    usage: UsageView
    cost_usd: float | None
    """null if the price is unknown."""
    by_subagents: bool


class CostView(Struct):
    """Usage and cost of a session."""

    models: list[ModelCost]
    cost_usd: float
    """Total of the models with a known price."""
    unpriced: list[str]
    output_understated: bool
    """True if a client version is involved that records too few output tokens."""
    client_cost_usd: float | None
    """The client's own total, including calls that no session shows; null if there is none."""


def session_cost(session: Session) -> CostView:
    """Return the cost of a session and its sub-agents."""
    main = {node.index for node in session.tree.chain}
    said, repeated = _said_in(session)
    own = [message for message in said if any(node.index in main for node in message.nodes)]
    others = [message for message in said if all(node.index not in main for node in message.nodes)]
    # Sub-agents that start from a copy of the conversation repeat its messages in their own files.
    known = {message.id for message in said if message.id}
    for agent in session.subagents:
        if agent.root is None:
            found, further = _said_in(session.open_subagent(agent))
            others += [message for message in found if message.id not in known]
            known |= {message.id for message in found if message.id}
            repeated += further
    # A sub-agent's own file is more accurate than the progress lines that repeat its messages.
    others += {m.id: m for m in reversed(repeated) if m.id not in known}.values()
    models = [*_by_model(own, is_agent=False), *_by_model(others, is_agent=True)]
    return CostView(
        models=models,
        cost_usd=round(sum(each.cost_usd or 0 for each in models), 6),
        unpriced=sorted({each.model for each in models if each.cost_usd is None}),
        output_understated=any(understates_output(m.nodes[0].version) for m in own + others),
        client_cost_usd=_client_cost(session),
    )


def _said_in(session: Session) -> tuple[list[Message], list[Message]]:
    """Return the messages of a file, and those of sub-agents that it only repeats."""
    said = {message.id or n: message for n, message in enumerate(session.messages)}
    only: list[Message] = []
    for message in session.repeated_messages:
        known = said.get(message.id or "")
        # Lines written while a message streams have lower counts: the largest is the final one.
        if known and message.id:
            said[message.id] = replace(known, usage=larger_usage(known.usage, message.usage))
        elif not message.is_synthetic:
            only.append(message)
    return [message for message in said.values() if not message.is_synthetic], only


def _by_model(messages: Iterable[Message], is_agent: bool) -> list[ModelCost]:
    groups: dict[str, list[Message]] = {}
    for message in messages:
        groups.setdefault(message.model or "unknown", []).append(message)
    return [
        ModelCost(model, len(group), usage_view(group), cost_of_messages(group)[0], is_agent)
        for model, group in groups.items()
    ]


def _client_cost(session: Session) -> float | None:
    """Return the sum over the client's processes."""
    nodes = [node for node in session.nodes if node.kind == "cost-state"]
    # Each process counts from 0 and writes its total again and again, so the last value of each
    # start time counts.
    latest: dict[float | None, float] = {}
    for entry in session.entries(nodes):
        if isinstance(entry, CostState):
            latest[given(entry.start_time)] = given(entry.total_cost_usd) or 0
    return round(sum(latest.values()), 6) if latest else None
