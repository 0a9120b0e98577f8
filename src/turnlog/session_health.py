"""Find sessions that need attention: those that would not resume, and those about to be deleted.

Results of checks are cached in the index until a file changes. All front ends use this module.
"""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from turnlog.conversation.session import open_session
from turnlog.edit.check.checks import check_session
from turnlog.format.jsonl import FileState
from turnlog.index.database import Index
from turnlog.index.known_files import keep_check, kept_check, sessions_before
from turnlog.index.sync_policy import synced_index
from turnlog.store.archive.archive import open_archive
from turnlog.store.catalog import SessionFile
from turnlog.store.client_settings import kept_days
from turnlog.store.paths import Store
from turnlog.store.stores import AnyStores, each_store

AT_ONCE = 64 << 20
"""Bytes of sessions to check per run; later runs check the remaining sessions."""
SOON_DAYS = 7


def unresumable(
    index: Index, sessions: Iterable[SessionFile], room: int = AT_ONCE
) -> Iterator[tuple[SessionFile, str]]:
    """Yield sessions that would not resume in full, each with its worst finding."""
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


def deleted_before(store: Store) -> float:
    """Return a time in seconds since 1970: sessions last modified before it are deleted soon."""
    return time.time() - (kept_days(store) - SOON_DAYS) * 86400


class ExpiringSession(NamedTuple):
    """A session that the client deletes within a week, and that nobody archived."""

    path: Path
    id: str
    title: str | None
    days: float
    """Days until it is deleted; negative if the client deletes it at its next start."""


def expiring(stores: AnyStores) -> list[ExpiringSession]:
    """Return the sessions that will be deleted soon and are not archived, the oldest first."""
    found: list[ExpiringSession] = []
    with synced_index(stores) as index:
        for store in each_store(stores):
            # Each store has its own settings, and so its own period.
            ends = kept_days(store) - time.time() / 86400
            old = sessions_before(index.db, str(store.root), deleted_before(store))
            found += (
                ExpiringSession(Path(path), id_, title, ends + at / 86400)
                for path, id_, title, at in old
            )
    archived = set(open_archive().names()) if found else set[str]()
    left = [session for session in found if session.id not in archived]
    return sorted(left, key=lambda session: session.days)
