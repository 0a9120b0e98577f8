"""Compute the figures of a message: tokens by kind, and cost in dollars."""

from datetime import UTC, datetime
from functools import lru_cache

from turnlog.conversation.cost import cache_writes, cost_on, searches
from turnlog.format.blocks import Usage

FIGURES = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "searches", "cost")
"""Columns of `messages` with figures."""

LARGEST = 10**12
"""Larger or negative numbers are discarded as implausible; `Tokens` has the same bounds."""

DAY = 86400
Figures = tuple[float | None, ...]


def figures_of(model: str | None, at: float | None, usage: Usage) -> Figures:
    """Return the figures of a message in the order of `FIGURES`."""
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
