"""The figures of a message: tokens by kind, and dollars."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache

from turnlog.conversation.cost import cache_writes, cost_on, searches
from turnlog.format.blocks import Usage
from turnlog.format.fields import given

FIGURES = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "searches", "cost")
"""The columns that hold them."""

LARGEST = 10**12
"""A count that is larger, or below nothing, is none."""

DAY = 86400
Figures = tuple[float | None, ...]


def sound_usage(usage: Usage | None) -> Usage:
    """Return a usage, or an empty one in place of one with an impossible count."""
    if usage is None:
        return Usage()
    counts = list(_counts(usage))
    return usage if min(counts) >= 0 and max(counts) <= LARGEST else Usage()


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
    return (
        usage.input_tokens or 0,
        usage.output_tokens or 0,
        *cache_writes(usage),
        usage.cache_read_input_tokens or 0,
        searches(usage),
        cost_on(model, usage, None if at is None else _day(at // DAY)),
    )


@lru_cache(4096)
def _day(number: float) -> str:
    return datetime.fromtimestamp(number * DAY, UTC).date().isoformat()
