"""The tools page: calls, error rates and durations of each tool, and the errors."""

from collections.abc import Callable, Sequence
from typing import Any

from turnlog.format.timestamps import parse_timestamp
from turnlog.index.reports.reports import Report, ReportRequest, Row
from turnlog.render.charts.bars import RankedRow, ranked_bars
from turnlog.render.charts.report_charts import ReportChart, report_chart, tick_formatter
from turnlog.render.charts.svg import ChartOptions, plain_number
from turnlog.store.paths import Store
from turnlog.text import percent, short_duration
from turnlog.web.report_data import (
    FILTERS,
    PageLinks,
    Params,
    address,
    choice,
    csv_of,
    filters_in,
    reports_of,
    stats_command,
)

SHOWN = 20
MOST_ERRORS = 50
AGES = (("7 days", "7d"), ("30 days", "30d"), ("90 days", "90d"), ("year", "365d"), ("all", None))
ORDERS = ("calls", "errors", "error_rate", "seconds")


def tools_page(stores: Sequence[Store], params: Params) -> dict[str, Any]:
    """Return the values of the tools page."""
    order = choice(params, "order", ORDERS)
    filters = filters_in(params)
    names = ("tool", "latency", "errors")
    tools, latency, errors = reports_of(stores, [ReportRequest(name, filters) for name in names])
    rows = sorted(tools.rows, key=lambda row: -_number(row, order))
    links = PageLinks("/tools", params)
    return {
        "params": {name: params.get(name, "") for name in FILTERS},
        "hidden": {"order": order},
        "ages": [(name, links.to(since=age, until=None)) for name, age in AGES],
        "orders": [(name, links.to(order=key), key == order) for key, name in ORDER_NAMES.items()],
        "chart": _chart(rows[:SHOWN], order),
        "latency": _latency(latency),
        "tools": [_tool(row) for row in rows],
        "errors": [_error(row) for row in errors.rows[:MOST_ERRORS]],
        "csv": links.to(format="csv"),
        "commands": {
            "tools": stats_command("tool", params, "--order", order),
            "latency": stats_command("latency", params),
            "errors": stats_command("errors", params),
        },
    }


def tools_csv(stores: Sequence[Store], params: Params) -> str:
    """Return the table of tools as CSV."""
    return csv_of(reports_of(stores, [ReportRequest("tool", filters_in(params))])[0])


def tool_link(name: str) -> str | None:
    """Return the address of the sessions that called a tool."""
    # A row for all tools of an MCP server has a name that no single tool has.
    return None if name.endswith("*") else address("/sessions", tool=name)


def _number(row: Row, name: str) -> float:
    value = row.get(name)
    return value if isinstance(value, int | float) else 0


def _chart(rows: Sequence[Row], order: str) -> str:
    bars = [
        RankedRow(
            str(row["name"]),
            _number(row, order),
            note=f"{percent(_number(row, 'error_rate'))} failed",
        )
        for row in rows
    ]
    options = ChartOptions(f"{ORDER_NAMES[order]} by tool", show=SHOWS[order], link=tool_link)
    return ranked_bars(bars, options)


def _latency(report: Report) -> str:
    options = ChartOptions(
        "Duration of calls by tool",
        "A box from the first to the third quartile, with the median; then the 95th percentile and "
        "the slowest call, on a logarithmic scale.",
        show=short_duration,
        tick=tick_formatter("p50"),
        link=tool_link,
    )
    return report_chart(ReportChart("latency", report.rows[:SHOWN], (), None, options))


def _tool(row: Row) -> dict[str, Any]:
    return {
        "name": row["name"],
        "link": tool_link(str(row["name"])),
        "cells": [
            f"{_number(row, 'sessions'):,.0f}",
            f"{_number(row, 'calls'):,.0f}",
            f"{_number(row, 'errors'):,.0f}",
            percent(_number(row, "error_rate")),
            f"{_number(row, 'rejected'):,.0f}",
            short_duration(_number(row, "seconds")),
            short_duration(_number(row, "seconds_each")),
            f"+{_number(row, 'added'):,.0f}",
            f"−{_number(row, 'removed'):,.0f}",
        ],
    }


def _error(row: Row) -> dict[str, Any]:
    last = parse_timestamp(str(row["last"] or ""))
    return {
        "tool": row["tool"],
        "command": row["command"] or "",
        "calls": row["calls"],
        "errors": row["errors"],
        "rate": percent(_number(row, "error_rate")),
        "rejected": row["rejected"],
        "last": f"{last.astimezone():%Y-%m-%d %H:%M}" if last else "",
        "text": row["last_error"] or "",
    }


ORDER_NAMES = {
    "calls": "Calls",
    "errors": "Failed calls",
    "error_rate": "Share of failed calls",
    "seconds": "Time",
}
SHOWS: dict[str, Callable[[float], str]] = {
    "calls": plain_number,
    "errors": plain_number,
    "error_rate": percent,
    "seconds": short_duration,
}
