"""Cache report results until the figures change.

A report over 100,000 sessions takes a second, and the same one is often requested again.
"""

import json
import os
import sqlite3
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from turnlog import __version__
from turnlog.index.database import Index, unless_busy
from turnlog.index.ingest.change_check import generation
from turnlog.index.reports.reports import EVERYTHING, Filters, Report, query, run_report

MOST_ROWS = 2000
"""Larger reports are not cached: decoding them takes as long as the query."""
OF_THE_MOMENT = "blocks"
"""A report that depends on the current time, and is therefore never cached."""


def cached_report(
    db: sqlite3.Connection, name: str, filters: Filters = EVERYTHING, by: tuple[str, ...] = ()
) -> Report:
    """Return a report, from the cache if the figures have not changed since."""
    statement = query(name, by)
    if name == OF_THE_MOMENT:
        return run_report(db, name, filters)
    question = json.dumps([__version__, name, zlib.crc32(statement.encode()), filters, _zone()])
    cached = db.execute(
        "SELECT answer FROM answers WHERE question = ? AND generation = ?",
        (question, generation(db)),
    ).fetchone()
    if cached:
        return Report(*json.loads(cached[0]))
    # One transaction: a sync between the two reads would store old figures under a new generation.
    db.execute("BEGIN")
    try:
        report, current = run_report(db, name, filters, by=by), generation(db)
    finally:
        db.execute("COMMIT")
    if len(report.rows) <= MOST_ROWS:
        _keep(db, question, current, json.dumps(report))
    return report


def cached_answer(index: Index, question: Any, compute: Callable[[], Any]) -> Any:
    """Return a JSON value that depends on session files alone, cached until one of them changes."""
    # `compute` may reconnect, so `index.db` is looked up each time.
    key = json.dumps([__version__, question])
    before = generation(index.db)
    statement = "SELECT answer FROM answers WHERE question = ? AND generation = ?"
    if cached := index.db.execute(statement, (key, before)).fetchone():
        return json.loads(cached[0])
    answer = compute()
    # If another process has synced in the meantime, the answer may come from old or new figures.
    if generation(index.db) == before:
        _keep(index.db, key, before, json.dumps(answer))
    return answer


def _keep(db: sqlite3.Connection, question: str, current: int, answer: str) -> None:
    with unless_busy(db):
        db.execute("DELETE FROM answers WHERE generation <> ?", (current,))
        db.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", (question, current, answer))


def _zone() -> list[str | int | None]:
    """Identify the time zone, because days and hours are local."""
    rules = b""
    with suppress(OSError):
        rules = Path("/etc/localtime").read_bytes()
    return [os.environ.get("TZ"), *time.tzname, zlib.crc32(rules)]
