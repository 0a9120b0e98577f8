"""Draw the rows of a report: bars over time, ranked bars, a map of the week, or quantiles."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from turnlog.errors import UsageError
from turnlog.render.charts.bars import RankedRow, StackPart, ranked_bars, stacked_bars
from turnlog.render.charts.distributions import Spread, quantile_strips
from turnlog.render.charts.heat_maps import week_grid
from turnlog.render.charts.svg import ChartOptions, Value, number, plain_number
from turnlog.text import exact_money, short_count, short_duration

Rows = Sequence[Mapping[str, Any]]
STYLES = Path(__file__).parents[1] / "html" / "viewer"
MARGIN, HEADING = 14.0, 24.0
MOST_PERIODS = 4_000
"""Maximum number of days, weeks or months in a chart, including those without values."""
MOST_BARS = 30
"""Maximum number of rows in a ranked chart; the table has the rest."""
STEPS = {"daily": ("day", 1), "weekly": ("week", 7), "monthly": ("month", 31)}
"""The column of a period, and a number of days that always reaches the next period."""
CACHE_KINDS = {
    "cache_read": "read from the cache",
    "cache_write_5m": "written for 5 minutes",
    "cache_write_1h": "written for an hour",
    "input": "not cached",
}
"""Columns with tokens that requests sent, and their names in a legend."""


class ReportChart(NamedTuple):
    """The report, rows and column to draw."""

    report: str
    rows: Rows
    by: tuple[str, ...] = ()
    """Dimensions that the rows are grouped by besides those of the report."""
    column: str | None = None
    """The figure to draw; by default the one in FIGURES."""
    options: ChartOptions | None = None


def report_chart(wanted: ReportChart) -> str:
    """Return the chart of a report."""
    column = wanted.column or _figure(wanted.report)
    if wanted.rows and not isinstance(wanted.rows[0].get(column), int | float | None):
        raise UsageError(f"{column} is not a number", f"turnlog stats {wanted.report} --format svg")
    options = wanted.options or ChartOptions(
        f"{HEADS.get(wanted.report) or _words(column)} by {_subject(wanted)}",
        show=formatter(column),
        tick=tick_formatter(column),
        labels=axis_label,
    )
    draw = DRAWN.get(wanted.report, _ranked)
    return draw(wanted, column, options)


def formatter(column: str) -> Callable[[float], str]:
    """Return the function that formats the figures of a column."""
    if column.endswith("usd") or column == "usd_per_hour":
        return exact_money
    if "seconds" in column or column in Spread._fields:
        return short_duration
    if column.endswith("rate"):
        return lambda value: f"{value:.1%}"
    return short_count if column in CACHE_KINDS or column.endswith("tokens") else plain_number


def tick_formatter(column: str) -> Callable[[float], str]:
    """Return the function that formats the round numbers of an axis.

    >>> tick_formatter("cost_usd")(0.5), tick_formatter("p50")(0.01), tick_formatter("p50")(3600)
    ('$0.5', '0.01s', '1h')
    """
    show = formatter(column)
    if show is exact_money:
        return lambda value: f"${value:,.0f}" if value >= 1 and value % 1 == 0 else f"${value:g}"
    if show is short_duration:
        return _duration_tick
    return show


def _duration_tick(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:g}s"
    return f"{seconds / 3600:g}h" if seconds % 3600 == 0 else short_duration(seconds)


def _figure(report: str) -> str:
    return FIGURES.get(report, "cost_usd")


def _words(column: str) -> str:
    return FIGURE_HEADS.get(column) or column.removesuffix("_usd").replace("_", " ").capitalize()


def _subject(wanted: ReportChart) -> str:
    subject = STEPS[wanted.report][0] if wanted.report in STEPS else wanted.report
    if wanted.report == "carrying":
        return " and ".join(wanted.by or ("tool",))
    return " and ".join([SUBJECTS.get(subject, subject), *wanted.by])


def axis_label(key: str) -> str:
    """Return a date as an axis shows it.

    >>> axis_label("2026-11-15"), axis_label("2026-11"), axis_label("2026-11-15T10:00:00Z")
    ('Nov 15', 'Nov 2026', 'Nov 15')
    """
    try:
        day = date.fromisoformat(f"{key}-01"[:10])
    except ValueError:
        return key
    return f"{day:%b %Y}" if len(key) == 7 else f"{day:%b} {day.day}"


def periods_between(first: str, last: str, days: int) -> list[str]:
    """Return all days, weeks or months from the first to the last, by their names in a report.

    >>> periods_between("2026-11", "2027-01", 31)
    ['2026-11', '2026-12', '2027-01']
    """
    step, found = date.fromisoformat(f"{first}-01"[:10]), list[str]()
    while (name := step.isoformat()[: len(first)]) <= last:
        found.append(name)
        if step > date.max - timedelta(days=days):
            break
        step += timedelta(days=days)
        step = step.replace(day=1) if days > 7 else step
    return found


def filled_periods(names: Sequence[str], days: int) -> list[str]:
    """Return all periods between the earliest and the latest name.

    A wrong clock could make that millions of periods. If there are too many, return only the given
    names.
    """
    if not names:
        return []
    first, last = (date.fromisoformat(f"{name}-01"[:10]) for name in (min(names), max(names)))
    if (last - first).days > MOST_PERIODS * days:
        return sorted(set(names))
    return periods_between(min(names), max(names), days)


def _over_time(wanted: ReportChart, column: str, options: ChartOptions) -> str:
    period, days = STEPS[wanted.report]
    rows = [row for row in wanted.rows if row[period]]
    parts = [StackPart(row[period], _series(row, wanted.by), row[column]) for row in rows]
    names = [part.period for part in parts]
    periods = filled_periods(names, days)
    return stacked_bars(_summed(parts), periods, options)


def _series(row: Mapping[str, Any], by: tuple[str, ...]) -> str:
    return " · ".join(str(row[name] or "none") for name in by)


def _summed(parts: Sequence[StackPart]) -> list[StackPart]:
    """Add up parts of the same period and series: rows may have dimensions that are not drawn."""
    sums: dict[tuple[str, str], Value] = {}
    for part in parts:
        place = (part.period, part.series)
        before = sums.get(place)
        sums[place] = part.value if before is None else before + (part.value or 0)
    return [StackPart(*place, value) for place, value in sums.items()]


def _blocks(wanted: ReportChart, column: str, options: ChartOptions) -> str:
    parts = [StackPart(row["started"], "", row[column]) for row in wanted.rows]
    return stacked_bars(parts, [part.period for part in parts], options)


def _cache(wanted: ReportChart, column: str, options: ChartOptions) -> str:
    """Draw the tokens of each day: read from the cache, written to it, and not cached."""
    rows = [row for row in wanted.rows if row["day"]]
    kinds = CACHE_KINDS.items()
    parts = [StackPart(row["day"], name, row[kind]) for row in rows for kind, name in kinds]
    names = [part.period for part in parts]
    periods = filled_periods(names, 1)
    return stacked_bars(parts, periods, options)


def _week(wanted: ReportChart, column: str, options: ChartOptions) -> str:
    hours: dict[tuple[int, int], Value] = {}
    for row in wanted.rows:
        if row["weekday"] is not None:
            place = (row["weekday"], row["hour"])
            before = hours.get(place)
            hours[place] = row[column] if before is None else before + (row[column] or 0)
    return week_grid(hours, options)


def _spreads(wanted: ReportChart, column: str, options: ChartOptions) -> str:
    rows = [
        Spread(row["name"], *(row[name] for name in ("calls", *QUANTILES)))
        for row in wanted.rows[:MOST_BARS]
    ]
    return quantile_strips(rows, options)


def _ranked(wanted: ReportChart, column: str, options: ChartOptions) -> str:
    dimensions = DIMENSIONS.get(wanted.report, (wanted.report,))
    # Carrying costs are grouped by the given dimensions instead of their own.
    grouped = wanted.by if wanted.report == "carrying" and wanted.by else (*dimensions, *wanted.by)
    names = tuple(dict.fromkeys(grouped))
    rows = [
        RankedRow(_series(row, names), row[column], _label(row, wanted, names))
        for row in wanted.rows[:MOST_BARS]
    ]
    return ranked_bars(rows, options)


def _label(row: Mapping[str, Any], wanted: ReportChart, names: tuple[str, ...]) -> str | None:
    if wanted.report == "session" and row.get("title"):
        return f"{row['title']}  ({str(row['session'])[:8]})"
    return None


def standalone(svg: str) -> str:
    """Return a chart as a standalone file, with the styles that a page would load."""
    styles = "".join((STYLES / name).read_text("utf-8") for name in ("theme.css", "charts.css"))
    # There is no page around it, so add a heading, a margin, and a background for both colour
    # schemes.
    ground = ":root { background: var(--background); }\n"
    at = svg.index(">") + 1
    title = svg[svg.index("<title>") + 7 : svg.index("</title>")]
    heading = f'<text x="0" y="-14" class="tl-label tl-heading">{title}</text>'
    start = re.sub(r'viewBox="0 0 (\S+) (\S+)"', _with_margin, svg[:at])
    return f"{start}<style>{styles}{ground}</style>{svg[at:-6]}{heading}</svg>\n"


def _with_margin(found: re.Match[str]) -> str:
    width, height = (float(each) for each in found.groups())
    view = (-MARGIN, -MARGIN - HEADING, width + 2 * MARGIN, height + 2 * MARGIN + HEADING)
    return f'viewBox="{" ".join(map(number, view))}"'


QUANTILES = ("p25", "p50", "p75", "p95", "slowest")
FIGURES = {
    "tool": "calls",
    "file": "changes",
    "errors": "errors",
    "hour": "turns",
    "latency": "p50",
    "rereads": "rereads",
    "cache": "cache_read",
}
"""The figure that a chart of a report shows by default."""
FIGURE_HEADS = {"rereads": "Re-reads"}
"""Names of figures that differ from their columns."""
HEADS = {
    "latency": "Duration of calls",
    "cache": "Tokens sent",
    "carrying": "Estimated carrying cost",
}
"""Headings of charts that show more than one column."""
SUBJECTS = {
    "hour": "hour of the week",
    "latency": "tool",
    "cache": "day",
    "blocks": "five-hour block",
    "rereads": "file",
}
DIMENSIONS = {
    "tool": ("name",),
    "file": ("path",),
    "rereads": ("path",),
    "branch": ("project", "branch"),
    "errors": ("tool", "command"),
    "carrying": ("tool",),
}
"""Columns that name a row, if they differ from the report's name."""
DRAWN: dict[str, Callable[[ReportChart, str, ChartOptions], str]] = {
    "daily": _over_time,
    "weekly": _over_time,
    "monthly": _over_time,
    "blocks": _blocks,
    "cache": _cache,
    "hour": _week,
    "latency": _spreads,
}
