"""Limit queries to some sessions, and find the session that a file or a call belongs to."""

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from json import dumps
from pathlib import Path


@contextmanager
def only_sessions(db: sqlite3.Connection, numbers: Sequence[int]) -> Generator[None]:
    """Hide the files of all other sessions from the queries of a connection.

    Every report joins `files`, and SQLite prefers a temporary view to a table of the same name: no
    report can forget the filter and reveal another project. Reports must not be cached meanwhile,
    because the key of the cache does not include the sessions.
    """
    db.execute(
        "CREATE TEMP TABLE scope AS SELECT value AS number FROM json_each(?)", (dumps(numbers),)
    )
    try:
        db.execute(SCOPED_FILES)
        yield
    finally:
        db.execute("DROP VIEW IF EXISTS temp.files")
        db.execute("DROP TABLE temp.scope")


def owner_of_file(db: sqlite3.Connection, path: Path) -> str | None:
    """Return the id of the session that a file belongs to."""
    row = db.execute(f"{OWNER} WHERE f.path = ?", (str(path),)).fetchone()
    return row[0] if row else None


def owner_of_call(db: sqlite3.Connection, call_id: str) -> str | None:
    """Return the id of the session that made a call, or of one with a copy of it."""
    # Calls have no index by id: only the newest are searched, because the caller's was just made.
    row = db.execute(
        f"{OWNER} JOIN (SELECT file, key FROM calls ORDER BY id DESC LIMIT 2000) c"
        " ON c.file = f.id WHERE c.key = ?",
        (call_id,),
    ).fetchone()
    return row[0] if row else None


SCOPED_FILES = """
CREATE TEMP VIEW files AS SELECT * FROM main.files f
WHERE coalesce(f.session, f.path) IN (
    SELECT coalesce(g.session, g.path) FROM main.files g
    WHERE g.id IN (SELECT number FROM temp.scope))
"""
OWNER = "SELECT coalesce(f.session, f.opened_by) FROM files f"
