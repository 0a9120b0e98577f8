"""Compute reports: tokens, cost, time and calls of all sessions, each thing counted once."""

import sqlite3
from pathlib import Path
from time import time
from typing import NamedTuple

from turnlog.errors import UsageError
from turnlog.index.command_names import program
from turnlog.index.reports.groupings import GROUPINGS, work_query

REPORTS = (
    "daily",
    "weekly",
    "monthly",
    "session",
    "project",
    "model",
    "tool",
    "file",
    "branch",
    "hour",
    "blocks",
    "errors",
)
LISTS = frozenset({"pull_requests", "commits"})
"""Columns that hold several words."""
SUMS = frozenset(
    "turns messages calls agent_calls errors tokens input output cache_write_5m cache_write_1h"
    " cache_read agent_tokens agent_cost_usd seconds elapsed_seconds added removed changes reads"
    " unpriced understated".split()
)
"""Columns that can be added up."""

Value = str | int | float | list[str] | None
Row = dict[str, Value]


class Filters(NamedTuple):
    """What a report is about; None is everything."""

    since: float | None = None
    """Seconds since 1970, as is `until`; reports that add up take whole quarters of an hour."""
    until: float | None = None
    project: str | None = None
    """Part of a working directory."""
    model: str | None = None
    """Part of a model's name."""


EVERYTHING = Filters()


class Report(NamedTuple):
    """What a report says."""

    name: str
    columns: list[str]
    rows: list[Row]
    total: Row
    """Of the columns that can be added up, and of sessions that models answered in, each once."""
    unpriced_models: list[str]
    """Those whose messages are not in the costs."""


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
    values = {**filters._asdict(), "now": time() if now is None else now}
    columns, rows = _asked(db, query(name, by), values)
    total = _total(columns, rows)
    if {"sessions", "turns"} <= set(columns):
        total["sessions"] = _asked(db, query("sessions"), values)[1][0]["sessions"]
    unpriced = _asked(db, query("unpriced"), values)[1] if total.get("unpriced") else []
    return Report(name, columns, rows, total, [str(row["model"] or "unknown") for row in unpriced])


def query(name: str, by: tuple[str, ...] = ()) -> str:
    """Return the SQL of a report."""
    if name in GROUPINGS:
        return work_query(name, by)
    if by:
        known = ", ".join(GROUPINGS)
        raise UsageError(f"{name} cannot be grouped further: --by is for {known}")
    return Path(__file__).with_name(f"{name}.sql").read_text("utf-8")


def _asked(
    db: sqlite3.Connection, statement: str, values: dict[str, str | float | None]
) -> tuple[list[str], list[Row]]:
    found = db.execute(statement, values)
    columns = [column for column, *_ in found.description]
    return columns, [_row(columns, each) for each in found]


def _row(columns: list[str], values: tuple[Value, ...]) -> Row:
    row: Row = dict(zip(columns, values, strict=True))
    for name in LISTS & row.keys():
        row[name] = str(row[name] or "").split()
    return row


def _total(columns: list[str], rows: list[Row]) -> Row:
    total: Row = {}
    for name in columns:
        known = [value for row in rows if isinstance(value := row[name], int | float)]
        if name in SUMS:
            total[name] = sum(known)
        elif name == "cost_usd":
            total[name] = sum(known) if known or not rows else None
    return total
