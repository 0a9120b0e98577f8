"""Check whether the index matches the files, by their states alone.

Most commands find nothing changed; they must not wait for the modules that read and write.
"""

import sqlite3
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from turnlog.index.database import is_built, unless_busy
from turnlog.index.ingest.file_states import FileStates, scan_session

UNSETTLED = 2_000_000_000
"""Nanoseconds in which a folder may change again and have the same time."""


def is_current(
    db: sqlite3.Connection, states: FileStates, archive: Path | None = None, *, words: bool = True
) -> bool:
    """Return whether a sync would find nothing to do; `archive` is the folder of one.

    Without `words`, only the figures have to be current.
    """
    if words and has_wordless(db):
        return False
    if _kept(db, "fingerprint") != fingerprint(db, states) and not keep_fingerprint(db, states):
        return False
    if archive is None:
        return db.execute("SELECT 1 FROM files WHERE is_gone LIMIT 1").fetchone() is None
    held = archive_state(archive)
    return held is not None and held == kept_state(db)


def holds_all(db: sqlite3.Connection, states: FileStates) -> bool:
    """Return whether the index has read exactly these files, each to its end, and settled them."""
    total, gone = db.execute("SELECT count(*), total(is_gone) FROM files").fetchone()
    found = states.by_path
    if len(found) != total - gone or (total and not is_built(db)):
        return False
    read = db.execute("SELECT path, inode, size, mtime_ns FROM files WHERE reached >= size")
    known = {path: (inode, size, mtime_ns) for path, inode, size, mtime_ns in read}
    return all(known.get(path) == state for path, state in found.items())


def fingerprint(db: sqlite3.Connection, states: FileStates) -> str:
    """Identify the states of all files, and the figures that the index holds.

    Comparing one value is faster than reading a row for each of 100,000 files. Every write of
    figures changes the generation, so a fingerprint never outlives what it was taken of. It guards
    against change, not against forgery: hashlib would take longer to load than the check takes.
    """
    told = " ".join(f"{zlib.crc32(part):08x}{zlib.adler32(part):08x}" for part in states.parts)
    return f"{generation(db)} {sum(map(len, states.parts))} {told}"


def keep_fingerprint(db: sqlite3.Connection, states: FileStates) -> bool:
    """Store the fingerprint if the index has read all files; return whether it has."""
    db.execute("BEGIN")
    try:
        told = fingerprint(db, states) if holds_all(db, states) else None
    finally:
        db.execute("COMMIT")
    if told is None:
        return False
    with unless_busy(db):
        db.execute("INSERT OR REPLACE INTO about VALUES ('fingerprint', ?)", (told,))
    return True


def generation(db: sqlite3.Connection) -> int:
    """Return a number that every write of figures changes."""
    return _kept(db, "generation")


def has_wordless(db: sqlite3.Connection) -> bool:
    """Return whether words of some file are still to be read."""
    asked = "SELECT 1 FROM files WHERE words_reached < reached LIMIT 1"
    return db.execute(asked).fetchone() is not None


def is_session_current(db: sqlite3.Connection, session: Path) -> bool:
    """Return whether a sync of one session would find nothing to do."""
    asked = "SELECT inode, size, mtime_ns FROM files WHERE path = ? AND reached >= size"
    return all(
        db.execute(asked, (path,)).fetchone() == state
        for path, state in scan_session(session).items()
    )


def archive_state(folder: Path | None) -> str | None:
    """Stays the same while no session is archived; None if it cannot tell yet."""
    if folder is None:
        return None
    with suppress(FileNotFoundError):
        changed = (folder / "sessions").stat().st_mtime_ns
        is_settled = changed + UNSETTLED < time.time_ns()
        return f"{folder} {changed}" if is_settled else None
    return f"{folder} none"


def kept_state(db: sqlite3.Connection) -> str | None:
    """The state of the archive that the index took in."""
    return _kept(db, "archive")


def _kept(db: sqlite3.Connection, name: str) -> Any:
    row = db.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
    return row[0] if row else None
