"""What the sessions took, as the reports in `reports/` ask the index: one SQL file for each."""

import sqlite3
from pathlib import Path
from time import time
from typing import NamedTuple

from turnlog.index.command_names import program

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
    db: sqlite3.Connection, name: str, filters: Filters = EVERYTHING, now: float | None = None
) -> Report:
    """Ask the index for a report."""
    db.create_function("program", 1, program, deterministic=True)
    values = {**filters._asdict(), "now": time() if now is None else now}
    columns, rows = _asked(db, name, values)
    total = _total(columns, rows)
    if {"sessions", "turns"} <= set(columns):
        total["sessions"] = _asked(db, "sessions", values)[1][0]["sessions"]
    unpriced = _asked(db, "unpriced", values)[1] if total.get("unpriced") else []
    return Report(name, columns, rows, total, [str(row["model"] or "unknown") for row in unpriced])


def query(name: str) -> str:
    """The SQL of a report."""
    return Path(__file__).with_name(f"{name}.sql").read_text("utf-8")


def _asked(
    db: sqlite3.Connection, name: str, values: dict[str, str | float | None]
) -> tuple[list[str], list[Row]]:
    found = db.execute(query(name), values)
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
