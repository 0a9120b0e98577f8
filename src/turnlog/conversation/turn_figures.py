"""The figures of a turn that an outline shows, computed from nodes alone."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from turnlog.conversation.calls import Call
from turnlog.conversation.cost import cost_of, unpriced_models
from turnlog.conversation.messages import Message, sum_tokens
from turnlog.conversation.nodes import (
    AssistantNode,
    BoundaryNode,
    ChainNode,
    DurationNode,
    UserNode,
)
from turnlog.conversation.prompts import PromptKind
from turnlog.conversation.turns import Turn, measured_ms
from turnlog.format.blocks import Usage
from turnlog.format.tools import CHANGING

HIDDEN_NODES = frozenset({PromptKind.META, PromptKind.TOOL_RESULT})
"""User lines that only a complete view shows."""
SHOWN_BLOCKS = frozenset({"text", "thinking", "tool_use"})

Outline = dict[str, list[Any]]
"""Figures of consecutive turns: a list per figure."""


class TurnFigures(NamedTuple):
    """The figures of one turn."""

    line: int
    """The line of its prompt."""
    kind: str
    """The kind of its prompt; empty without one."""
    started: str | None
    calls: int
    failed: int
    """Calls whose result is an error, without those that the user denied."""
    errors: int
    """Failed calls, and API errors that the client recorded in place of an answer."""
    edits: int
    """Calls that changed a file."""
    rows: int
    """An estimate of the number of rows that show it."""
    tokens: int
    cost_usd: float | None
    context: int
    """Tokens of the last request."""
    model: str | None
    """The model that answered last."""
    compactions: int
    working_ms: int | None
    elapsed_ms: int | None
    idle_ms: int | None
    """Silence before it."""
    is_complete: bool


def figures_of(turn: Turn) -> TurnFigures:
    """Return the figures of a turn."""
    said = [message for message in turn.messages if not message.is_synthetic]
    elapsed = turn.elapsed_ms
    rows, compactions, measured = 1, 0, None
    for node in turn.nodes:
        rows += _count_rows(node)
        if isinstance(node, BoundaryNode):
            compactions += 1
        # Measuring walks the turn again, so only turns that have such a line pay for it.
        elif isinstance(node, DurationNode):
            measured = measured_ms(turn.nodes)
    calls = turn.calls
    failed = sum([call.has_failed for call in calls]) if calls else 0
    return TurnFigures(
        line=(turn.prompt or turn.nodes[0]).line,
        kind=str(turn.kind or ""),
        started=turn.started,
        calls=len(calls),
        failed=failed,
        errors=failed + sum([message.has_error for message in turn.messages]),
        edits=sum(map(_is_edit, calls)) if calls else 0,
        rows=rows,
        tokens=sum([sum_tokens(message.usage) for message in said]),
        cost_usd=_total_cost(said),
        context=_prompt_tokens(said[-1].usage) if said else 0,
        model=said[-1].model if said else None,
        compactions=compactions,
        working_ms=elapsed if measured is None else measured,
        elapsed_ms=elapsed,
        idle_ms=turn.idle_ms,
        is_complete=bool(said),
    )


FIGURES = TurnFigures._fields


def outline_of(turns: Iterable[Turn], names: Sequence[str] = FIGURES) -> Outline:
    """Return figures of some turns as columns."""
    rows = list(map(figures_of, turns))
    return {name: [getattr(row, name) for row in rows] for name in names}


def models_of(turns: Iterable[Turn]) -> list[str]:
    """Return the models that answered in some turns, sorted."""
    said = (message for turn in turns for message in turn.messages if not message.is_synthetic)
    return sorted({message.model for message in said if message.model})


def cost_of_messages(messages: Sequence[Message]) -> tuple[float | None, list[str]]:
    """Return the cost of messages, None if a price is unknown, and the models without a price."""
    unpriced = {name for m in messages for name in unpriced_models(m.model, m.usage)}
    return _total_cost(messages), sorted(unpriced)


def _total_cost(messages: Sequence[Message]) -> float | None:
    costs = [cost_of(m.model, m.usage, m.nodes[0].time) for m in messages]
    # A partial sum would look like the whole cost, so one unknown price makes the total unknown.
    known = [cost for cost in costs if cost is not None]
    return round(sum(known), 10) if len(known) == len(costs) else None


def _is_edit(call: Call) -> bool:
    return call.name in CHANGING and call.result is not None and not call.is_error


def _prompt_tokens(usage: Usage) -> int:
    return sum_tokens(usage) - (usage.output_tokens or 0)


def _count_rows(node: ChainNode) -> int:
    """Estimate the number of rows of an entry without reading it."""
    if isinstance(node, AssistantNode):
        return sum(kind in SHOWN_BLOCKS for kind in node.blocks) if node.blocks else 1
    if isinstance(node, UserNode):
        return node.prompt not in HIDDEN_NODES
    return isinstance(node, BoundaryNode)
