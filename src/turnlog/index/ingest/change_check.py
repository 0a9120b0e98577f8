"""Check whether the index matches the files, by their states alone.

Most commands find nothing changed; they must not wait for the modules that read and write.
"""

import marshal
import os
import sqlite3
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from turnlog.format.regular_files import entries_of, is_folder, skipping, stat_regular
from turnlog.index.database import is_built, unless_busy
from turnlog.store.paths import SUBAGENTS, Store

UNSETTLED = 2_000_000_000
"""Nanoseconds in which a folder may change again and have the same time."""

State = tuple[int, int, int]
"""Inode, size and time of change in nanoseconds."""
States = dict[str, State]
"""The files of sessions and sub-agents, by path."""


def is_current(
    db: sqlite3.Connection, states: States, archive: Path | None = None, *, words: bool = True
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


def holds_all(db: sqlite3.Connection, states: States) -> bool:
    """Return whether the index has read exactly these files, each to its end, and settled them."""
    total, gone = db.execute("SELECT count(*), total(is_gone) FROM files").fetchone()
    if len(states) != total - gone or (total and not is_built(db)):
        return False
    read = db.execute("SELECT path, inode, size, mtime_ns FROM files WHERE reached >= size")
    known = {path: (inode, size, mtime_ns) for path, inode, size, mtime_ns in read}
    return all(known.get(path) == state for path, state in states.items())


def fingerprint(db: sqlite3.Connection, states: States) -> str:
    """Identify the states of all files, and the figures that the index holds.

    Comparing one value is faster than reading a row for each of 100,000 files. Every write of
    figures changes the generation, so a fingerprint never outlives what it was taken of. It guards
    against change, not against forgery: hashlib would take longer to load than the check takes.
    """
    # Version 2 of the format has no back references, which would depend on reference counts.
    told = marshal.dumps(list(states.items()), 2)
    return f"{generation(db)} {len(told)} {zlib.crc32(told):08x}{zlib.adler32(told):08x}"


def keep_fingerprint(db: sqlite3.Connection, states: States) -> bool:
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


def scan_store(store: Store) -> States:
    """Return the states of all files of sessions and sub-agents."""
    states: States = {}
    for project in entries_of(str(store.projects)):
        for entry in entries_of(project.path) if is_folder(project) else ():
            name = entry.name
            if name.endswith(".jsonl"):
                if not name.startswith(".") and (found := stat_regular(entry)):
                    states[entry.path] = found.st_ino, found.st_size, found.st_mtime_ns
            elif is_folder(entry):
                # Some clients keep sub-agents with the project, not with their session.
                own = entry.path if name == SUBAGENTS else f"{entry.path}/{SUBAGENTS}"
                _scan_subagents(own, states)
    return states


def scan_session(session: Path) -> States:
    """Return the states of a session's file and of the sub-agents in its own folder."""
    states: States = {}
    with skipping(session):
        states[str(session)] = _state(session.stat())
    _scan_subagents(str(session.with_suffix("") / SUBAGENTS), states)
    return states


def _scan_subagents(folder: str, states: States) -> None:
    """Add the sub-agents of a session or project, those of workflows included."""
    for entry in entries_of(folder):
        if entry.name.endswith(".jsonl"):
            if entry.name.startswith("agent-") and (found := stat_regular(entry)):
                states[entry.path] = _state(found)
        elif is_folder(entry):
            _scan_subagents(entry.path, states)


def _state(found: os.stat_result) -> State:
    return found.st_ino, found.st_size, found.st_mtime_ns


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
