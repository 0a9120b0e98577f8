"""Decide when the index is brought up to date: before a query, during one, or in the background.

Queries see every line that was in the files when they started. A speculative query runs while the
files are checked for changes: its result counts only if nothing had changed. A server refreshes the
index between requests instead, and answers them from the index as it is.
"""

import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from turnlog.errors import Unavailable
from turnlog.format.private_files import create_private_folder, touch_private
from turnlog.index.connection_pool import pooled_index
from turnlog.index.database import (
    DamagedIndex,
    Index,
    build_lock,
    index_path,
    is_built,
    open_index,
)
from turnlog.index.ingest.change_check import is_current, is_session_current
from turnlog.index.ingest.file_states import FileStates, begin_scan, scan_store
from turnlog.index.speculative import Ask, SpeculativeQuery
from turnlog.store.paths import archive_folder
from turnlog.store.stores import AnyStores, holder_of, present

if TYPE_CHECKING:
    from subprocess import Popen

    from turnlog.index.ingest.sync import Synced

T = TypeVar("T")

LITTLE = 4 << 20
"""A status line waits for a sync of at most this many bytes."""
AGE = 60
"""Seconds after which a status line starts a sync in the background."""

# Without `-P`, Python would run a `turnlog.py` in the current directory. The client calls the
# status line there, and it may be a stranger's repository.
PROGRAM = [sys.executable, "-P", "-m", "turnlog"]

SKIPPED = "turnlog: skipped "
"""The start of a line about a file that cannot be read."""

_is_deferred = ContextVar("_is_deferred", default=False)
"""True if queries leave the index as it is."""

_syncs: "set[Popen[str]]" = set()
"""Processes that `run_sync` waits for in other threads."""

Progress = Callable[[int, int], None]
"""Called with the bytes read so far and the total; starts over for each phase."""


@contextmanager
def _no_progress() -> Generator[Progress]:
    yield lambda done, total: None


class Feedback(NamedTuple):
    """Callbacks for progress and notices of a sync; silent by default."""

    progress: Callable[[], AbstractContextManager[Progress]] = _no_progress
    notice: Callable[[str], None] = lambda text: None
    """Called if the index had to be rebuilt."""


SILENT = Feedback()


def sync_index(stores: AnyStores, feedback: Feedback = SILENT) -> "tuple[Path, Synced]":
    """Bring the index of stores up to date; return its path and a summary of the sync."""
    with _opened(stores, feedback) as index:
        return index.path, _bring_up_to_date(index, stores, feedback)


@contextmanager
def deferred_sync() -> Generator[None]:
    """Answer all queries of this thread or task from the index as it is.

    For a server that calls `refresh_index` between requests: comparing 10,000 files with the index
    takes too long for a page.
    """
    token = _is_deferred.set(True)
    try:
        yield
    finally:
        _is_deferred.reset(token)


def refresh_index(stores: AnyStores) -> bool:
    """Bring an index up to date from a process with threads; return whether files had changed.

    A damaged index is rebuilt.
    """
    try:
        return _refresh(stores)
    except DamagedIndex:
        return _refresh(stores)


def _refresh(stores: AnyStores) -> bool:
    states = scan_store(stores)
    try:
        with _opened(stores, SILENT) as index:
            if is_current(index.db, states, archive_folder()):
                return False
            _bring_up_to_date(index, stores, Feedback(_little), states)
    except _TooMuch:
        # A large sync forks, and a fork copies locks that other threads hold.
        run_sync(stores)
    return True


def program_for(stores: AnyStores) -> list[str]:
    """Return the command line that starts turnlog for these stores in another process."""
    roots = [str(store.root) for store in present(stores)]
    return [*PROGRAM, *(word for root in roots for word in ("--store", root))]


def run_sync(stores: AnyStores) -> None:
    """Bring an index up to date in a process of its own, and wait for it."""
    import subprocess

    with subprocess.Popen(
        [*program_for(stores), "sync"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        _syncs.add(process)
        try:
            printed = process.communicate()[1]
        finally:
            _syncs.discard(process)
    # Unreadable files are reported as well, but do not keep other files from being indexed.
    errors = [line for line in printed.splitlines() if not line.startswith(SKIPPED)]
    if process.returncode and errors:
        raise Unavailable(errors[-1].removeprefix("turnlog: "))


def stop_syncs() -> None:
    """Terminate the processes that `run_sync` waits for; called before a server exits."""
    for process in list(_syncs):
        process.terminate()


@contextmanager
def _little() -> Generator[Progress]:
    yield _require_little


@contextmanager
def synced_index(
    stores: AnyStores,
    *,
    words: bool = False,
    model: str | None = None,
    states: FileStates | None = None,
    feedback: Feedback = SILENT,
    work_only: bool = False,
) -> Generator[Index]:
    """Open the index of stores with its figures up to date, and its words if requested.

    Pass `states` if the stores were just scanned, and the name of a `model` so that vectors are
    made along with words. With `work_only`, for reports on work, the first index of a large store
    may be one in memory, while a background process writes the real one.
    """
    if _is_deferred.get():
        with pooled_index(index_path(stores)) as index:
            yield index
        return
    finish_scan = begin_scan(stores) if states is None else lambda: states
    with _opened(stores, feedback) as index:
        if model:
            from turnlog.index.semantic.vector_store import use_model

            use_model(index.db, model)
        found = finish_scan()
        if not is_current(index.db, found, archive_folder(), words=words):
            if work_only and (memory := _build_in_background(index, stores, feedback, found)):
                with closing(memory):
                    yield memory
                return
            _bring_up_to_date(index, stores, feedback, found, words=words)
        yield index


@contextmanager
def open_without_waiting(stores: AnyStores, session: Path | None) -> Generator[Index | None]:
    """Open the index for a status line: one session current, all others up to a minute old.

    A background process reads the other sessions. Yields None while there is no index.
    """
    path = index_path(stores)
    if _is_due(path):
        _sync_in_background(stores)
    if not path.exists():
        yield None
        return
    with open_index(path) as index:
        if session and not is_session_current(index.db, session):
            from turnlog.index.ingest.sync import sync_session

            with suppress(_TooMuch):
                sync_session(index, holder_of(stores, session), session, _require_little)
        yield index


@contextmanager
def speculative_index(
    stores: AnyStores, ask: Ask[T], feedback: Feedback
) -> Generator[SpeculativeQuery[T]]:
    """Run a query on figures and words speculatively while checking files for changes."""
    is_deferred = _is_deferred.get()
    finish_scan = None if is_deferred else begin_scan(stores)
    with _opened(stores, feedback) as index, closing(SpeculativeQuery(index, ask)) as speculative:
        states = finish_scan() if finish_scan else None
        if states is not None and not is_current(index.db, states, archive_folder()):
            speculative.close()
            _bring_up_to_date(index, stores, feedback, states)
        yield speculative


@contextmanager
def _opened(stores: AnyStores, feedback: Feedback) -> Generator[Index]:
    with open_index(index_path(stores)) as index:
        if index.notice:
            feedback.notice(index.notice)
        yield index


def _build_in_background(
    index: Index, stores: AnyStores, feedback: Feedback, states: FileStates
) -> Index | None:
    """Return an index in memory that answers reports on work; None if it cannot."""
    from turnlog.index.ingest.first_build import build_in_background, can_detach
    from turnlog.index.ingest.sync import StoreScan
    from turnlog.store.archive.archive import open_archive

    if is_built(index.db) or not can_detach():
        return None
    with feedback.progress() as progress:
        scan = StoreScan(stores, states)
        memory = build_in_background(index, scan, open_archive(), progress)
    return memory and Index(index.path, memory, None)


def _bring_up_to_date(
    index: Index,
    stores: AnyStores,
    feedback: Feedback,
    states: FileStates | None = None,
    *,
    words: bool = True,
) -> "Synced":
    from turnlog.index.ingest.sync import StoreScan, sync_scanned
    from turnlog.store.archive.archive import open_archive

    with ExitStack() as held, feedback.progress() as progress:
        if not is_built(index.db):
            held.enter_context(build_lock(index.path))
        scan = StoreScan(stores, scan_store(stores) if states is None else states)
        done = sync_scanned(index, scan, progress, archive=open_archive(), words=words)
    touch_private(_stamp(index.path))
    return done


class _TooMuch(Exception):
    """There is more to read than a status line can wait for."""


def _require_little(done: int, total: int) -> None:
    if total > LITTLE:
        raise _TooMuch


def _is_due(path: Path) -> bool:
    """Return whether a sync is due; if so, claim it, so that only one process starts it."""
    stamp = _stamp(path)
    is_due = not stamp.exists() or time.time() - stamp.stat().st_mtime > AGE
    if is_due:
        create_private_folder(stamp.parent)
        touch_private(stamp)
    return is_due


def _stamp(path: Path) -> Path:
    """Return the file whose modification time records the last sync."""
    return path.with_suffix(".synced")


def _sync_in_background(stores: AnyStores) -> None:
    """Start a sync that continues after this process has ended."""
    command = [*program_for(stores), "sync"]
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
    """Start a process on Windows that outlives this one."""
    import subprocess

    flags = getattr(subprocess, "DETACHED_PROCESS", 0)
    flags |= getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    subprocess.Popen(command, creationflags=flags, **streams)
