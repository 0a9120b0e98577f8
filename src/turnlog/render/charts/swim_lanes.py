"""Swim lanes: the activity of sessions and sub-agents over time, with idle time collapsed."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from turnlog.render.charts.svg import (
    WIDTH,
    ChartOptions,
    chart,
    clipped,
    element,
    empty_chart,
    exact,
    label,
    linked,
    safe_text,
)
from turnlog.text import short_duration

LANE, TOP = 52, 24
GAP = 18.0
"""Width of a collapsed pause."""
LONGEST_PAUSE = 60.0
"""Longer pauses, in seconds without activity in any lane, are collapsed."""


class Interval(NamedTuple):
    """An activity with its start and end, in seconds."""

    start: float
    end: float
    label: str
    kind: str = "work"
    """`work`, `wait` or `error`: how it is coloured."""
    key: str | None = None
    """Value for the link; by default the label."""


class Lane(NamedTuple):
    """A session or sub-agent with its intervals."""

    name: str
    intervals: Sequence[Interval]


class _Stretch(NamedTuple):
    """A period of activity in any lane, and its position in the chart."""

    start: float
    end: float
    x: float = 0.0
    scale: float = 0.0
    """Units per second."""


def swim_lanes(
    lanes: Sequence[Lane], options: ChartOptions, longest_pause: float = LONGEST_PAUSE
) -> str:
    """Return lanes over time; long pauses common to all lanes are collapsed and marked."""
    everything = [each for lane in lanes for each in lane.intervals]
    if not everything:
        return empty_chart("lanes", options)
    stretches = _laid_out(_stretches(everything, longest_pause))
    height = TOP + len(lanes) * LANE
    drawn = [*_pauses(stretches, height)]
    for place, lane in enumerate(lanes):
        y = TOP + place * LANE
        drawn.append(element("line", x1=0, x2=WIDTH, y1=y, y2=y, class_="tl-grid"))
        drawn.append(clipped(lane.name, 4, y + 17, WIDTH - 8))
        drawn += [_interval(lane, each, y, stretches, options) for each in lane.intervals]
    return chart("lanes", height + 4, drawn, options)


def _stretches(intervals: Iterable[Interval], longest_pause: float) -> list[_Stretch]:
    found: list[_Stretch] = []
    for each in sorted(intervals):
        end = max(each.start, each.end)
        if found and each.start - found[-1].end <= longest_pause:
            found[-1] = found[-1]._replace(end=max(found[-1].end, end))
        else:
            found.append(_Stretch(each.start, end))
    return found


def _laid_out(stretches: Sequence[_Stretch]) -> list[_Stretch]:
    pauses = len(stretches) - 1
    # With hundreds of pauses, the gaps themselves must not take more than a third of the width.
    gap = min(GAP, WIDTH / 3 / max(pauses, 1))
    busy = sum(each.end - each.start for each in stretches)
    scale = (WIDTH - pauses * gap) / max(busy, 1e-3)
    x, placed = 0.0, list[_Stretch]()
    for each in stretches:
        placed.append(each._replace(x=x, scale=scale))
        x += (each.end - each.start) * scale + gap
    return placed


def _pauses(stretches: Sequence[_Stretch], height: float) -> Iterable[str]:
    for before, after in pairwise(stretches):
        x = before.x + (before.end - before.start) * before.scale
        idle = after.start - before.end
        shown = f"idle {short_duration(idle)}"
        band = element(
            "rect",
            element("title", safe_text(shown)),
            x=x,
            y=TOP,
            width=after.x - x,
            height=height - TOP,
            class_="tl-idle",
            data_event="idle",
            data_value=exact(idle),
        )
        middle = (x + after.x) / 2
        yield band
        if after.x - x >= GAP:
            yield label(short_duration(idle), middle, TOP - 8, "tl-tick tl-middle")


def _interval(
    lane: Lane,
    interval: Interval,
    y: float,
    stretches: Sequence[_Stretch],
    options: ChartOptions,
) -> str:
    home = stretches[bisect_right(stretches, interval.start, key=lambda each: each.start) - 1]
    took = max(interval.end - interval.start, 0.0)
    shown = f"{lane.name}, {interval.label}: {options.show(took)}"
    shape = element(
        "rect",
        element("title", safe_text(shown)),
        x=home.x + (interval.start - home.start) * home.scale,
        y=y + 28,
        width=max(took * home.scale, 1.0),
        height=LANE - 34,
        class_=f"tl-mark tl-lane-{interval.kind if interval.kind in KINDS else 'work'}",
        data_key=interval.label,
        data_value=exact(took),
        data_start=exact(interval.start),
        data_lane=lane.name,
    )
    return linked(shape, options.link(interval.key or interval.label) if options.link else None)


KINDS = frozenset({"work", "wait", "error"})
