"""Which sessions would not resume: checked once, and again only when their files have changed."""

from collections.abc import Iterable, Iterator

from turnlog.conversation.session import open_session
from turnlog.edit.check.checks import check_session
from turnlog.format.jsonl import FileState
from turnlog.index.database import Index, writing
from turnlog.store.catalog import SessionFile

AT_ONCE = 64 << 20
"""Bytes of sessions that are checked in one go: the rest is left for the next time."""


def unresumable(index: Index, sessions: Iterable[SessionFile]) -> Iterator[tuple[SessionFile, str]]:
    """The sessions that would fail or lose something, each with its worst finding."""
    room = AT_ONCE
    for session in sessions:
        state = FileState.of(session.path)
        kept = index.db.execute(
            "SELECT message FROM checks WHERE path = ? AND inode = ? AND size = ? AND mtime_ns = ?",
            (str(session.path), *state),
        ).fetchone()
        message: str | None = kept[0] if kept else None
        if kept is None and session.size <= room:
            room -= session.size
            message = _worst(session)
            with writing(index.db):
                row = (str(session.path), *state, message)
                index.db.execute("INSERT OR REPLACE INTO checks VALUES (?, ?, ?, ?, ?)", row)
        if message:
            yield session, message


def _worst(session: SessionFile) -> str | None:
    found = [each for each in check_session(open_session(session.path)) if each.is_serious]
    return found[0].message if found else None
