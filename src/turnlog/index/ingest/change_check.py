"""Check whether the index matches the files, comparing only inode, size and modification time.

Most commands find nothing changed, so this module does not import those that read and write, which
are slow to load.
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
"""A folder modified within this many nanoseconds may change again without a new timestamp."""


def is_current(
    db: sqlite3.Connection, states: FileStates, archive: Path | None = None, *, words: bool = True
) -> bool:
    """Return whether a sync would find nothing to do; `archive` is the archive's folder.

    Without `words`, only the figures have to be current.
    """
    if words and has_wordless(db):
        return False
    if _stored(db, "fingerprint") != fingerprint(db, states) and not keep_fingerprint(db, states):
        return False
    if archive is None:
        # Without an archive, a sync would remove the rows of files that are gone.
        return db.execute("SELECT 1 FROM files WHERE is_gone LIMIT 1").fetchone() is None
    state = archive_state(archive)
    return state is not None and state == stored_archive_state(db)


def holds_all(db: sqlite3.Connection, states: FileStates) -> bool:
    """Return whether the index has read exactly these files to their ends and deduped them."""
    total, gone = db.execute("SELECT count(*), total(is_gone) FROM files").fetchone()
    found = states.by_path
    if len(found) != total - gone or (total and not is_built(db)):
        return False
    read = db.execute("SELECT path, inode, size, mtime_ns FROM files WHERE reached >= size")
    known = {path: (inode, size, mtime_ns) for path, inode, size, mtime_ns in read}
    return all(known.get(path) == state for path, state in found.items())


def fingerprint(db: sqlite3.Connection, states: FileStates) -> str:
    """Return a fingerprint of the states of all files and of the index's generation.

    Comparing one value is faster than reading a row for each of 100,000 files. Every write of
    figures increments the generation, which invalidates the fingerprint. It detects changes, not
    forgery: importing hashlib would take longer than the check.
    """
    sums = " ".join(f"{zlib.crc32(part):08x}{zlib.adler32(part):08x}" for part in states.parts)
    return f"{generation(db)} {sum(map(len, states.parts))} {sums}"


def keep_fingerprint(db: sqlite3.Connection, states: FileStates) -> bool:
    """Store the fingerprint if the index has read all files; return whether it has."""
    # One read transaction: the rows and the generation must belong to the same snapshot.
    db.execute("BEGIN")
    try:
        current = fingerprint(db, states) if holds_all(db, states) else None
    finally:
        db.execute("COMMIT")
    if current is None:
        return False
    with unless_busy(db):
        db.execute("INSERT OR REPLACE INTO about VALUES ('fingerprint', ?)", (current,))
    return True


def generation(db: sqlite3.Connection) -> int:
    """Return the number that every write of figures increments."""
    return _stored(db, "generation")


def has_wordless(db: sqlite3.Connection) -> bool:
    """Return whether any file has words that are not indexed yet."""
    statement = "SELECT 1 FROM files WHERE words_reached < reached LIMIT 1"
    return db.execute(statement).fetchone() is not None


def is_session_current(db: sqlite3.Connection, session: Path) -> bool:
    """Return whether a sync of one session would find nothing to do."""
    statement = "SELECT inode, size, mtime_ns FROM files WHERE path = ? AND reached >= size"
    return all(
        db.execute(statement, (path,)).fetchone() == state
        for path, state in scan_session(session).items()
    )


def archive_state(folder: Path | None) -> str | None:
    """Return a value that changes when a session is archived; None while that is uncertain."""
    if folder is None:
        return None
    with suppress(FileNotFoundError):
        changed = (folder / "sessions").stat().st_mtime_ns
        # A session archived right after this check could leave the same timestamp.
        is_settled = changed + UNSETTLED < time.time_ns()
        return f"{folder} {changed}" if is_settled else None
    return f"{folder} none"


def stored_archive_state(db: sqlite3.Connection) -> str | None:
    """Return the state of the archive that the index was last synced with."""
    return _stored(db, "archive")


def _stored(db: sqlite3.Connection, name: str) -> Any:
    row = db.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
    return row[0] if row else None
