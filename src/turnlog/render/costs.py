"""Compute the cost of a session by model, with sub-agents listed separately.

Every message counts once, even if several files contain it.
"""

from collections.abc import Iterable

from msgspec import Struct

from turnlog.conversation.charges import charges_of
from turnlog.conversation.cost import understates_output
from turnlog.conversation.messages import Message
from turnlog.conversation.session import Session
from turnlog.conversation.turn_figures import cost_of_messages
from turnlog.format.fields import given
from turnlog.format.state import CostState
from turnlog.render.json_views import UsageView, usage_view


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
    charges = list(charges_of(session))
    own = [m for each in charges if not each.is_by_subagents for m in each.messages]
    others = [m for each in charges if each.is_by_subagents for m in each.messages]
    models = [*_by_model(own, is_agent=False), *_by_model(others, is_agent=True)]
    return CostView(
        models=models,
        cost_usd=round(sum(each.cost_usd or 0 for each in models), 10),
        unpriced=sorted({each.model for each in models if each.cost_usd is None}),
        output_understated=any(understates_output(m.nodes[0].version) for m in own + others),
        client_cost_usd=_client_cost(session),
    )


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
