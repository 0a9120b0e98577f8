"""Background work of client hooks: archive or push in a detached process.

A hook that does the work itself would block the client, or be killed by it. Nobody sees the errors
of a detached process, so they are saved to a note, which the next run reports.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from turnlog.errors import TurnlogError, Unavailable
from turnlog.format.atomic import write_atomic
from turnlog.format.private_files import create_private_folder
from turnlog.store.archive.archive import Archive
from turnlog.store.archive.update import archive_sessions
from turnlog.store.descriptors import read_below
from turnlog.store.paths import Store

NOTE = "failed"
LONGEST_NOTE = 1 << 16


def archive_in_background(store: Store, archive: Archive) -> str:
    """Archive in a detached process; return the error of the last run, or an empty string."""
    create_private_folder(archive.folder)
    if not os.access(archive.folder, os.W_OK):
        raise Unavailable(f"{archive.folder} is not writable")
    return run_in_background(archive.folder, lambda: _archive(store, archive))


def archive_silently(store: Store, archive: Archive) -> None:
    """Archive; save an error to a note in the archive."""
    run_noted(archive.folder, lambda: _archive(store, archive))


def run_in_background(folder: Path, work: Callable[[], object]) -> str:
    """Run work in a detached process; return the error of the last run, or an empty string."""
    failed = _noted(folder)
    # Otherwise, the child would print buffered output a second time.
    sys.stdout.flush()
    # Windows has no fork: there the client waits.
    if hasattr(os, "fork") and os.fork():
        return failed
    try:
        _detach()
        run_noted(folder, work)
    finally:
        # Skip the caller's cleanup, which the parent does.
        os._exit(0)


def run_noted(folder: Path, work: Callable[[], object]) -> None:
    """Run work; save its error to a note in a folder, or remove the last note."""
    note = folder / NOTE
    try:
        work()
        note.unlink(missing_ok=True)
    except TurnlogError as error:
        write_atomic(note, error.line.encode("utf-8", "replace"))
    except OSError as error:
        write_atomic(note, str(error).encode("utf-8", "replace"))


def _archive(store: Store, archive: Archive) -> None:
    """Archive all files; raise afterwards if one of them could not be read."""
    for each in archive_sessions(store, archive).unread[:1]:
        raise Unavailable(f"{each.path}: {each.reason}")


def _noted(folder: Path) -> str:
    """Return the error of the last run, or an empty string."""
    try:
        return read_below(folder, (), NOTE, LONGEST_NOTE).decode("utf-8", "replace")
    except (OSError, Unavailable):
        return ""


def _detach() -> None:
    """Detach from the terminal and the client: both may end before this process."""
    if hasattr(os, "setsid"):
        os.setsid()
        os.nice(10)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
