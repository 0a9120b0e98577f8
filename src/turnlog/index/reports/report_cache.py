"""Keep the answers of reports until the figures change.

A report over 100,000 sessions takes a second; most are asked for again before anything changed.
"""

import json
import os
import sqlite3
import time
import zlib
from contextlib import suppress
from pathlib import Path

from turnlog import __version__
from turnlog.index.database import unless_busy
from turnlog.index.ingest.change_check import generation
from turnlog.index.reports.reports import EVERYTHING, Filters, Report, query, run_report

MOST_ROWS = 2000
"""More are not kept: reading them back would take as long as asking."""
OF_THE_MOMENT = "blocks"
"""The report that depends on the time it is asked for."""


def cached_report(
    db: sqlite3.Connection, name: str, filters: Filters = EVERYTHING, by: tuple[str, ...] = ()
) -> Report:
    """Return a report, from the cache if the figures have not changed since."""
    statement = query(name, by)
    if name == OF_THE_MOMENT:
        return run_report(db, name, filters)
    question = json.dumps([__version__, name, zlib.crc32(statement.encode()), filters, _zone()])
    kept = db.execute(
        "SELECT answer FROM answers WHERE question = ? AND generation = ?",
        (question, generation(db)),
    ).fetchone()
    if kept:
        return Report(*json.loads(kept[0]))
    db.execute("BEGIN")  # figures and generation of one moment
    try:
        report, current = run_report(db, name, filters, by=by), generation(db)
    finally:
        db.execute("COMMIT")
    if len(report.rows) <= MOST_ROWS:
        _keep(db, question, current, json.dumps(report))
    return report


def _keep(db: sqlite3.Connection, question: str, current: int, answer: str) -> None:
    with unless_busy(db):
        db.execute("DELETE FROM answers WHERE generation <> ?", (current,))
        db.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", (question, current, answer))


def _zone() -> list[str | int | None]:
    """Identify the time zone: days and hours are local."""
    rules = b""
    with suppress(OSError):
        rules = Path("/etc/localtime").read_bytes()
    return [os.environ.get("TZ"), *time.tzname, zlib.crc32(rules)]
