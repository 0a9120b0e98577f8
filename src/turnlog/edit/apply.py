"""Apply planned changes to files: all or none, recorded in the journal first.

New content is staged next to its destination, validated there, and swapped in only if the files
have not changed since they were read.
"""

import errno
import filecmp
import os
import shlex
import shutil
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from turnlog.conversation.session import Session, open_session
from turnlog.edit.check.checks import check_session
from turnlog.edit.check.findings import Finding, Severity
from turnlog.edit.journal import (
    Journal,
    Record,
    clear_abandoned,
    hash_of,
    make_folders,
    open_journal,
    staging_folder,
)
from turnlog.edit.open_sessions import require_closed
from turnlog.errors import Conflict, TurnlogError, Unresumable
from turnlog.format.jsonl import CHUNK, FileState, swap_in
from turnlog.format.portable import CREATE
from turnlog.store.paths import Store
from turnlog.store.symlinks import find_link, require_no_link

RECENT = 5.0
"""Seconds: a file modified this recently may be in use by a client that keeps no registry."""
BREAKING = frozenset({Severity.FATAL, Severity.LOSS})
HINTS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "df -h"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "ls -ld"),
}
"""Commands that show why a file could not be written, by error number."""


class Change(NamedTuple):
    """The planned change of one file."""

    path: Path
    content: Iterable[bytes] | None
    """The new content; None to delete the file."""
    was: FileState | None
    """State of the file when it was read; None for a new file."""
    like: Path | None = None
    """The file whose mode and times a new one copies."""
    is_log: bool = False
    """True if other programs may append at any time; an undo keeps the lines they appended."""


Ready = dict[Path, Path]
"""The staged file for each path."""


def require_idle(store: Store, *paths: Path) -> None:
    """Raise `Conflict` for sessions that are open, or were written to within `RECENT` seconds.

    A file that turnlog itself has just written, such as a clone, may be changed at once. So may one
    whose time is in the future: the clock is wrong, or was when the file was written.
    """
    require_closed([store], paths)
    recent = [path for path in paths if abs(time.time() - path.stat().st_mtime) < RECENT]
    written = open_journal().written() if recent else {}
    for path in recent:
        if written.get(str(path.absolute())) != hash_of(path):
            # A client that keeps no registry continues from memory, and would undo the change.
            reason = f"{path} was written to a moment ago, perhaps by a client that is running"
            raise Conflict(reason, f"sleep {RECENT:.0f}; turnlog live --once")


def apply_changes(
    journal: Journal,
    title: str,
    changes: Sequence[Change],
    require: Callable[[Ready], None] = lambda ready: None,
    clearing: Sequence[Path] = (),
    root: Path | None = None,
) -> Record | None:
    """Apply changes in order, all or none; return None if the content is already the same.

    The journal stores the old content before the first change. `require` validates the staged files
    and raises to cancel. Folders in `clearing` are removed if no file is left in them. With `root`,
    files reached through a symlink below it are never changed.
    """
    if root:
        require_no_link(root, (change.path for change in changes))
        clearing = [folder for folder in clearing if not find_link(root, folder)]
    folder = changes[0].path.parent if changes else Path()
    try:
        with _staged(changes) as ready:
            # Without this, an edit that changes nothing would still appear in the history and be
            # undoable.
            new = [change for change in changes if not _is_same(change, ready.get(change.path))]
            if not new:
                return None
            require(ready)
            _require_as_read(new)
            if root:  # again: staging may have taken a while
                require_no_link(root, (change.path for change in new))
            files = {change.path: ready.get(change.path) for change in new}
            logs = [change.path for change in new if change.is_log]
            # The folder only serves error messages: it is the one being written to at the moment.
            folder = journal.folder
            record = journal.begin(title, files, logs, clearing)
            folder = new[0].path.parent
            _make_all(journal, record, new, ready, clearing)
    except OSError as error:
        raise _not_made(title, error, folder) from error
    return record


def _not_made(title: str, error: OSError, folder: Path) -> TurnlogError:
    """Return the error for a change that was rolled back; `folder` was being written to.

    An error on opening a file names that file; an error on writing, such as a full disk, does not.
    """
    hint = HINTS.get(error.errno or 0)
    named = Path(error.filename).parent if isinstance(error.filename, str) else folder
    existing = shlex.quote(str(_nearest_folder(named.absolute())))
    message = f"{title}: {error.strerror or error}; nothing was changed"
    return TurnlogError(message, f"{hint} {existing}" if hint else None)


def replace_session(
    journal: Journal,
    title: str,
    session: Session,
    lines: Iterable[bytes],
    removed: Iterable[Path] = (),
) -> Record | None:
    """Replace the lines of a session, if the result is valid and the file has not changed.

    Files in `removed` are deleted, and come back with an undo.
    """
    changes = [Change(session.path, lines, session.state)]
    changes += [Change(path, None, FileState.of(path)) for path in removed]
    return apply_changes(
        journal, title, changes, lambda ready: require_sound(session, ready[session.path])
    )


def create_session(
    journal: Journal, title: str, origin: Session, files: dict[Path, Iterable[bytes]]
) -> Record | None:
    """Write a new session and its sidecars; the session's own file comes last in `files`."""
    # A client lists a session as soon as its file exists, so that file must appear last.
    changes = [Change(path, content, None) for path, content in files.items()]
    main = changes[-1].path
    return apply_changes(journal, title, changes, lambda ready: require_sound(origin, ready[main]))


def require_sound(before: Session, result: Path) -> None:
    """Raise `Unresumable` if resuming the result would lose more than resuming the original."""
    found = _breaking(open_session(result))
    if not found:
        return
    known = {finding.kind for finding in _breaking(before)}
    new = [finding for finding in found if finding.kind not in known]
    if new:
        rows = [f"line {finding.line or '-'}: {finding.message}" for finding in new]
        message = f"the result could not be resumed in full; {before.path.name} is unchanged"
        raise Unresumable(message, rows, f"turnlog check {shlex.quote(before.id)}")


def clear_folders(folders: Iterable[Path]) -> None:
    """Remove folders, and folders below them, that contain no file."""
    for folder in folders:
        for path, _, _ in os.walk(folder, topdown=False):
            with suppress(OSError):
                Path(path).rmdir()


def _breaking(session: Session) -> list[Finding]:
    return [finding for finding in check_session(session) if finding.severity in BREAKING]


def _require_as_read(changes: Iterable[Change]) -> None:
    for change in changes:
        if change.was is None:
            if change.path.exists():
                raise Conflict(f"{change.path} already exists", "turnlog ls")
        elif not change.path.exists() or FileState.of(change.path) != change.was:
            raise Conflict(f"{change.path} changed since it was read", "run the command again")


def _is_same(change: Change, ready: Path | None) -> bool:
    return bool(ready and change.was and filecmp.cmp(ready, change.path, shallow=False))


def _make_all(
    journal: Journal,
    record: Record,
    changes: Sequence[Change],
    ready: Ready,
    clearing: Iterable[Path],
) -> None:
    try:
        for change in changes:
            _make(change, ready.get(change.path))
        clear_folders(clearing)
        journal.finish(record)
    # Also on KeyboardInterrupt: a change made halfway would leave, for example, a moved session
    # without its sub-agents.
    except BaseException:
        _roll_back(journal, record)
        raise


def _roll_back(journal: Journal, record: Record) -> None:
    try:
        journal.roll_back(record)
    except OSError as error:
        if journal.is_as_before(record):
            raise _not_made(record.title, error, journal.folder) from error
        reason = error.strerror or error
        raise TurnlogError(
            f"{record.title}: only partly applied: {reason}", f"turnlog undo {record.id}"
        ) from error


def _make(change: Change, ready: Path | None) -> None:
    if ready is None:
        change.path.unlink()
    elif change.was is None:
        make_folders(change.path.parent)
        ready.rename(change.path)
    else:
        swap_in(change.path, ready, change.was)


@contextmanager
def _staged(changes: Iterable[Change]) -> Generator[Ready]:
    """Write new contents to staging folders, each on the file system of its destination."""
    folders: dict[Path, Path] = {}
    ready: Ready = {}
    with ExitStack() as stack:
        for number, change in enumerate(changes):
            # A rename is atomic only within a file system, so stage as close as possible.
            parent = _nearest_folder(change.path.resolve().parent)
            if change.content is None:
                clear_abandoned(parent)
                continue
            if parent not in folders:
                folders[parent] = stack.enter_context(staging_folder(parent))
            # The staged file keeps its name, because checks also look at the session's name.
            numbered = folders[parent] / str(number)
            numbered.mkdir(mode=0o700)
            ready[change.path] = numbered / change.path.name
            _write(ready[change.path], change.content)
            if change.like:
                shutil.copystat(change.like, ready[change.path])
        yield ready


def _nearest_folder(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.is_dir())


def _write(path: Path, content: Iterable[bytes]) -> None:
    descriptor = os.open(path, CREATE, 0o600)
    with os.fdopen(descriptor, "wb", buffering=CHUNK) as file:
        file.writelines(content)
        file.flush()
        os.fsync(descriptor)
