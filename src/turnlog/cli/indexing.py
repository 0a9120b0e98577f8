"""The index of a store, opened and brought up to date for a command."""

import os
import sys
import time
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from turnlog.cli.terminal import echo
from turnlog.format.private_files import create_private_folder, touch_private
from turnlog.index.database import Index, index_path, open_index
from turnlog.index.ingest.change_check import is_current, is_session_current
from turnlog.index.ingest.file_states import FileStates, begin_scan, scan_store
from turnlog.index.speculative import Ahead, Ask
from turnlog.store.paths import Store, archive_folder

if TYPE_CHECKING:
    from turnlog.index.ingest.sync import Synced

T = TypeVar("T")

WORTH_A_BAR = 16 << 20
"""Fewer bytes are read before a bar could be looked at."""
LITTLE = 4 << 20
"""Bytes that are read while a status line waits."""
AGE = 60
"""Seconds after which an index is looked after behind a status line's back."""


@contextmanager
def synced_index(
    store: Store, *, words: bool = False, states: FileStates | None = None
) -> Generator[Index]:
    """Open the index of a store, bring its figures up to date, and on request its words.

    If that takes long, a bar on stderr shows it. `states` are those of a scan just made.
    """
    finish_scan = begin_scan(store) if states is None else lambda: states
    with _opened(store) as index:
        found = finish_scan()
        if not is_current(index.db, found, archive_folder(), words=words):
            _bring_up_to_date(index, store, found, words=words)
        yield index


@contextmanager
def asked_index(store: Store, ask: Ask[T]) -> Generator[Ahead[T]]:
    """Run a query on figures and words speculatively while checking files for changes."""
    finish_scan = begin_scan(store)
    with _opened(store) as index, closing(Ahead(index, ask)) as ahead:
        states = finish_scan()
        if not is_current(index.db, states, archive_folder()):
            ahead.close()
            _bring_up_to_date(index, store, states)
        yield ahead


@contextmanager
def _opened(store: Store) -> Generator[Index]:
    with open_index(index_path(store)) as index:
        if index.notice:
            echo(f"turnlog: {index.notice}", err=True)
        yield index


def _bring_up_to_date(
    index: Index, store: Store, states: FileStates | None = None, *, words: bool = True
) -> "Synced":
    from turnlog.index.ingest.sync import Scan, sync_scanned
    from turnlog.store.archive.archive import open_archive

    bar = _Bar()
    try:
        scan = Scan(store, scan_store(store) if states is None else states)
        done = sync_scanned(index, scan, bar.show, archive=open_archive(), words=words)
    finally:
        bar.close()
    touch_private(_stamp(index.path))
    return done


def sync_index(store: Store) -> "tuple[Path, Synced]":
    """Bring the index of a store up to date; where it lies, and what was done."""
    with _opened(store) as index:
        return index.path, _bring_up_to_date(index, store)


@contextmanager
def open_behind(store: Store, session: Path | None) -> Generator[Index | None]:
    """The index for who cannot wait: of one session as it is now, of all else as of a minute ago.

    What else there is to read is read by another process. None while there is no index at all.
    """
    path = index_path(store)
    if _is_due(path):
        _sync_behind()
    if not path.exists():
        yield None
        return
    with open_index(path) as index:
        if session and not is_session_current(index.db, session):
            from turnlog.index.ingest.sync import sync_session

            with suppress(_TooMuch):
                sync_session(index, session, _require_little)
        yield index


class _TooMuch(Exception):
    """More is to be read than there is time for."""


def _require_little(done: int, total: int) -> None:
    if total > LITTLE:
        raise _TooMuch


def _is_due(path: Path) -> bool:
    """Whether nobody has brought an index up to date for a while, or is about to."""
    stamp = _stamp(path)
    is_due = not stamp.exists() or time.time() - stamp.stat().st_mtime > AGE
    if is_due:
        create_private_folder(stamp.parent)
        touch_private(stamp)
    return is_due


def _stamp(path: Path) -> Path:
    """A file whose time tells when the index was last brought up to date."""
    return path.with_suffix(".synced")


def _sync_behind() -> None:
    """Start a sync that goes on when this process has ended."""
    command = [sys.executable, "-m", "turnlog", "sync"]
    if not hasattr(os, "posix_spawn"):
        _start_detached(command)
        return
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.posix_spawn(
        sys.executable,
        command,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, nowhere, end) for end in (0, 1, 2)],
        setsid=True,
    )
    os.close(nowhere)


def _start_detached(command: list[str]) -> None:
    import subprocess

    flags = getattr(subprocess, "DETACHED_PROCESS", 0)
    flags |= getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    subprocess.Popen(command, creationflags=flags, **streams)


class _Bar:
    """A bar that appears once there is enough to do."""

    def __init__(self) -> None:
        self.drawn: Any = None

    def show(self, done: int, total: int) -> None:
        from turnlog.cli.output import progress_bar

        if total < WORTH_A_BAR:
            return
        if self.drawn is None or done < self.drawn.pos:  # a new phase
            self.close()
            self.drawn = progress_bar(total, "indexing")
            self.drawn.__enter__()
        self.drawn.update(done - self.drawn.pos)

    def close(self) -> None:
        if self.drawn is not None:
            self.drawn.__exit__(None, None, None)
            self.drawn = None
