"""The pages of `turnlog web --lake`: reports on the sessions of all machines, as charts and tables.

A lake is read again at most once a minute; in between, pages share the tables that were read.
"""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from turnlog.index.reports.reports import Report, ReportRequest, Row, footnotes_of
from turnlog.render.charts.report_charts import (
    ReportChart,
    axis_label,
    formatter,
    report_chart,
    tick_formatter,
)
from turnlog.render.charts.svg import ChartOptions
from turnlog.text import money, percent, short_count, short_duration
from turnlog.web.report_data import (
    FILTERS,
    PageLinks,
    Params,
    choice,
    csv_of,
    filters_in,
    masked_report,
    stats_command,
)

if TYPE_CHECKING:
    from turnlog.lake.lake_reports import LakeSource
    from turnlog.lake.lake_tables import LakeTables

FRESH = 60.0
"""Seconds for which pages share the tables that were read."""
SHOWN = 200
"""Maximum rows of the table; the CSV has all rows."""
FIGURES = ("cost_usd", "tokens", "output", "turns", "calls", "seconds")
SPLITS = ("none", "user", "team", "machine", "project", "model")
AGES = (("7 days", "7d"), ("30 days", "30d"), ("90 days", "90d"), ("year", "365d"), ("all", None))
LAKE_NAVIGATION = {"lake": ("/", "Lake")}


class LakeView(NamedTuple):
    """A way to group the figures of a lake."""

    report: str
    key: str
    """The column that names a row."""
    can_split: bool = False
    """True if bars are stacked by a second dimension."""


LAKE_VIEWS = {
    "day": LakeView("daily", key="day", can_split=True),
    "week": LakeView("weekly", key="week", can_split=True),
    "month": LakeView("monthly", key="month", can_split=True),
    "model": LakeView("model", key="model"),
    "project": LakeView("project", key="project"),
    "tool": LakeView("tool", key="name"),
    "errors": LakeView("errors", key="tool"),
    "latency": LakeView("latency", key="name"),
    "cache": LakeView("cache", key="day"),
}


class LakeLibrary:
    """Computes reports on a lake, and caches its tables for a minute."""

    def __init__(self, source: "LakeSource") -> None:
        self.source = source
        self._lock = Lock()
        self._opened = ExitStack()
        self._tables: LakeTables | None = None
        self._read = 0.0

    def reports(self, requests: list[ReportRequest]) -> list[Report]:
        """Compute reports, masked."""
        from turnlog.lake.lake_reports import compute_lake_report
        from turnlog.lake.lake_storage import retried

        def compute() -> list[Report]:
            with self._current() as tables:
                return [compute_lake_report(tables, self.source, each) for each in requests]

        # One at a time: pages share the engine's connection, which is not thread-safe.
        with self._lock:
            return [masked_report(report) for report in retried(compute)]

    @contextmanager
    def _current(self) -> "Generator[LakeTables]":
        from turnlog.lake.lake_reports import opened_lake

        if self._tables is None or monotonic() - self._read > FRESH:
            self.close()
            self._tables = self._opened.enter_context(opened_lake(self.source))
            self._read = monotonic()
        try:
            yield self._tables
        except BaseException:
            # A compaction may have deleted parts that these tables name: a retry has to list them
            # again.
            self.close()
            raise

    def close(self) -> None:
        """Discard the cached tables."""
        self._tables = None
        self._opened.close()


def lake_page(library: LakeLibrary, params: Params) -> dict[str, Any]:
    """Return the values of the page."""
    by, split = choice(params, "by", tuple(LAKE_VIEWS)), choice(params, "split", SPLITS)
    view = LAKE_VIEWS[by]
    stack = (split,) if split != "none" and view.can_split else ()
    filters = filters_in(params)
    table, stacked = library.reports(
        [ReportRequest(view.report, filters), ReportRequest(view.report, filters, stack)]
    )
    known = [name for name in FIGURES if name in table.columns]
    figure = choice(params, "figure", known or FIGURES)
    links = PageLinks("/", params)
    options = ("--lake", library.source.dest, *(("--by", split) if stack else ()))
    return {
        "navigation": LAKE_NAVIGATION,
        "dest": library.source.dest,
        "views": [(name, links.to(by=name, figure=None), name == by) for name in LAKE_VIEWS],
        "splits": [(name, links.to(split=name), name == split) for name in SPLITS],
        "can_split": view.can_split,
        "figures": [
            (name.replace("_", " "), links.to(figure=name), name == figure) for name in known
        ],
        "ages": [(name, links.to(since=age, until=None)) for name, age in AGES],
        "params": {name: params.get(name, "") for name in FILTERS},
        "hidden": {"by": by, "split": split},
        "chart": _chart(stacked, stack, figure) if known else "",
        "table": _table(stacked, (view.key, *stack)),
        "total": [(name, _shown(name, table.total[name])) for name in table.total],
        "footnotes": footnotes_of(table),
        "csv": links.to(format="csv"),
        "command": stats_command(view.report, params, *options),
    }


def lake_csv(library: LakeLibrary, params: Params) -> str:
    """Return the table of the page as CSV, with all rows."""
    view = LAKE_VIEWS[choice(params, "by", tuple(LAKE_VIEWS))]
    split = choice(params, "split", SPLITS)
    stack = (split,) if split != "none" and view.can_split else ()
    request = ReportRequest(view.report, filters_in(params), stack)
    return csv_of(library.reports([request])[0])


def _chart(report: Report, stack: tuple[str, ...], figure: str) -> str:
    title = f"{figure} of {' and '.join((report.name, *stack))}"
    options = ChartOptions(
        title, show=formatter(figure), tick=tick_formatter(figure), labels=axis_label
    )
    return report_chart(ReportChart(report.name, report.rows, stack, figure, options))


def _table(report: Report, keys: tuple[str, ...]) -> dict[str, Any]:
    names = [name for name in report.columns if name not in keys]
    rows: list[Row] = report.rows[:SHOWN]
    return {
        "keys": list(keys),
        "titles": [name.replace("_", " ") for name in names],
        "rows": [
            {
                "names": ["none" if row[key] is None else str(row[key]) for key in keys],
                "cells": [_shown(name, row[name]) for name in names],
            }
            for row in rows
        ],
        "rest": max(len(report.rows) - SHOWN, 0),
    }


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "?"
    if not isinstance(value, int | float):
        return str(value)
    if name.endswith("usd"):
        return money(value)
    if name.endswith("rate"):
        return percent(value)
    return short_duration(value) if isinstance(value, float) else short_count(value)
