"""The cost page: costs by period, model, project or store; cache use; the value of a plan."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from turnlog.format.timestamps import parse_timestamp
from turnlog.index.reports.reports import (
    Report,
    ReportRequest,
    Row,
    compare_with_plan,
    footnotes_of,
    marks_of,
)
from turnlog.render.charts.report_charts import (
    ReportChart,
    axis_label,
    formatter,
    report_chart,
    tick_formatter,
)
from turnlog.render.charts.svg import ChartOptions
from turnlog.store.paths import Store
from turnlog.text import money, percent, short_count
from turnlog.web.carrying_section import carrying_section
from turnlog.web.report_data import (
    FILTERS,
    PageLinks,
    Params,
    address,
    choice,
    csv_of,
    filters_in,
    number_in,
    reports_of,
    session_link,
    stats_command,
)

SHOWN = 200
"""Maximum rows of the table; the CSV has all rows."""
FIGURES = ("cost_usd", "tokens", "output", "cache_read", "agent_cost_usd")
SPLITS = ("model", "project", "store", "branch", "none")
STORE = "store"
"""A grouping that is offered only if there are several stores."""
AGES = (("7 days", "7d"), ("30 days", "30d"), ("90 days", "90d"), ("year", "365d"), ("all", None))


class CostGrouping(NamedTuple):
    """A way to group costs."""

    report: str
    name: str
    keys: tuple[str, ...]
    """Columns that name a row."""
    unit: str | None = None
    """Period of a bar on a time axis; such views can be zoomed."""

    @property
    def is_split(self) -> bool:
        """True if bars are stacked by a second dimension."""
        return self.unit is not None and self.unit != "block"


VIEWS = {
    "day": CostGrouping("daily", "day", ("day",), "day"),
    "week": CostGrouping("weekly", "week", ("week",), "week"),
    "month": CostGrouping("monthly", "month", ("month",), "month"),
    "model": CostGrouping("model", "model", ("model",)),
    "project": CostGrouping("project", "project", ("project",)),
    STORE: CostGrouping("store", "store", ("store",)),
    "branch": CostGrouping("branch", "branch", ("branch", "project")),
    "session": CostGrouping("session", "session", ("title", "project")),
    "block": CostGrouping("blocks", "five-hour block", ("started",), "block"),
}


def cost_page(stores: Sequence[Store], params: Params) -> dict[str, Any]:
    """Return the values of the cost page."""
    by, split = choice(params, "by", tuple(VIEWS)), choice(params, "split", SPLITS)
    figure = choice(params, "figure", FIGURES)
    view, filters = VIEWS[by], filters_in(params)
    stack = (split,) if view.is_split and split != "none" else ()
    table, stacked, cache, monthly = reports_of(
        stores,
        [
            ReportRequest(view.report, filters),
            ReportRequest(view.report, filters, stack),
            ReportRequest("cache", filters),
            ReportRequest("monthly", filters),
        ],
    )
    links = PageLinks("/cost", params)
    options = ("--by", split) if stack else ()
    figure = figure if figure in table.columns else "cost_usd"
    return {
        "view": view,
        "views": [(VIEWS[name].name, links.to(by=name), name == by) for name in _offered(stores)],
        "splits": [
            (name, links.to(split=name), name == split) for name in _offered(stores, SPLITS)
        ],
        "figures": _figures(links, table, figure),
        "ages": [(name, links.to(since=age, until=None)) for name, age in AGES],
        "params": {name: params.get(name, "") for name in (*FILTERS, "plan")},
        "hidden": {"by": by, "split": split, "figure": figure},
        "chart": _chart(stacked, stack, figure, view),
        "table": _table(table, view),
        "total": _total(table),
        "footnotes": footnotes_of(table),
        "csv": links.to(format="csv"),
        "command": stats_command(view.report, params),
        "chart_command": stats_command(
            view.report, params, *options, "--order", figure, "--format", "svg", "-o", "cost.svg"
        ),
        "cache": _cache(cache, params),
        "carrying": carrying_section(stores, params),
        "plan": _plan(monthly, number_in(params, "plan"), params),
    }


def _offered(stores: Sequence[Store], names: Iterable[str] = VIEWS) -> list[str]:
    return [name for name in names if name != STORE or len(stores) > 1]


def cost_csv(stores: Sequence[Store], params: Params) -> str:
    """Return the table of the cost page as CSV, with all rows."""
    view = VIEWS[choice(params, "by", tuple(VIEWS))]
    return csv_of(reports_of(stores, [ReportRequest(view.report, filters_in(params))])[0])


def _figures(links: PageLinks, table: Report, chosen: str) -> list[tuple[str, str, bool]]:
    known = [name for name in FIGURES if name in table.columns]
    return [(FIGURE_NAMES[name], links.to(figure=name), name == chosen) for name in known]


def _chart(report: Report, stack: tuple[str, ...], figure: str, view: CostGrouping) -> str:
    title = f"{FIGURE_NAMES[figure]} by {' and '.join((view.name, *stack))}"
    options = ChartOptions(
        title,
        show=formatter(figure),
        tick=tick_formatter(figure),
        link=LINKS.get(view.report),
        labels=axis_label,
    )
    # Reports are in the order of costs, and a ranked chart shows the first rows only.
    rows = report.rows if view.unit else sorted(report.rows, key=lambda row: -_figure(row, figure))
    return report_chart(ReportChart(report.name, rows, stack, figure, options))


def _figure(row: Row, name: str) -> float:
    return _number(row, name) or 0.0


def _table(report: Report, view: CostGrouping) -> dict[str, Any]:
    # Reports over time are in order of time, for charts; others already start with the largest.
    newest_first = report.rows[::-1] if view.unit else report.rows
    heads = [*view.keys, *(name for name, _, _ in COLUMNS if name in report.columns)]
    rows = [
        {
            "link": _row_link(row, view),
            "names": [_name(row, key) for key in view.keys],
            "cells": [_cell(row, key, show) for key, _, show in COLUMNS if key in report.columns],
        }
        for row in newest_first[:SHOWN]
    ]
    titles = [title for key, title, _ in COLUMNS if key in report.columns]
    return {
        "keys": [*view.keys],
        "titles": titles,
        "heads": heads,
        "rows": rows,
        "rest": max(len(report.rows) - SHOWN, 0),
    }


def _name(row: Row, key: str) -> str:
    value = row.get(key)
    if key == "title":
        return str(value or row.get("session") or "")
    if key == "started" and (moment := parse_timestamp(str(value))):
        return f"{moment.astimezone():%Y-%m-%d %H:%M}"
    return str(value) if value is not None else "none"


def _row_link(row: Row, view: CostGrouping) -> str | None:
    if view.report == "session":
        return session_link(str(row["session"]))
    if view.report == "branch":
        names = {name: str(row[name] or "") for name in ("branch", "project")}
        return address("/sessions", **names)
    key = view.keys[0]
    value = str(row[key]) if row[key] else None
    if value is None or view.unit in ("month", "week") or key == STORE:
        return None
    if view.unit == "block":
        return address("/sessions", since=str(row["started"]), until=str(row["ends"]))
    if view.unit == "day":
        return address("/sessions", since=value, until=value)
    return address("/sessions", **{key: value})


def _total(report: Report) -> dict[str, str]:
    total = report.total
    names = [(key, title, show) for key, title, show in COLUMNS if key in total]
    return {title: _cell(total, key, show) for key, title, show in names}


def _cell(row: Row, key: str, show: Callable[[float | None], str]) -> str:
    """Return a figure as text; an incomplete cost has the same marks as in the terminal."""
    return show(_number(row, key)) + (marks_of(row) if key == "cost_usd" else "")


def _cache(report: Report, params: Params) -> dict[str, Any]:
    """Return the tokens read from and written to the cache, the hit rate and the misses."""
    total = report.total
    counts = [_count(total, name) for name in ("cache_read", "cache_write_5m", "cache_write_1h")]
    sent = sum(counts) + _count(total, "input")
    options = ChartOptions(
        "Tokens read from the cache, written to it and sent without it, by day",
        show=short_count,
        labels=axis_label,
    )
    return {
        "chart": report_chart(ReportChart("cache", report.rows, (), None, options)),
        "read": short_count(counts[0]),
        "written": short_count(counts[1] + counts[2]),
        "uncached": short_count(_count(total, "input")),
        "hit_rate": percent(counts[0] / sent) if sent else "",
        "misses": f"{_count(total, 'misses'):,.0f}",
        "missed_tokens": short_count(_count(total, "missed_tokens")),
        "command": stats_command("cache", params),
    }


def _number(row: Row, name: str) -> float | None:
    value = row.get(name)
    return value if isinstance(value, int | float) else None


def _count(row: Row, name: str) -> float:
    return _number(row, name) or 0


def _whole(value: float | None) -> str:
    return f"{value or 0:,.0f}"


def _share(row: Row) -> str:
    """Return the cost as a multiple of the plan's price, or as a share of it."""
    share = _number(row, "plan_share")
    if share is None:
        return ""
    return f"{share:.1f}×" if share >= 1 else percent(share)


def _plan(monthly: Report, price: float | None, params: Params) -> dict[str, Any] | None:
    """Compare the cost of each month with a subscription at a price per month."""
    if price is None:
        return None
    compared = compare_with_plan(monthly, price)
    rows = [
        {
            "month": row["month"],
            "cost": f"{money(_count(row, 'cost_usd'))}{marks_of(row)}",
            "share": _share(row),
        }
        for row in compared.rows[::-1]
        if row["month"]
    ]
    return {
        "price": money(price),
        "rows": rows,
        "value": f"{money(_count(compared.total, 'cost_usd'))}{marks_of(compared.total)}",
        "paid": money(_count(compared.total, "plan_usd")),
        "share": _share(compared.total),
        "command": stats_command("monthly", params, "--plan", f"{price:g}"),
    }


LINKS: dict[str, Callable[[str], str | None]] = {
    "model": lambda key: address("/sessions", model=key),
    "project": lambda key: address("/sessions", project=key),
    "session": session_link,
}
"""Link targets of bars, by report. Bars over time have none, since dragging over them zooms."""
FIGURE_NAMES = {
    "cost_usd": "Cost",
    "tokens": "Tokens",
    "output": "Output tokens",
    "cache_read": "Cache reads",
    "agent_cost_usd": "Cost of sub-agents",
}
COLUMNS: tuple[tuple[str, str, Callable[[float | None], str]], ...] = (
    ("sessions", "sessions", _whole),
    ("turns", "turns", _whole),
    ("messages", "messages", _whole),
    ("input", "input", short_count),
    ("output", "output", short_count),
    ("cache_write_5m", "write 5m", short_count),
    ("cache_write_1h", "write 1h", short_count),
    ("cache_read", "read", short_count),
    ("cost_usd", "cost", money),
    ("agent_cost_usd", "sub-agents", money),
)
"""Columns of the table: name in the report, title, and how a value is shown."""
