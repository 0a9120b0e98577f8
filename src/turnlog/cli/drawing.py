"""Draw a report: a table with bars or a heat map of the week, and notes."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

from turnlog.cli.charts import DAYS, bar, sparkline, week_map
from turnlog.cli.layouts import ReportLayout, layout_of, number, text
from turnlog.cli.output import plain, wrap
from turnlog.cli.tables import GAP, Column, draw_table
from turnlog.cli.terminal import Look, dim, style
from turnlog.index.reports.reports import CARRYING, MARKS, Report, Row, footnotes_of
from turnlog.render.text_layout import cells_of
from turnlog.text import money, short_count, short_duration

BY_AGENTS = "└"
LOWERED = ("cost_usd", "tokens", "output")
"""Columns whose values are too low if prices or token counts are unknown."""
SHORTEST_BAR = 5
WORTH_A_LINE = 8
"""Minimum number of periods for a sparkline; with fewer, the table alone is clearer."""
HOURS = 24


def draw_report(
    report: Report, rows: list[Row], room: int, drawn: str | None, by: tuple[str, ...] = ()
) -> Iterator[str]:
    """Draw `rows` of a report; `drawn` names the figure that the bars or the heat map show."""
    if report.name == "hour" and not by:
        yield from _draw_week(report, room, drawn or "turns")
        if drawn not in LOWERED:
            return
    else:
        if report.name in STEPS and not by and len(report.rows) >= WORTH_A_LINE:
            yield from _draw_line(report, room)
        layout = layout_of(report.name, by)
        if layout.bar and drawn and any(number(row, drawn) is not None for row in rows):
            layout = replace(layout, bar=drawn)
        yield from _draw_rows(report, rows, layout, room)
    if report.name == "blocks" and report.rows[-1]["is_active"]:
        yield from _remark(_outlook(report.rows[-1]), room, "green")
    for note in _notes(report):
        yield from _remark(note, room)


def _remark(text: str, room: int, look: Look | None = None) -> Iterator[str]:
    for line in wrap(text, room, indent="  "):
        yield style(line, look)


def _draw_rows(report: Report, rows: list[Row], layout: ReportLayout, room: int) -> Iterator[str]:
    last = report.total
    marked = [_marked(row, last) for row in (*rows, last)]
    columns = [
        Column(
            each.head,
            [each.show(row) for row in marked],
            each.is_number,
            each.is_path,
            each.is_whole,
            layout.rank_of(each.head),
        )
        for each in layout.columns
        if each.from_width <= room
    ]
    columns[0] = columns[0]._replace(cells=[*columns[0].cells[:-1], "total"])
    head, *lines, total = draw_table(columns, room)
    yield dim(head.rstrip())
    cells = room - len(GAP) - cells_of(head)
    for line, stroke in zip(lines, _bars(rows, layout.bar, cells), strict=True):
        yield f"{line}{GAP}{style(stroke, 'cyan')}" if stroke else line.rstrip()
    yield style(total.rstrip(), "bold")
    if BY_AGENTS in head:
        yield from _remark(f"{BY_AGENTS} sub-agents; the other figures include them", room, "dim")


def _bars(rows: list[Row], name: str | None, cells: int) -> list[str]:
    if name is None or cells < SHORTEST_BAR:
        return [""] * len(rows)
    values = [number(row, name) or 0 for row in rows]
    return [bar(value, max(values), cells) for value in values]


def _marked(row: Row, total: Row) -> Row:
    """Return a row with the footnote marks of its cost, padded like the marks of the total."""
    shown = [mark if row.get(name) else " " for mark, name in MARKS if total.get(name)]
    return row | {"marks": "".join(shown)}


def _draw_line(report: Report, room: int) -> Iterator[str]:
    """Draw a sparkline of the cost of every period, including those without activity."""
    name = report.columns[0]
    costs = {text(row, name): number(row, "cost_usd") or 0 for row in report.rows if row[name]}
    line = [costs.get(each, 0) for each in _steps(min(costs), max(costs), STEPS[report.name])]
    head = f"cost by {name}, at most {money(max(line))}  "
    if (cells := room - len(head)) > 0:
        yield dim(head) + style(sparkline(line[-cells:]), "cyan")


def _steps(first: str, last: str, days: int) -> Iterator[str]:
    """Yield the names of all days, weeks or months from the first to the last."""
    step = date.fromisoformat(f"{first}-01"[:10])
    while (name := step.isoformat()[: len(first)]) <= last:
        yield name
        step += timedelta(days=days)
        step = step.replace(day=1) if days > 7 else step


def _draw_week(report: Report, room: int, name: str) -> Iterator[str]:
    grid = [[0.0] * HOURS for _ in DAYS]
    for row in report.rows:
        day, hour = number(row, "weekday"), number(row, "hour")
        if day is not None and hour is not None:
            grid[int(day)][int(hour)] = number(row, name) or 0
    cells = max(1, min(4, (room - 16) // HOURS))
    sums = ["", *(short_count(sum(row)) for row in grid)]
    largest = short_count(max(map(max, grid)))
    yield from _remark(f"{name} by hour of the week, at most {largest} in an hour", room, "dim")
    for line, count in zip(week_map(grid, cells), sums, strict=True):
        shades = style(line[5:].ljust(HOURS * cells), "green")
        yield f"{line[:5]}{shades}{count:>7}" if count else dim(line)
    by_hour = sparkline([sum(row[hour] for row in grid) for hour in range(HOURS)])
    yield dim(" " * 5 + "".join(each * cells for each in by_hour).rstrip())


def _outlook(row: Row) -> str:
    ends = datetime.fromisoformat(text(row, "ends"))
    left = short_duration((ends - datetime.now(UTC)).total_seconds())
    end = f"● active, {left} left until {ends.astimezone():%H:%M}"
    if row["projected_tokens"] is None:
        return end
    tokens = short_count(number(row, "projected_tokens"))
    cost = money(number(row, "projected_usd"))
    return f"{end}; at this rate {tokens} tokens, {cost}"


def _notes(report: Report) -> Iterator[str]:
    if report.name == CARRYING:
        yield "Estimated: the cost of each request, distributed by the size of what it sent."
        if report.unpriced_models:
            names = plain(", ".join(report.unpriced_models))
            yield f"Not in the total, as no price is known: {names}"
    yield from map(plain, footnotes_of(report))


STEPS = {"daily": 1, "weekly": 7, "monthly": 31}
"""Reports over time, and the days to add to the start of a period to get into the next one."""
