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
    text_width,
)

PLOT, TOP, FOOT = 180, 22, 24
"""Heights of the plot, the space above it and the axis below."""
LEFT = 4
AXIS = 66
"""Left edge of the plot, right of the axis labels."""
MOST_LABELS = 8
ROW = 40
"""Height of a ranked row: a line of text with a bar below."""
GAP = 12
"""Space between the label of a ranked row and its value."""
LARGEST_TEXT = 22
"""Font size on narrow screens, which charts.css sets."""
MOST_CHARACTERS = 100
"""Maximum characters of a path that could fit beside a value."""
FIGURE_SPACE = "\u2007"
THINNEST, WIDEST = 1.5, 72
"""Minimum width of a bar, so that it stays visible, and maximum width, as for a single bar."""


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
    """Shown after the value, such as an error rate; padded to the longest note of all rows."""


def stacked_bars(parts: Iterable[StackPart], periods: Sequence[str], options: ChartOptions) -> str:
    """Return bars over time, one per period, stacked by series, with a legend.

    `periods` lists all periods in order, including those without a value.
    """
    # Skip zeros: they have no height, and their series would only clutter the legend.
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
    # Keep bars apart, but without a gap if hundreds of bars share the width.
    width = min(max(room - min(room * 0.2, 4), THINNEST), WIDEST)
    class_ = "tl-mark tl-thin" if width == THINNEST else "tl-mark"
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
            class_=f"{class_} tl-series-{index + 1}",
            data_series=name,
        )


def _period_labels(periods: Sequence[str], room: float, options: ChartOptions) -> Iterable[str]:
    y = TOP + PLOT + 17
    places = every_nth(len(periods), MOST_LABELS)
    year = "" if periods[0][:4] != periods[places[-1]][:4] else periods[0][:4]
    for nth, place in enumerate(places):
        x, period = AXIS + place * room, periods[place]
        text = options.labels(period)
        # Every other label is hidden on a narrow screen, where the text is larger. So the first
        # remaining label of each year must name the year.
        is_minor = nth % 2 == 1
        if period[:4] != year and text != period and period[:4] not in text:
            text = f"{text} {period[:4]}"
        year = year if is_minor else period[:4]
        yield label(text, x, y, "tl-tick tl-minor" if is_minor else "tl-tick")


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
        text = _end_of_path(name or "none", room - 28)
        drawn += [key, clipped(text, x + 20, base, room - 28, "tl-legend")]
    return drawn, y + 24 * ((len(names) - 1) // columns + 1)


def ranked_bars(rows: Sequence[RankedRow], options: ChartOptions) -> str:
    """Return horizontal bars, each below its label, so that long labels fit narrow screens."""
    if not rows:
        return empty_chart("ranked", options)
    largest = largest_of([row.value for row in rows])
    longest = max(len(row.note) for row in rows)
    drawn: list[str] = []
    for place, row in enumerate(rows):
        y = place * ROW
        drawn.append(_bar(row, y, largest, options))
        value = "?" if row.value is None else options.show(row.value)
        # Notes mostly differ in their number of digits. Padding with spaces as wide as digits
        # aligns the values.
        note = row.note and row.note.rjust(longest, FIGURE_SPACE)
        shown = f"{value}  {note}".rstrip()
        width = WIDTH - 2 * LEFT - GAP - text_width(shown, LARGEST_TEXT)
        text = _end_of_path(row.key, width) if row.label is None else row.label
        drawn.append(clipped(text or "none", LEFT, y + 17, width))
        drawn.append(label(shown, WIDTH - LEFT, y + 17, "tl-value tl-end"))
    return chart("ranked", len(rows) * ROW, drawn, options)


def _end_of_path(text: str, width: float) -> str:
    """Return a path without its start if it is too wide: its end names the file.

    >>> _end_of_path("/home/ada/" + "deep/" * 12 + "shop.py", 400)
    '…/deep/deep/deep/deep/shop.py'
    """
    if not text.startswith("/") or text_width(text, LARGEST_TEXT) <= width:
        return text
    end = text[-MOST_CHARACTERS:]
    while "/" in end[1:] and text_width(f"…{end}", LARGEST_TEXT) > width:
        end = end[end.index("/", 1) :]
    return f"…{end}"


def _bar(row: RankedRow, y: float, largest: float, options: ChartOptions) -> str:
    share = (row.value or 0) / largest if largest > 0 else 0
    # A value above zero is always visible.
    width = max((WIDTH - 2 * LEFT) * share, 2 if row.value else 0)
    box: dict[str, Attribute] = {"x": LEFT, "y": y + 24, "width": width, "height": 9, "rx": 2}
    return mark("rect", row.key, row.value, options, row.label, **box, class_="tl-mark tl-series-1")
