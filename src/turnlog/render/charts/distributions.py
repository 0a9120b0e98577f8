"""Distributions: quantiles of durations, one strip for each tool, on a logarithmic scale."""

from collections.abc import Iterable, Sequence
from math import log10
from typing import NamedTuple

from turnlog.render.charts.svg import (
    WIDTH,
    ChartOptions,
    chart,
    clipped,
    element,
    empty_chart,
    label,
    linked,
    mark,
)
from turnlog.text import plural

ROW, LEFT, TOP = 44, 4, 24
LEAST = 0.01
"""Start of the scale, in seconds; shorter durations are drawn there."""
DECADES = (0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 36000.0)


class Spread(NamedTuple):
    """Quantiles of the values of one row, in seconds."""

    key: str
    calls: int
    p25: float
    p50: float
    p75: float
    p95: float
    slowest: float


def quantile_strips(rows: Sequence[Spread], options: ChartOptions) -> str:
    """Return a strip per row: a box for the middle half, marks for p50, p95 and the slowest."""
    if not rows:
        return empty_chart("quantiles", options)
    top = max(row.slowest for row in rows)
    right = next((each for each in DECADES if each >= top), top)
    drawn = [*_axis(right, len(rows), options)]
    for place, row in enumerate(rows):
        drawn += _strip(row, TOP + place * ROW, right, options)
    return chart("quantiles", TOP + len(rows) * ROW + 6, drawn, options)


def _x(seconds: float, right: float) -> float:
    share = log10(max(seconds, LEAST) / LEAST) / max(log10(right / LEAST), 1e-9)
    return LEFT + (WIDTH - 2 * LEFT) * min(share, 1)


def _axis(right: float, count: int, options: ChartOptions) -> Iterable[str]:
    for nth, step in enumerate(each for each in DECADES if each <= right):
        x = _x(step, right)
        class_ = "tl-tick tl-minor" if nth % 2 else "tl-tick"
        is_last = step == right
        yield element("line", x1=x, x2=x, y1=TOP - 4, y2=TOP + count * ROW, class_="tl-grid")
        yield label(options.tick_text(step), x, TOP - 9, f"{class_} tl-end" if is_last else class_)


def _strip(row: Spread, y: float, right: float, options: ChartOptions) -> Iterable[str]:
    middle = y + 29
    # The whisker ends at the slowest call, because people look for outliers.
    ends = _x(row.p25, right), _x(row.slowest, right)
    whisker = element("line", x1=ends[0], x2=ends[1], y1=middle, y2=middle, class_="tl-whisker")
    box = element(
        "rect",
        x=ends[0],
        y=middle - 6,
        width=max(_x(row.p75, right) - ends[0], 1.0),
        height=12,
        class_="tl-box",
    )
    text = f"{row.key}  {plural(row.calls, 'call')}, median {_shown(row.p50, options)}"
    address = options.link(row.key) if options.link else None
    yield linked(f"{whisker}{box}", address, text)
    yield clipped(text, LEFT, y + 16, WIDTH - 2 * LEFT)
    for name in ("p25", "p50", "p75", "p95", "slowest"):
        yield _quantile(row, name, (right, middle), options)


def _shown(seconds: float, options: ChartOptions) -> str:
    """Format a duration; short ones get enough digits not to appear as zero."""
    return f"{seconds:.2g}s" if LEAST / 10 <= seconds < 0.095 else options.show(seconds)


def _quantile(row: Spread, name: str, place: tuple[float, float], options: ChartOptions) -> str:
    value: float = getattr(row, name)
    right, middle = place
    return mark(
        "rect",
        row.key,
        value,
        ChartOptions("", show=lambda seconds: _shown(seconds, options)),
        f"{row.key}, {name}",
        x=_x(value, right) - 1.5,
        y=middle - 8,
        width=3,
        height=16,
        class_=f"tl-mark tl-quantile tl-{name}",
        data_quantile=name,
    )
