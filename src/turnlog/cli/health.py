"""Find sessions that would not resume in full; results are cached until a file changes."""

from collections.abc import Iterable, Iterator

from turnlog.conversation.session import open_session
from turnlog.edit.check.checks import check_session
from turnlog.format.jsonl import FileState
from turnlog.index.database import Index
from turnlog.index.known_files import keep_check, kept_check
from turnlog.store.catalog import SessionFile

AT_ONCE = 64 << 20
"""Bytes of sessions to check per run; the rest is checked by later runs."""


def unresumable(index: Index, sessions: Iterable[SessionFile]) -> Iterator[tuple[SessionFile, str]]:
    """Yield sessions that would not resume in full, each with its worst finding."""
    room = AT_ONCE
    for session in sessions:
        state = FileState.of(session.path)
        is_known, message = kept_check(index.db, session.path, state)
        if not is_known and session.size <= room:
            room -= session.size
            message = _worst(session)
            keep_check(index.db, session.path, state, message)
        if message:
            yield session, message


def _worst(session: SessionFile) -> str | None:
    found = [each for each in check_session(open_session(session.path)) if each.is_serious]
    return found[0].message if found else None
