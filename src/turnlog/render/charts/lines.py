"""Line charts: sparklines, and the fill level of a session's context."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from turnlog.render.charts.scales import every_nth, largest_of, ticks
from turnlog.render.charts.svg import (
    WIDTH,
    Attribute,
    ChartOptions,
    Value,
    chart,
    element,
    empty_chart,
    label,
    mark,
    number,
    safe_text,
)

SPARK_WIDTH, SPARK_HEIGHT = 160, 36
PLOT, TOP, LEFT = 160, 22, 4
AXIS = 66
"""Left edge of the plot, right of the axis labels."""
MOST_LABELS = 8


def sparkline(values: Sequence[tuple[str, Value]], options: ChartOptions) -> str:
    """Return a small bar for each value, without axes."""
    largest = largest_of([value for _, value in values])
    room = SPARK_WIDTH / max(len(values), 1)
    drawn: list[str] = []
    for place, (key, value) in enumerate(values):
        height = (SPARK_HEIGHT - 2) * (value or 0) / largest if largest > 0 else 0
        # A line of half a unit marks a period without activity.
        height = max(height, 0.5)
        bar = mark(
            "rect",
            key,
            value,
            options,
            x=place * room,
            y=SPARK_HEIGHT - height,
            width=max(room - min(room * 0.2, 2), 0.5),
            height=height,
            class_="tl-mark tl-spark",
        )
        drawn.append(bar)
    return chart("sparkline", SPARK_HEIGHT, drawn, options, SPARK_WIDTH)


class ContextPoint(NamedTuple):
    """The size of the context after a message."""

    key: str
    """The turn or line, as the axis shows it."""
    tokens: int
    is_compaction: bool = False
    """True if the context was compacted just before."""


def context_line(points: Sequence[ContextPoint], limit: int | None, options: ChartOptions) -> str:
    """Return the fill level of the context over a session, with its compactions and its limit."""
    if not points:
        return empty_chart("context", options)
    steps = ticks(max([point.tokens for point in points] + ([limit] if limit else [])))
    room = (WIDTH - AXIS - LEFT) / max(len(points) - 1, 1)
    places = [
        (AXIS + place * room, TOP + PLOT * (1 - point.tokens / steps[-1]))
        for place, point in enumerate(points)
    ]
    drawn = [*_levels(steps, limit, options), *_curve(places)]
    for point, (x, y) in zip(points, places, strict=True):
        if point.is_compaction:
            drawn.append(_compaction(point, x))
        dot: dict[str, Attribute] = {"cx": x, "cy": y, "r": min(3.0, max(room / 3, 0.6))}
        drawn.append(
            mark("circle", point.key, point.tokens, options, None, **dot, class_="tl-mark")
        )
    base = TOP + PLOT + 17
    for nth, place in enumerate(every_nth(len(points), MOST_LABELS)):
        class_ = "tl-tick tl-minor" if nth % 2 else "tl-tick"
        drawn.append(label(options.labels(points[place].key), places[place][0], base, class_))
    return chart("context", TOP + PLOT + 24, drawn, options)


def _levels(steps: Sequence[float], limit: int | None, options: ChartOptions) -> Iterable[str]:
    for step in steps:
        y = TOP + PLOT * (1 - step / steps[-1])
        yield element("line", x1=AXIS, x2=WIDTH - LEFT, y1=y, y2=y, class_="tl-grid")
        yield label(options.tick_text(step), AXIS - 6, y + 4, "tl-tick tl-end")
    if limit:
        y = TOP + PLOT * (1 - limit / steps[-1])
        line: dict[str, Attribute] = {"x1": AXIS, "x2": WIDTH - LEFT, "y1": y, "y2": y}
        yield mark("line", "limit", limit, options, "context window", **line, class_="tl-limit")


def _curve(places: Sequence[tuple[float, float]]) -> Iterable[str]:
    line = " ".join(f"{number(x)},{number(y)}" for x, y in places)
    floor = TOP + PLOT
    yield element(
        "polygon",
        points=f"{number(places[0][0])},{floor} {line} {number(places[-1][0])},{floor}",
        class_="tl-area",
    )
    yield element("polyline", points=line, class_="tl-line")


def _compaction(point: ContextPoint, x: float) -> str:
    title = element("title", safe_text(f"compaction before {point.key}"))
    line = element("line", x1=x, x2=x, y1=TOP, y2=TOP + PLOT, class_="tl-compaction")
    return element("g", title, line, class_="tl-event", data_event="compaction", data_key=point.key)
