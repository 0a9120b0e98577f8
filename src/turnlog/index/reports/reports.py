"""Compute reports: tokens, cost, time and calls of all sessions, deduped across files."""

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from time import time
from typing import Any, NamedTuple

from turnlog.errors import UsageError
from turnlog.index.command_names import program
from turnlog.index.reports.dialects import read_sql, translate
from turnlog.index.reports.groupings import DIMENSIONS, GROUPINGS, work_query
from turnlog.text import short_count

REPORTS = (
    "daily",
    "weekly",
    "monthly",
    "session",
    "project",
    "store",
    "model",
    "tool",
    "file",
    "branch",
    "hour",
    "blocks",
    "errors",
    "latency",
    "rereads",
    "cache",
)
CARRYING = "carrying"
"""A report that is computed from the session files instead of the tables."""
OF_WORK = frozenset({"daily", "weekly", "monthly", "project", "store", "model", "hour"})
"""Reports that need only the view `work` and the files without their titles."""
LISTS = frozenset({"pull_requests", "commits"})
"""Columns with space-separated lists."""
SUMS = frozenset(
    "turns messages calls agent_calls errors rejected tokens input output cache_write_5m"
    " cache_write_1h cache_read agent_tokens agent_cost_usd seconds elapsed_seconds added removed"
    " changes reads rereads unchanged misses missed_tokens unpriced understated".split()
)
"""Columns that have a total."""

MARKS = (("*", "unpriced"), ("†", "understated"))
"""Footnote marks of costs that are too low, with the column that says so."""

Value = str | int | float | list[str] | None
Row = dict[str, Value]
Parameters = dict[str, str | float | None]
Found = tuple[list[str], Iterable[tuple[Any, ...]]]
"""Columns and rows of a statement."""
RunStatement = Callable[[str, Parameters], Found]
"""Run a portable statement on an engine."""


class Filters(NamedTuple):
    """Filters on the messages, prompts and calls of a report; None means all."""

    since: float | None = None
    """Seconds since 1970, like `until`; reports with totals round to quarters of an hour."""
    until: float | None = None
    project: str | None = None
    """A substring of the working directory."""
    model: str | None = None
    """A substring of the model's name."""


EVERYTHING = Filters()


class ReportRequest(NamedTuple):
    """A report to compute, with its filters and further dimensions."""

    name: str
    filters: Filters = EVERYTHING
    by: tuple[str, ...] = ()


class Report(NamedTuple):
    """The rows and totals of a report."""

    name: str
    columns: list[str]
    rows: list[Row]
    total: Row
    """Totals of the summable columns, and the number of distinct sessions with answers."""
    unpriced_models: list[str]
    """Models without a price, whose messages are missing from the costs."""


def run_report(
    db: sqlite3.Connection,
    name: str,
    filters: Filters = EVERYTHING,
    *,
    by: tuple[str, ...] = (),
    now: float | None = None,
) -> Report:
    """Compute a report from the tables, grouped by further dimensions on request."""
    db.create_function("program", 1, program, deterministic=True)
    return compute_report(partial(_run_sqlite, db), ReportRequest(name, filters, by), now)


def compute_report(
    run: RunStatement,
    request: "ReportRequest",
    now: float | None = None,
    dimensions: Mapping[str, str] = DIMENSIONS,
) -> "Report":
    """Compute a report on any engine that has the tables of the index."""
    name, filters, by = request
    values = {**filters._asdict(), "now": time() if now is None else now}
    columns, rows = _rows(run, portable_query(name, by, dimensions), values)
    total = total_of(columns, rows)
    if {"sessions", "turns"} <= set(columns):
        # Rows cannot be added up here: a session that spans two days is in both of them.
        total["sessions"] = _rows(run, portable_query("sessions"), values)[1][0]["sessions"]
    unpriced = _rows(run, portable_query("unpriced"), values)[1] if total.get("unpriced") else []
    return Report(name, columns, rows, total, [str(row["model"] or "unknown") for row in unpriced])


def marks_of(row: Row) -> str:
    """Return the footnote marks of a row's cost."""
    return "".join(mark for mark, name in MARKS if row.get(name))


def footnotes_of(report: Report) -> list[str]:
    """Return the footnotes of a report, with the models or the number of messages concerned."""
    notes: list[str] = []
    (unpriced, _), (understated, _) = MARKS
    if report.total.get("unpriced"):
        names = ", ".join(report.unpriced_models)
        notes.append(f"{unpriced} excludes models without a known price: {names}")
    if count := report.total.get("understated"):
        assert isinstance(count, int | float)
        why = "clients up to 2.1.56 recorded too little output"
        notes.append(f"{understated} too low: {why} ({short_count(count)} of the messages)")
    return notes


def compare_with_plan(report: Report, price: float) -> Report:
    """Return a monthly report that compares each month's cost with the price of a subscription."""
    if report.columns[0] != "month" or "project" in report.columns or "model" in report.columns:
        hint = f"turnlog stats monthly --plan {price:g}"
        raise UsageError("only months can be compared with a plan", hint)
    rows = [row | _plan_columns(row, price) for row in report.rows]
    months = sum(row["month"] is not None for row in rows)
    total = report.total | _plan_columns(report.total, price * months)
    columns = [*report.columns, *_plan_columns({}, 0)]
    return report._replace(columns=columns, rows=rows, total=total)


def _plan_columns(row: Row, price: float) -> Row:
    cost = row.get("cost_usd")
    share = cost / price if isinstance(cost, int | float) and price else None
    return {"plan_usd": price, "plan_share": share}


def run_query_file(db: sqlite3.Connection, name: str, values: Parameters) -> Report:
    """Run a SQL file with its own parameters; the report has no totals."""
    columns, rows = _rows(partial(_run_sqlite, db), portable_query(name), values)
    return Report(name, columns, rows, {}, [])


def query(name: str, by: tuple[str, ...] = ()) -> str:
    """Return the SQL of a report for SQLite."""
    return translate(portable_query(name, by))


def portable_query(
    name: str, by: tuple[str, ...] = (), dimensions: Mapping[str, str] = DIMENSIONS
) -> str:
    """Return the SQL of a report, with named fragments where engines differ."""
    if name in GROUPINGS:
        return work_query(name, by, dimensions)
    if by:
        known = ", ".join(GROUPINGS)
        raise UsageError(f"{name} cannot be grouped further: --by is for {known}")
    return read_sql(name)


def _run_sqlite(db: sqlite3.Connection, statement: str, values: Parameters) -> Found:
    found = db.execute(translate(statement), values)
    return [column for column, *_ in found.description], found


def _rows(run: RunStatement, statement: str, values: Parameters) -> tuple[list[str], list[Row]]:
    columns, found = run(statement, values)
    return columns, [_row(columns, each) for each in found]


def _row(columns: list[str], values: tuple[Value, ...]) -> Row:
    row: Row = dict(zip(columns, values, strict=True))
    for name in LISTS & row.keys():
        # No engine guarantees the order of the values that it joins.
        row[name] = sorted(str(row[name] or "").split(), key=lambda each: (len(each), each))
    return row


def total_of(columns: list[str], rows: list[Row]) -> Row:
    """Return the totals of the columns that have one."""
    total: Row = {}
    for name in columns:
        known = [value for row in rows if isinstance(value := row[name], int | float)]
        if name in SUMS:
            total[name] = sum(known)
        elif name == "cost_usd":
            # A total of 0 would claim that unpriced messages were free.
            total[name] = sum(known) if known or not rows else None
    return total
