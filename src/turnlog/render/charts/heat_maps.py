"""Heat maps: a year of days, and the hours of the week."""

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import NamedTuple

from turnlog.render.charts.scales import SHADES, largest_of, shade
from turnlog.render.charts.svg import WIDTH, ChartOptions, Value, chart, element, label, mark

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
LEFT, TOP = 40, 24
WEEKS = 53
HOURS = 24
GAP = 2


def calendar(
    days: Mapping[str, Value], last: date, options: ChartOptions, weeks: int = WEEKS
) -> str:
    """Return a heat map of the weeks up to a day, with a column per week and a row per weekday.

    `days` maps dates such as `2026-11-15` to values.
    """
    monday = last - timedelta(days=last.weekday())
    first = monday - timedelta(weeks=weeks - 1)
    shown = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    largest = largest_of([days.get(day.isoformat()) for day in shown])
    size = (WIDTH - LEFT) / weeks
    drawn = [*_months(shown, size), *_day_names(size)]
    for day in shown:
        week, weekday = divmod((day - first).days, 7)
        key = day.isoformat()
        value = days.get(key, 0)
        box = Box(LEFT + week * size, TOP + weekday * size, size - GAP, size - GAP)
        drawn.append(_cell(key, value, box, largest, options))
    foot = TOP + 7 * size
    return chart("calendar", foot + 30, [*drawn, *_scale(foot + 10)], options)


class Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float


def _cell(
    key: str, value: Value, box: Box, largest: float, options: ChartOptions, tip: str | None = None
) -> str:
    class_ = f"tl-mark tl-heat-{shade(value or 0, largest)}"
    return mark("rect", key, value, options, tip, **box._asdict(), rx=2, class_=class_)


def _months(shown: Iterable[date], size: float) -> Iterable[str]:
    first: date | None = None
    for day in shown:
        first = first or day
        # Skip a month that starts in the last column: its name would be cut off.
        week = (day - first).days // 7
        if day.day == 1 and week < WEEKS - 2:
            yield label(f"{day:%b}", LEFT + week * size, TOP - 8, "tl-tick")


def _day_names(size: float) -> Iterable[str]:
    for weekday in (0, 2, 4):
        yield label(DAYS[weekday], 0, TOP + weekday * size + size - 3, "tl-tick")


def _scale(y: float) -> Iterable[str]:
    """Draw the shades from less to more."""
    x = WIDTH - 5 * 16 - 44
    yield label("less", x - 6, y + 11, "tl-tick tl-end")
    for nth in range(SHADES + 1):
        yield element(
            "rect", x=x + nth * 16, y=y, width=13, height=13, rx=2, class_=f"tl-heat-{nth}"
        )
    yield label("more", x + 5 * 16 + 4, y + 11, "tl-tick")


def week_grid(hours: Mapping[tuple[int, int], Value], options: ChartOptions) -> str:
    """Return a heat map of weekdays and hours; the key of Monday at nine is `0 9`."""
    largest = largest_of(list(hours.values()))
    width, height = (WIDTH - LEFT - 6) / HOURS, 24.0
    drawn: list[str] = []
    for hour in range(0, HOURS, 3):
        class_ = "tl-tick tl-minor" if hour % 6 else "tl-tick"
        drawn.append(label(f"{hour:02d}", LEFT + 6 + hour * width, TOP - 8, class_))
    for weekday, name in enumerate(DAYS):
        y = TOP + weekday * height
        drawn.append(label(name, 0, y + 16, "tl-tick"))
        for hour in range(HOURS):
            value = hours.get((weekday, hour), 0)
            box = Box(LEFT + 6 + hour * width, y, width - GAP, height - GAP)
            tip = f"{name} {hour:02d}:00"
            drawn.append(_cell(f"{weekday} {hour}", value, box, largest, options, tip))
    foot = TOP + 7 * height
    return chart("week", foot + 30, [*drawn, *_scale(foot + 8)], options)
