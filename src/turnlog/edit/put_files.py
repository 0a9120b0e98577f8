"""Write files into a directory: all or none, undoable, and never over unknown content."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from turnlog.edit.apply import Change, apply_changes
from turnlog.edit.journal import Journal, Record, open_journal
from turnlog.errors import Conflict
from turnlog.format.jsonl import FileState
from turnlog.format.regular_files import read_regular
from turnlog.store.symlinks import find_link

ELSEWHERE = "turnlog files SESSION --at TURN --restore OTHER_DIR"


class PlannedFile(NamedTuple):
    """A file to write."""

    parts: tuple[str, ...]
    """Its path below the directory."""
    content: bytes
    replaceable: frozenset[str] = frozenset()
    """SHA-256 hashes of contents that may be replaced."""


class PutResult(NamedTuple):
    """The files that were written, and those left alone."""

    written: list[Path]
    unchanged: list[Path]
    """Files that already had the content."""
    record: Record | None
    """The change in the journal; None if nothing was written."""


def put_files(
    root: Path,
    files: Sequence[PlannedFile],
    title: str,
    dry_run: bool = False,
    journal: Journal | None = None,
) -> PutResult:
    """Write files below a directory; raise `Conflict` if an existing file has unknown content.

    Nothing is written through a symlink below the directory.
    """
    changes: list[Change] = []
    unchanged: list[Path] = []
    for file in files:
        path = root.joinpath(*file.parts)
        change = _planned(root, path, file)
        if change:
            changes.append(change)
        else:
            unchanged.append(path)
    written = [change.path for change in changes]
    if dry_run or not changes:
        return PutResult(written, unchanged, None)
    record = apply_changes(journal or open_journal(), title, changes, root=root)
    return PutResult(written, unchanged, record)


def hash_content(content: bytes) -> str:
    """Return the hash by which content is compared."""
    return hashlib.sha256(content).hexdigest()


def _planned(root: Path, path: Path, file: PlannedFile) -> Change | None:
    """Return the change that writes a file; None if it already has the content."""
    if link := find_link(root, path):
        raise Conflict(f"{link} is a symbolic link; nothing was written", ELSEWHERE)
    for folder in path.parents[: len(file.parts) - 1]:
        if folder.exists() and not folder.is_dir():
            raise Conflict(
                f"{folder} exists and is not a directory; nothing was written", ELSEWHERE
            )
    if not path.exists():
        return Change(path, [file.content], None)
    if not path.is_file():
        message = f"{path} exists and is not a regular file; nothing was written"
        raise Conflict(message, ELSEWHERE)
    state = FileState.of(path)
    now = read_regular(path)
    if now == file.content:
        return None
    if hash_content(now) not in file.replaceable:
        message = f"{path} has changed since the session; nothing was written"
        raise Conflict(message, ELSEWHERE)
    return Change(path, [file.content], state, like=path)
