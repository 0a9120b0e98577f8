"""Whether the index is as the files are: looks at their states alone, and loads no more than that.

Most commands find nothing changed; they must not wait for what reads and writes.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from turnlog.format.regular_files import entries_of, is_folder, is_regular, skipping
from turnlog.store.paths import SUBAGENTS, Store, is_session_name

UNSETTLED = 2_000_000_000
"""Nanoseconds in which a folder may change again and have the same time."""


Found = tuple[str, os.stat_result, str | None, bool]
"""A file: its path, its state, the session that it lies with, and whether it is a sub-agent's.

Only the lines of sub-agents outside a session's folder tell their session.
"""


def is_current(
    db: sqlite3.Connection, store: Store, archive: Path | None = None, *, words: bool = True
) -> bool:
    """Return whether a sync would find nothing to do; `archive` is the folder of one.

    Without `words`, only the figures have to be current.
    """
    if words and has_wordless(db):
        return False
    known = set(db.execute("SELECT path, inode, size, mtime_ns FROM files WHERE reached >= size"))
    count = 0
    for file in files_in(store):
        if (file[0], *_state_of(file)) not in known:
            return False
        count += 1
    total, gone = db.execute("SELECT count(*), total(is_gone) FROM files").fetchone()
    if count != total - gone:
        return False
    held = archive_state(archive)
    return not gone if archive is None else held is not None and held == kept_state(db)


def has_wordless(db: sqlite3.Connection) -> bool:
    """Return whether words of some file are still to be read."""
    asked = "SELECT 1 FROM files WHERE words_reached < reached LIMIT 1"
    return db.execute(asked).fetchone() is not None


def is_session_current(db: sqlite3.Connection, session: Path) -> bool:
    """Whether a sync of one session would find nothing to do."""
    asked = "SELECT inode, size, mtime_ns FROM files WHERE path = ? AND reached >= size"
    return all(
        db.execute(asked, (file[0],)).fetchone() == _state_of(file) for file in files_of(session)
    )


def _state_of(file: Found) -> tuple[int, int, int]:
    state = file[1]
    return state.st_ino, state.st_size, state.st_mtime_ns


def files_in(store: Store) -> Iterator[Found]:
    """Every file of a session or a sub-agent, with its state."""
    for project in entries_of(str(store.projects)):
        for each in entries_of(project.path) if is_folder(project) else ():
            name = each.name
            if is_folder(each) and name == SUBAGENTS:
                yield from _subagents(each.path, None)
            elif is_folder(each) and not name.endswith(".jsonl"):
                yield from _subagents(f"{each.path}/{SUBAGENTS}", name)
            elif name.endswith(".jsonl") and not name.startswith(".") and (state := _state(each)):
                is_session = is_session_name(name)
                owner = name.removesuffix(".jsonl") if is_session else None
                yield each.path, state, owner, not is_session


def files_of(session: Path) -> Iterator[Found]:
    """The file of one session, and those of its sub-agents in its own folder."""
    with skipping(session):
        yield str(session), session.stat(), session.stem, False
    yield from _subagents(str(session.with_suffix("") / SUBAGENTS), session.stem)


def _subagents(folder: str, session: str | None) -> Iterator[Found]:
    """Return the sub-agents in a folder of a session or project, those of workflows included."""
    for each in entries_of(folder):
        name = each.name
        if is_folder(each) and not name.endswith(".jsonl"):
            yield from _subagents(each.path, session)
        elif name.startswith("agent-") and name.endswith(".jsonl") and (state := _state(each)):
            yield each.path, state, session, True


def _state(entry: "os.DirEntry[str]") -> os.stat_result | None:
    with skipping(entry.path):
        return entry.stat() if is_regular(entry) else None
    return None


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
    row = db.execute("SELECT value FROM about WHERE name = 'archive'").fetchone()
    return row[0] if row else None
