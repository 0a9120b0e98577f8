"""Tables that no engine can compute by itself: local times, five-hour windows and teams.

Engines need no time-zone data: SQLite computes the local time of every quarter of an hour that
occurs, as it does for an index.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from turnlog.index.reports.dialects import translate
from turnlog.lake.lake_schema import pyarrow

QUARTERS = "quarters"
WINDOWS = "windows"
TEAMS = "lake_teams"
LOCAL_TIMES = ("day", "week", "month", "weekday", "hour")
WINDOW = 20
"""Quarters of an hour in a window of five hours."""
SECONDS = 900
FARTHEST = 100_000_000
"""Maximum number of quarters of an hour before or after 1970, up to the year 4821."""


def quarters_table(quarters: Iterable[int], is_utc: bool = False) -> Any:
    """Return the day, week, month, weekday and hour of quarters of an hour, local or in UTC."""
    columns = translate(", ".join(f"{{{{{name}(q)}}}}" for name in LOCAL_TIMES))
    if is_utc:
        columns = columns.replace(", 'localtime'", "")
    db = sqlite3.connect(":memory:")
    try:
        db.execute("CREATE TABLE q (quarter INTEGER)")
        db.executemany("INSERT INTO q VALUES (?)", ((each,) for each in quarters))
        rows = db.execute(f"SELECT q.quarter, {columns} FROM q").fetchall()
    finally:
        db.close()
    pa = pyarrow()
    kinds = [pa.int64(), pa.string(), pa.string(), pa.string(), pa.int64(), pa.int64()]
    return _table(dict(zip(("quarter", *LOCAL_TIMES), kinds, strict=True)), rows)


def windows_table(quarters: Iterable[int]) -> Any:
    """Return the five-hour window of each quarter of an hour with messages.

    A window starts at the full hour of its first message; the next message after it starts another.
    """
    rows: list[tuple[int, int, int]] = []
    opening: int | None = None
    for quarter in sorted(each for each in quarters if abs(each) <= FARTHEST):
        if opening is None or quarter >= opening + WINDOW:
            # Rounded towards zero, as in the index, which matters for times before 1970.
            opening = int(quarter / 4) * 4
        rows.append((quarter, opening * SECONDS, (opening + WINDOW) * SECONDS))
    integer = pyarrow().int64()
    return _table(dict.fromkeys(("quarter", "start", "stop"), integer), rows)


def teams_table(teams: Mapping[str, str]) -> Any:
    """Return a table of users and their teams."""
    string = pyarrow().string()
    return _table({"user_name": string, "team": string}, list(teams.items()))


def _table(columns: Mapping[str, Any], rows: list[tuple[Any, ...]]) -> Any:
    pa = pyarrow()
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    arrays = [pa.array(each, kind) for each, kind in zip(values, columns.values(), strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(list(columns.items())))
