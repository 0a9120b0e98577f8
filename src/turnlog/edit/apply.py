"""Makes planned changes: refuses what would hurt, keeps what was, swaps in what is new.

Files are first written in a folder of their own beside their places, and checked there.
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
from turnlog.edit.journal import Journal, Record, clear_abandoned, make_folders, staging_folder
from turnlog.edit.open_sessions import require_closed
from turnlog.errors import Conflict, TurnlogError, Unresumable
from turnlog.format.jsonl import CHUNK, FileState, swap_in
from turnlog.format.portable import CREATE
from turnlog.store.paths import Store
from turnlog.store.symlinks import find_link, require_no_link

RECENT = 5.0
"""Seconds: a file written to this lately may be in use by a client that keeps no registry."""
BREAKING = frozenset({Severity.FATAL, Severity.LOSS})
HINTS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "df -h"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "ls -ld"),
}
"""What to look at where a file could not be written."""


class Change(NamedTuple):
    """What is to become of one file."""

    path: Path
    content: Iterable[bytes] | None
    """None for a file that goes."""
    was: FileState | None
    """The file as it was read; None for one that is new."""
    like: Path | None = None
    """The file whose mode and time a new one takes over."""
    is_log: bool = False
    """Others append to it at any time: an undo keeps what they wrote since."""


Ready = dict[Path, Path]
"""Where the new content of each file lies, before it is swapped in."""


def require_idle(store: Store, *paths: Path) -> None:
    """Refuse sessions that are in use, or were a moment ago."""
    require_closed([store], paths)
    for path in paths:
        if time.time() - path.stat().st_mtime < RECENT:
            raise Conflict(f"{path} was written to a moment ago", "try again in a few seconds")


def apply_changes(
    journal: Journal,
    title: str,
    changes: Sequence[Change],
    require: Callable[[Ready], None] = lambda ready: None,
    clearing: Sequence[Path] = (),
    root: Path | None = None,
) -> Record | None:
    """Make changes in their order, all or none; `require` looks at what is about to be swapped in.

    The journal knows what was there before the first of them is made. None if all is as it was.
    Of the folders to clear, those go in which no file is left. Below `root`, if it is given, no
    symlink may lead to anything that changes.
    """
    if root:
        require_no_link(root, (change.path for change in changes))
        clearing = [folder for folder in clearing if not find_link(root, folder)]
    folder = changes[0].path.parent if changes else Path()
    try:
        with _staged(changes) as ready:
            new = [change for change in changes if not _is_same(change, ready.get(change.path))]
            if not new:
                return None
            require(ready)
            _require_as_read(new)
            if root:  # again: staging may have taken a while
                require_no_link(root, (change.path for change in new))
            files = {change.path: ready.get(change.path) for change in new}
            logs = [change.path for change in new if change.is_log]
            folder = journal.folder
            record = journal.begin(title, files, logs, clearing)
            folder = new[0].path.parent
            _make_all(journal, record, new, ready, clearing)
    except OSError as error:
        raise _not_made(title, error, folder) from error
    return record


def _not_made(title: str, error: OSError, folder: Path) -> TurnlogError:
    """Return the error for a change of which nothing was made; `folder` is what it was writing to.

    An error in opening a file names it; one in writing, such as of a full disk, does not.
    """
    hint = HINTS.get(error.errno or 0)
    named = Path(error.filename).parent if isinstance(error.filename, str) else folder
    place = shlex.quote(str(_nearest_folder(named.absolute())))
    message = f"{title}: {error.strerror or error}; nothing was changed"
    return TurnlogError(message, f"{hint} {place}" if hint else None)


def replace_session(
    journal: Journal, title: str, session: Session, lines: Iterable[bytes]
) -> Record | None:
    """Swap in new lines for a session, if they are sound and it has not changed meanwhile."""
    changes = [Change(session.path, lines, session.state)]
    return apply_changes(
        journal, title, changes, lambda ready: require_sound(session, ready[session.path])
    )


def create_session(
    journal: Journal, title: str, origin: Session, files: dict[Path, Iterable[bytes]]
) -> Record | None:
    """Write a new session, which comes last, and its sidecars; it appears when all is there."""
    changes = [Change(path, content, None) for path, content in files.items()]
    main = changes[-1].path
    return apply_changes(journal, title, changes, lambda ready: require_sound(origin, ready[main]))


def require_sound(before: Session, result: Path) -> None:
    """Refuse a result that would not resume, or not whole, where what was there would."""
    found = _breaking(open_session(result))
    if not found:
        return
    known = {finding.kind for finding in _breaking(before)}
    new = [finding for finding in found if finding.kind not in known]
    if new:
        rows = [f"line {finding.line or '-'}: {finding.message}" for finding in new]
        message = f"the result would not resume whole; {before.path.name} is as it was"
        raise Unresumable(message, rows, f"turnlog check {before.id}")


def clear_folders(folders: Iterable[Path]) -> None:
    """Remove folders in which no file is left."""
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
                raise Conflict(f"{change.path} exists already", "turnlog ls")
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
    except BaseException:
        _take_back(journal, record)
        raise


def _take_back(journal: Journal, record: Record) -> None:
    try:
        journal.roll_back(record)
    except OSError as error:
        if journal.is_as_before(record):
            raise _not_made(record.title, error, journal.folder) from error
        reason = error.strerror or error
        raise TurnlogError(
            f"{record.title}: made in part, {reason}", f"turnlog undo {record.id}"
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
    """Write new contents, each on the file system of its place."""
    folders: dict[Path, Path] = {}
    ready: Ready = {}
    with ExitStack() as stack:
        for number, change in enumerate(changes):
            place = _nearest_folder(change.path.resolve().parent)
            if change.content is None:
                clear_abandoned(place)
                continue
            if place not in folders:
                folders[place] = stack.enter_context(staging_folder(place))
            # A session keeps its name: part of what is checked is what it is called.
            beside = folders[place] / str(number)
            beside.mkdir(mode=0o700)
            ready[change.path] = beside / change.path.name
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
