"""Makes planned changes: refuses what would hurt, keeps what was, swaps in what is new.

A session is first written in a folder of its own beside its place, and checked there.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from turnlog.conversation.session import Session, open_session
from turnlog.edit.check import check_session
from turnlog.edit.findings import Finding, Severity
from turnlog.edit.journal import Journal, Record, chunks_of
from turnlog.errors import Conflict, Unresumable
from turnlog.format.jsonl import FileState, replace_file
from turnlog.store.catalog import live_sessions
from turnlog.store.paths import Store

RECENT = 5.0
"""Seconds: a file written to this lately may be in use by a client that keeps no registry."""
STAGE = ".turnlog-"
"""What the names of folders begin with in which sessions are written before they are checked."""
ABANDONED = 3600.0
"""Seconds after which such a folder is the remains of a crash."""
BREAKING = frozenset({Severity.FATAL, Severity.LOSS})


def require_idle(store: Store, path: Path) -> None:
    """Refuse a session that a client has open: it would go on from what it has in memory."""
    if path.stem in live_sessions(store):
        raise Conflict(f"{path.stem} is open in a running client", "close it and try again")
    if _is_open(path):
        raise Conflict(f"{path} is open in another process", "close it and try again")
    if time.time() - path.stat().st_mtime < RECENT:
        raise Conflict(f"{path} was written to a moment ago", "try again in a few seconds")


def replace_session(
    journal: Journal, title: str, session: Session, lines: Iterable[bytes]
) -> Record:
    """Swap in new lines for a session, if they are sound and it has not changed meanwhile."""
    state = FileState.of(session.path)
    with _staged(session.path, lines) as staged:
        require_sound(session, open_session(staged))
        record = journal.begin(title, [session.path])
        replace_file(session.path, chunks_of(staged), state)
    journal.finish(record)
    return record


def create_session(
    journal: Journal, title: str, origin: Session, files: dict[Path, Iterable[bytes]]
) -> Record:
    """Write a new session, which comes first, and its sidecars; it appears when all is there."""
    for path in files:
        if path.exists():
            raise Conflict(f"{path} exists already", "turnlog ls")
    main, *others = files
    with _staged(main, files[main]) as staged:
        require_sound(origin, open_session(staged))
        record = journal.begin(title, list(files))
        for path in others:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write(path, files[path])
        staged.rename(main)
    journal.finish(record)
    return record


def require_sound(before: Session, after: Session) -> None:
    """Refuse a result that would not resume, or not whole, where what was there would."""
    known = {finding.kind for finding in _breaking(before)}
    new = [finding for finding in _breaking(after) if finding.kind not in known]
    if new:
        rows = [f"line {finding.line or '-'}: {finding.message}" for finding in new]
        message = f"the result would not resume whole; {before.path.name} is as it was"
        raise Unresumable(message, rows, f"turnlog check {before.id}")


def _breaking(session: Session) -> list[Finding]:
    return [finding for finding in check_session(session) if finding.severity in BREAKING]


@contextmanager
def _staged(path: Path, lines: Iterable[bytes]) -> Generator[Path]:
    for left in path.parent.glob(f"{STAGE}*"):
        if time.time() - left.stat().st_mtime > ABANDONED:
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=STAGE, dir=path.parent))
    try:
        _write(folder / path.name, lines)
        yield folder / path.name
    finally:
        shutil.rmtree(folder)


def _write(path: Path, content: Iterable[bytes]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.writelines(content)
        file.flush()
        os.fsync(descriptor)


def _is_open(path: Path) -> bool:
    """Whether another process has the file open, where the system can tell."""
    wanted = str(path.resolve())
    for folder in Path("/proc").glob("[0-9]*/fd"):
        if folder.parent.name == str(os.getpid()):
            continue
        try:
            if any(str(each.readlink()) == wanted for each in folder.iterdir()):
                return True
        except OSError:  # another user's process, or one that has ended
            continue
    return False
