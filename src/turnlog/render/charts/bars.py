"""Bar charts: periods with stacked series, and ranked rows."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from turnlog.render.charts.scales import every_nth, largest_of, ticks, top_series
from turnlog.render.charts.svg import (
    WIDTH,
    Attribute,
    ChartOptions,
    Value,
    chart,
    clipped,
    element,
    empty_chart,
    label,
    mark,
)

PLOT, TOP, FOOT = 180, 22, 24
"""Heights of the plot, of the room above it and of the axis below."""
LEFT = 4
AXIS = 66
"""Left edge of the plot, right of the axis labels."""
MOST_LABELS = 8
ROW = 40
"""Height of a ranked row: a line of text with a bar below."""
VALUE_ROOM = 120
PATH_ROOM = 54
"""Characters of a path that fit beside a value, also on a narrow screen."""


class StackPart(NamedTuple):
    """The value of one series in one period."""

    period: str
    series: str
    value: Value


class RankedRow(NamedTuple):
    """A bar with its label."""

    key: str
    value: Value
    label: str | None = None
    """Label to show instead of the key."""
    note: str = ""
    """Shown after the value, such as an error rate."""


def stacked_bars(parts: Iterable[StackPart], periods: Sequence[str], options: ChartOptions) -> str:
    """Return bars over time, one per period, stacked by series, with a legend.

    `periods` are all periods in their order, also those without a value.
    """
    # A part of nothing has no height, and its series would only fill the legend.
    names, rows = top_series(part for part in parts if part.value != 0)
    if not rows or not periods:
        return empty_chart("bars", options)
    stacks: dict[str, dict[str, Value]] = {}
    for period, name, value in rows:
        stacks.setdefault(period, {})[name] = value
    largest = max(sum(value or 0 for value in stack.values()) for stack in stacks.values())
    steps = ticks(largest)
    drawn = [*_grid(steps)]
    room = (WIDTH - AXIS - LEFT) / len(periods)
    for place, period in enumerate(periods):
        x = AXIS + place * room
        drawn += _stack(period, stacks.get(period, {}), names, (x, room, steps[-1]), options)
    drawn += [*_levels(steps, options), *_period_labels(periods, room, options)]
    legend, height = _legend(names, TOP + PLOT + FOOT + 14)
    return chart("bars", height, [*drawn, *legend], options)


def _grid(steps: Sequence[float]) -> Iterable[str]:
    for step in steps:
        y = TOP + PLOT * (1 - step / steps[-1])
        yield element("line", x1=AXIS, x2=WIDTH - LEFT, y1=y, y2=y, class_="tl-grid")


def _levels(steps: Sequence[float], options: ChartOptions) -> Iterable[str]:
    for step in steps:
        y = TOP + PLOT * (1 - step / steps[-1]) + 4
        yield label(options.tick_text(step), AXIS - 6, y, "tl-tick tl-end")


def _stack(
    period: str,
    stack: dict[str, Value],
    names: Sequence[str],
    place: tuple[float, float, float],
    options: ChartOptions,
) -> Iterable[str]:
    x, room, top = place
    bottom = float(TOP + PLOT)
    # A gap keeps bars apart, and none is left where hundreds of bars share the width.
    width = max(room - min(room * 0.2, 4), 0.5)
    for index, name in enumerate(names):
        if name not in stack:
            continue
        value = stack[name]
        height = PLOT * (value or 0) / top
        bottom -= height
        yield mark(
            "rect",
            period,
            value,
            options,
            f"{period}, {name}" if len(names) > 1 else period,
            x=x,
            y=bottom,
            width=width,
            height=height,
            class_=f"tl-mark tl-series-{index + 1}",
            data_series=name,
        )


def _period_labels(periods: Sequence[str], room: float, options: ChartOptions) -> Iterable[str]:
    y = TOP + PLOT + 17
    for nth, place in enumerate(every_nth(len(periods), MOST_LABELS)):
        # Every other label is hidden on a narrow screen, where the text is larger.
        class_ = "tl-tick tl-minor" if nth % 2 else "tl-tick"
        x = AXIS + place * room
        yield label(options.labels(periods[place]), x, y, class_)


def _legend(names: Sequence[str], y: float) -> tuple[list[str], float]:
    """Return the legend and the height of the chart with it."""
    if len(names) == 1:
        return [], y
    columns = 2 if len(names) > 2 else len(names)
    room = (WIDTH - 2 * LEFT) / columns
    drawn: list[str] = []
    for index, name in enumerate(names):
        row, column = divmod(index, columns)
        x, base = LEFT + column * room, y + 12 + row * 24
        key = element(
            "rect", x=x, y=base - 11, width=12, height=12, class_=f"tl-series-{index + 1}"
        )
        drawn += [key, clipped(name or "none", x + 20, base, room - 28, "tl-legend")]
    return drawn, y + 24 * ((len(names) - 1) // columns + 1)


def ranked_bars(rows: Sequence[RankedRow], options: ChartOptions) -> str:
    """Return horizontal bars, each below its label, so that long labels fit narrow screens."""
    if not rows:
        return empty_chart("ranked", options)
    largest = largest_of([row.value for row in rows])
    drawn: list[str] = []
    for place, row in enumerate(rows):
        y = place * ROW
        drawn.append(_bar(row, y, largest, options))
        value = "?" if row.value is None else options.show(row.value)
        shown = f"{value}  {row.note}".rstrip()
        text = _end_of_path(row.key) if row.label is None else row.label
        drawn.append(clipped(text or "none", LEFT, y + 17, WIDTH - VALUE_ROOM - 2 * LEFT))
        drawn.append(label(shown, WIDTH - LEFT, y + 17, "tl-value tl-end"))
    return chart("ranked", len(rows) * ROW, drawn, options)


def _end_of_path(text: str) -> str:
    """Return a path without its start if it is long: its end names the file.

    >>> _end_of_path("/home/ada/" + "deep/" * 12 + "shop.py")
    '…/deep/deep/deep/deep/deep/deep/deep/deep/deep/shop.py'
    """
    if not text.startswith("/") or len(text) <= PATH_ROOM:
        return text
    end = text[1 - PATH_ROOM :]
    at = end.find("/")
    return f"…{end[max(at, 0) :]}"


def _bar(row: RankedRow, y: float, largest: float, options: ChartOptions) -> str:
    share = (row.value or 0) / largest if largest > 0 else 0
    # A value above nothing is always visible.
    width = max((WIDTH - 2 * LEFT) * share, 2 if row.value else 0)
    box: dict[str, Attribute] = {"x": LEFT, "y": y + 24, "width": width, "height": 9, "rx": 2}
    return mark("rect", row.key, row.value, options, row.label, **box, class_="tl-mark tl-series-1")
