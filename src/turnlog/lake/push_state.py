"""The local cache of the units that this machine pushed to a lake.

Everything can be read from the lake again: a lost state costs time, never rows.
"""

import os
import sqlite3
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from turnlog.errors import Conflict, Unavailable
from turnlog.format.locks import lock
from turnlog.format.private_files import open_private, secure_folder
from turnlog.lake.lake_storage import LakeStorage
from turnlog.lake.live_units import FORGOTTEN, UnitRow

FORMAT = 1
TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS parts (path TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (file TEXT PRIMARY KEY, fingerprint TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS units (
    table_name TEXT, file TEXT, day TEXT, version INTEGER, level INTEGER, write_id TEXT,
    sha256 TEXT, is_retracted INTEGER, store TEXT,
    PRIMARY KEY (file, table_name, day)
) WITHOUT ROWID;
"""
MERGE = """
INSERT INTO units VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET version = excluded.version, level = excluded.level,
    write_id = excluded.write_id, sha256 = excluded.sha256,
    is_retracted = excluded.is_retracted, store = excluded.store
WHERE (excluded.version, excluded.level, excluded.write_id) > (version, level, write_id)
"""


class PushedUnit(NamedTuple):
    """The last pushed state of a unit."""

    digest: str | None
    is_retracted: bool

    def has(self, digest: str) -> bool:
        """Return whether the lake has these rows."""
        return self.digest == digest and not self.is_retracted


class PushState:
    """The winning units of this machine in one lake, and fingerprints of their session files."""

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        self.path, self.db = path, db

    @contextmanager
    def writing(self) -> Generator[None]:
        """Apply changes in one transaction."""
        with _explained(self.path), self.db:
            yield

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with _explained(self.path):
            return self.db.execute(statement, values).fetchall()

    @property
    def version(self) -> int:
        """The highest version that this machine is known to have written."""
        found = "SELECT max(version) FROM units WHERE version < ?"
        # The recorded version may be higher: a killed push has used it without a commit.
        return max(self._execute(found, (FORGOTTEN,))[0][0] or 0, self._about("version"))

    def next_version(self) -> int:
        """Return a new version; record it first, so that no later push can use it again."""
        version = self.version + 1
        with self.writing():
            self.db.execute("INSERT OR REPLACE INTO about VALUES ('version', ?)", (version,))
        return version

    def _about(self, name: str) -> Any:
        rows = self._execute("SELECT value FROM about WHERE name = ?", (name,))
        return rows[0][0] if rows else 0

    def note_settings(self, settings: bytes) -> None:
        """Record the settings of the last push, so that a verification computes the same rows."""
        with self.writing():
            self.db.execute("INSERT OR REPLACE INTO about VALUES ('settings', ?)", (settings,))

    @property
    def settings(self) -> bytes | None:
        return self._about("settings") or None

    def known_parts(self) -> set[str]:
        return {path for (path,) in self._execute("SELECT path FROM parts")}

    def merge(self, path: str, rows: Iterable[UnitRow]) -> None:
        """Merge the rows of a part of `units` into the state."""
        self.db.execute("INSERT OR IGNORE INTO parts VALUES (?)", (path,))
        self.db.executemany(
            MERGE,
            ((*row.key[1:], *row.rank, row.sha256, row.is_retracted, row.store) for row in rows),
        )

    def drop_units(self) -> None:
        """Forget which units the lake has; the caller reads them again."""
        self.db.execute("DELETE FROM units")
        self.db.execute("DELETE FROM parts")

    def digests(self) -> dict[tuple[str, str, str], str | None]:
        """Return the digests of all live units, by file, table and day."""
        statement = "SELECT file, table_name, day, sha256 FROM units WHERE NOT is_retracted"
        return {(file, table, day): sha for file, table, day, sha in self._execute(statement)}

    def clear(self) -> None:
        """Forget everything but the version."""
        with self.writing():
            version = self.version
            for table in ("parts", "files", "units"):
                self.db.execute(f"DELETE FROM {table}")
            self.db.execute("INSERT OR REPLACE INTO about VALUES ('version', ?)", (version,))

    def fingerprints(self) -> dict[str, str]:
        return dict(self._execute("SELECT file, fingerprint FROM files"))

    def set_fingerprints(self, found: Iterable[tuple[str, str]]) -> None:
        self.db.executemany("INSERT OR REPLACE INTO files VALUES (?, ?)", found)

    def drop_files(self, files: Iterable[str]) -> None:
        self.db.executemany("DELETE FROM files WHERE file = ?", [(file,) for file in files])

    def units_of(self, file: str) -> dict[tuple[str, str], PushedUnit]:
        """Return the units of a file, by table and day."""
        statement = "SELECT table_name, day, sha256, is_retracted FROM units WHERE file = ?"
        rows = self._execute(statement, (file,))
        return {(table, day): PushedUnit(sha, bool(gone)) for table, day, sha, gone in rows}

    def forgotten(self) -> set[str]:
        """Return the files that may not be pushed again."""
        found = "SELECT DISTINCT file FROM units WHERE version >= ?"
        return {file for (file,) in self._execute(found, (FORGOTTEN,))}

    def live_files(self, stores: Iterable[str]) -> set[str]:
        """Return the files of some stores that have live units."""
        known = list(stores)
        marks = ", ".join("?" * len(known))
        found = f"SELECT DISTINCT file FROM units WHERE NOT is_retracted AND store IN ({marks})"
        return {file for (file,) in self._execute(found, known)}


@contextmanager
def open_push_state(folder: Path, storage: LakeStorage, machine: str) -> Generator[PushState]:
    """Open the push state of a lake; raise `Conflict` if another process has it open."""
    # Several machines may share a home directory, and a directory may have several names.
    place = os.path.realpath(storage.base) if storage.is_local else storage.dest.rstrip("/")
    below = folder / sha256(f"{machine} {place}".encode()).hexdigest()[:16]
    secure_folder(below)
    descriptor = open_private(below / "lock", os.O_RDWR | os.O_CREAT)
    try:
        try:
            lock(descriptor, wait=False)
        except BlockingIOError as error:
            raise Conflict(f"another push to {storage.dest} is running", "sleep 10") from error
        path = below / f"state-{FORMAT}.db"
        with _explained(path):
            db = _connected(path)
        with closing(db):
            yield PushState(path, db)
    finally:
        os.close(descriptor)


@contextmanager
def _explained(path: Path) -> Generator[None]:
    # Convert errors right here: the caller has an index open, and would blame the index.
    try:
        yield
    except sqlite3.OperationalError as error:
        raise Unavailable(f"cannot write {path}: {error}", f"df -h {path.parent}") from error
    except sqlite3.DatabaseError as error:
        raise Unavailable(f"cannot use {path}: {error}", f"rm {path}") from error


def _connected(path: Path) -> sqlite3.Connection:
    for is_last in (False, True):
        # SQLite would create the file with the default mode, not a private one.
        os.close(open_private(path, os.O_RDWR | os.O_CREAT))
        db = sqlite3.connect(path)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.executescript(TABLES)
            return db
        except sqlite3.DatabaseError:
            db.close()
            if is_last:
                raise
            path.unlink()  # damaged: everything in it can be read from the lake again
    raise AssertionError
