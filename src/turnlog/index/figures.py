"""The figures of a message: tokens by kind, and dollars."""

from collections.abc import Iterator
from datetime import UTC, datetime

from turnlog.conversation.cost import cache_writes, cost_of, searches
from turnlog.format.blocks import Usage
from turnlog.format.fields import given

FIGURES = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "searches", "cost")
"""The columns that hold them."""

LARGEST = 10**12
"""A count that is larger, or below nothing, is none."""

Figures = tuple[float | None, ...]


def sound_usage(usage: Usage | None) -> Usage:
    """A usage, but for one with a count that cannot be: it is worth nothing."""
    return usage if usage and all(0 <= count <= LARGEST for count in _counts(usage)) else Usage()


def _counts(usage: Usage) -> Iterator[int]:
    for counts in (usage, *(given(usage.iterations) or ())):
        yield given(counts.input_tokens) or 0
        yield given(counts.output_tokens) or 0
        yield given(counts.cache_read_input_tokens) or 0
        yield given(counts.cache_creation_input_tokens) or 0
        yield from cache_writes(counts)
    yield searches(usage)


def figures_of(model: str | None, at: float | None, usage: Usage) -> Figures:
    """The figures of a message, in the order of their columns."""
    when = datetime.fromtimestamp(at, UTC).isoformat() if at is not None else None
    return (
        given(usage.input_tokens) or 0,
        given(usage.output_tokens) or 0,
        *cache_writes(usage),
        given(usage.cache_read_input_tokens) or 0,
        searches(usage),
        cost_of(model, usage, when),
    )
