"""Look up files in the index, and store the result of their last check."""

import re
import sqlite3
from pathlib import Path

from msgspec import Struct

from turnlog.format.jsonl import FileState
from turnlog.index.database import writing

SHORT = 8
"""Length of an id prefix that is usually unique."""
LAST = "\U0010ffff"
"""The highest code point: `prefix + LAST` is an upper bound for all strings with that prefix."""
COLUMNS = "id, path, store, opened_by, session, is_subagent, project, title, ended"


class File(Struct, frozen=True):
    """The file of a session or of a sub-agent."""

    id: int
    path: str
    store: str
    opened_by: str
    """The id that `turnlog show` accepts."""
    session: str | None
    is_subagent: bool
    project: str | None
    title: str | None
    ended: float | None

    @property
    def owner(self) -> str:
        """The store and the session that the file belongs to, or its path if that is unknown."""
        return f"{self.store} {self.session or self.path}"


def kept_check(db: sqlite3.Connection, path: Path, state: FileState) -> tuple[bool, str | None]:
    """Return whether a file was already checked in this state, and its worst finding if any."""
    where = "path = ? AND inode = ? AND size = ? AND mtime_ns = ?"
    row = db.execute(f"SELECT message FROM checks WHERE {where}", (str(path), *state)).fetchone()
    return row is not None, row[0] if row else None


def keep_check(db: sqlite3.Connection, path: Path, state: FileState, message: str | None) -> None:
    """Store the worst finding of a file in this state; None if it can be resumed."""
    with writing(db):
        row = (str(path), *state, message)
        db.execute("INSERT OR REPLACE INTO checks VALUES (?, ?, ?, ?, ?)", row)


def recent_sessions(db: sqlite3.Connection, limit: int) -> tuple[list[str], int]:
    """Return the paths of the most recently active sessions, and the total number of sessions."""
    are_present = "FROM files WHERE NOT is_subagent AND NOT is_gone"
    order = "ORDER BY coalesce(ended, mtime_ns / 1e9) DESC"
    rows = db.execute(f"SELECT path {are_present} {order} LIMIT ?", (limit,))
    paths = [path for (path,) in rows]
    return paths, db.execute(f"SELECT count(*) {are_present}").fetchone()[0]


def sessions_before(
    db: sqlite3.Connection, store: str, written: float
) -> list[tuple[str, str, str | None, float]]:
    """Return path, id, title and time of a store's sessions last written before a time."""
    # The inner query reads only the index `files_read_whole`; rows of the table are long.
    return db.execute(
        "SELECT path, opened_by, title, mtime_ns / 1e9 FROM files WHERE id IN"
        " (SELECT id FROM files WHERE reached >= size AND mtime_ns < ?)"
        " AND store = ? AND NOT is_subagent AND NOT is_gone ORDER BY mtime_ns",
        (int(written * 1e9), store),
    ).fetchall()


class Files:
    """The files of an index, each queried at most once."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.known: dict[int, File] = {}

    def __getitem__(self, id_: int) -> File:
        if id_ not in self.known:
            row = self.db.execute(f"SELECT {COLUMNS} FROM files WHERE id = ?", (id_,)).fetchone()
            self.known[id_] = File(*row)
        return self.known[id_]

    def newest_first(self) -> list[File]:
        """Return all files grouped by session, the most recently active session first."""
        rows = self.db.execute(f"SELECT {COLUMNS} FROM files ORDER BY is_subagent, id").fetchall()
        found = [File(*row) for row in rows]
        last: dict[str, float] = {}
        for file in found:
            last[file.owner] = max(last.get(file.owner, 0.0), file.ended or 0.0)
        # The sort is stable: within a session, its own file stays before those of its sub-agents.
        return sorted(found, key=lambda file: (-last[file.owner], file.owner))

    def main(self, file: File) -> File:
        """Return the session file of a sub-agent, or the file itself if there is none."""
        if not file.is_subagent:
            return file
        where = "session = ? AND store = ? AND NOT is_subagent"
        statement = f"SELECT {COLUMNS} FROM files WHERE {where}"
        row = self.db.execute(statement, (file.session, file.store)).fetchone()
        return File(*row) if row else file

    def short_name(self, file: File) -> str:
        """Return the prefix of an id if it is unique, otherwise the whole id."""
        prefix = file.opened_by[:SHORT]
        statement = "SELECT 1 FROM files WHERE opened_by BETWEEN ? AND ? LIMIT 2"
        matches = self.db.execute(statement, (prefix, prefix + LAST)).fetchall()
        return prefix if len(matches) == 1 else file.opened_by


def sessions_with_path(db: sqlite3.Connection, path: str, ending: str) -> dict[str, list[Path]]:
    """Return the sessions whose calls, or those of their sub-agents, name a file.

    If none names `path`, all paths that end with `ending` count.
    """
    rows = _calls_on(db, "c.path = ?", path)
    if not rows and not ending.startswith(("/", "..")):
        # `_` and `%` in a name must match only themselves.
        escaped = re.sub(r"([\\%_])", r"\\\1", ending.removeprefix("./"))
        rows = _calls_on(db, "c.path LIKE ? ESCAPE '\\'", f"%/{escaped}")
    found: dict[str, list[Path]] = {}
    for named, session in rows:
        found.setdefault(named, []).append(Path(session))
    return found


def _calls_on(db: sqlite3.Connection, condition: str, value: str) -> list[tuple[str, str]]:
    statement = f"""
        SELECT DISTINCT c.path, s.path FROM calls c JOIN files f ON f.id = c.file
        JOIN files s ON s.id = f.id AND NOT f.is_subagent
            OR f.is_subagent AND s.session = f.session AND NOT s.is_subagent
                AND s.store = f.store
        WHERE {condition} AND NOT s.is_gone ORDER BY s.started, s.path"""
    return db.execute(statement, (value,)).fetchall()
