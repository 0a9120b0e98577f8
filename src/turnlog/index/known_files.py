"""Rows about files: which ones the index knows, and what a check found in them."""

import sqlite3
from pathlib import Path

from msgspec import Struct

from turnlog.format.jsonl import FileState
from turnlog.index.database import writing

SHORT = 8
"""How many characters of an id are usually enough."""
LAST = "\U0010ffff"
"""Comes after every other character."""
COLUMNS = "id, path, opened_by, session, is_subagent, project, title, ended"


class File(Struct, frozen=True):
    """A session's file, or that of a sub-agent."""

    id: int
    path: str
    opened_by: str
    """The id that opens it."""
    session: str | None
    is_subagent: bool
    project: str | None
    title: str | None
    ended: float | None

    @property
    def owner(self) -> str:
        """The session that it belongs to, or itself where that is not known."""
        return self.session or self.path


def kept_check(db: sqlite3.Connection, path: Path, state: FileState) -> tuple[bool, str | None]:
    """Return whether a file was checked in its present state, and its worst finding if any."""
    where = "path = ? AND inode = ? AND size = ? AND mtime_ns = ?"
    row = db.execute(f"SELECT message FROM checks WHERE {where}", (str(path), *state)).fetchone()
    return row is not None, row[0] if row else None


def keep_check(db: sqlite3.Connection, path: Path, state: FileState, message: str | None) -> None:
    """Remember the worst finding of a file in this state; None if it would resume."""
    with writing(db):
        row = (str(path), *state, message)
        db.execute("INSERT OR REPLACE INTO checks VALUES (?, ?, ?, ?, ?)", row)


def recent_sessions(db: sqlite3.Connection, limit: int) -> tuple[list[str], int]:
    """Return the paths of the sessions active last, and how many sessions there are."""
    are_present = "FROM files WHERE NOT is_subagent AND NOT is_gone"
    order = "ORDER BY coalesce(ended, mtime_ns / 1e9) DESC"
    rows = db.execute(f"SELECT path {are_present} {order} LIMIT ?", (limit,))
    paths = [path for (path,) in rows]
    return paths, db.execute(f"SELECT count(*) {are_present}").fetchone()[0]


class Files:
    """The files of an index, each asked for once."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.known: dict[int, File] = {}

    def __getitem__(self, id_: int) -> File:
        if id_ not in self.known:
            row = self.db.execute(f"SELECT {COLUMNS} FROM files WHERE id = ?", (id_,)).fetchone()
            self.known[id_] = File(*row)
        return self.known[id_]

    def newest_first(self) -> list[File]:
        """Every file; those of a session that was active last come first."""
        rows = self.db.execute(f"SELECT {COLUMNS} FROM files ORDER BY is_subagent, id").fetchall()
        found = [File(*row) for row in rows]
        last: dict[str, float] = {}
        for file in found:
            last[file.owner] = max(last.get(file.owner, 0.0), file.ended or 0.0)
        return sorted(found, key=lambda file: (-last[file.owner], file.owner))

    def main(self, file: File) -> File:
        """The session of a sub-agent; itself where that is not in the index."""
        if not file.is_subagent:
            return file
        asked = f"SELECT {COLUMNS} FROM files WHERE session = ? AND NOT is_subagent"
        row = self.db.execute(asked, (file.session,)).fetchone()
        return File(*row) if row else file

    def short_name(self, file: File) -> str:
        """The start of an id, if that is enough to tell which one is meant."""
        start = file.opened_by[:SHORT]
        asked = "SELECT 1 FROM files WHERE opened_by BETWEEN ? AND ? LIMIT 2"
        alike = self.db.execute(asked, (start, start + LAST)).fetchall()
        return start if len(alike) == 1 else file.opened_by
