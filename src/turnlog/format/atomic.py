"""Atomic writes: a file is written under a temporary name beside its target, then renamed.

Readers see the old content or the new, never a part. The temporary file is locked while it is
written, and a lock ends with its process: an unlocked one was left behind by a killed process, and
the next write of the same file removes it.
"""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from turnlog.errors import Conflict, Unavailable
from turnlog.format.locks import lock
from turnlog.format.portable import CREATE, DIRECTORY, NOFOLLOW, NONBLOCK
from turnlog.format.private_files import create_private_folder

TEMPORARY_SUFFIX = ".tmp"
LONGEST_NAME = 100
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_atomic(path: Path, content: bytes) -> None:
    """Write a small private file; it appears when all of it is on the disk."""
    create_private_folder(path.parent)
    try:
        # Nothing left behind is looked for: the directory may hold 100,000 objects of the archive.
        with _temporary(path, 0o600, None) as (descriptor, beside):
            with os.fdopen(os.dup(descriptor), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(descriptor)
            beside.replace(path)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise Unavailable(f"no room for {path}", "free some disk space") from error
        raise


def require_absent(path: Path) -> None:
    """Raise Conflict if something is at a path, so that it is not overwritten by mistake."""
    if os.path.lexists(path):
        raise Conflict(f"{path} exists", "overwrite=True")


@contextmanager
def written_beside(path: Path, mode: int, folder: int | None = None) -> Generator[tuple[int, Path]]:
    """Create a file beside another; yield its descriptor and path; remove it unless it was moved.

    With `folder`, the descriptor of an open folder, paths are relative to that folder.
    """
    _remove_left(path, folder)
    with _temporary(path, mode, folder) as opened:
        yield opened


@contextmanager
def _temporary(path: Path, mode: int, folder: int | None) -> Generator[tuple[int, Path]]:
    descriptor, beside = _create(path, mode, folder)
    try:
        yield descriptor, beside
    finally:
        # The lock is kept until the name is gone; Windows removes no file that is open.
        try:
            with suppress(FileNotFoundError):
                os.unlink(beside, dir_fd=folder)
            os.close(descriptor)
        except PermissionError:
            os.close(descriptor)
            with suppress(FileNotFoundError):
                os.unlink(beside, dir_fd=folder)


def is_at(path: Path, descriptor: int, folder: int | None = None) -> bool:
    """Return whether an open file is the one at a path."""
    try:
        return os.path.samestat(os.stat(path, dir_fd=folder), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _create(path: Path, mode: int, folder: int | None) -> tuple[int, Path]:
    while True:
        beside = path.with_name(f"{_start(path)}{os.urandom(4).hex()}{TEMPORARY_SUFFIX}")
        descriptor = os.open(beside, CREATE, mode, dir_fd=folder)
        with suppress(OSError):  # there are file systems without locks
            lock(descriptor)
        if is_at(beside, descriptor, folder):
            return descriptor, beside
        os.close(descriptor)  # removed as left behind, before it was locked


def _remove_left(path: Path, folder: int | None) -> None:
    start = _start(path)
    for name in _names_in(path.parent, folder):
        if (
            name.startswith(start)
            and name.endswith(TEMPORARY_SUFFIX)
            and len(name) == len(start) + 12
        ):
            with suppress(OSError):
                _remove_unlocked(path.with_name(name), folder)


def _names_in(place: Path, folder: int | None) -> list[str]:
    if folder is None:
        return os.listdir(place)
    descriptor = os.open(place, os.O_RDONLY | DIRECTORY, dir_fd=folder)
    try:
        return os.listdir(descriptor)
    finally:
        os.close(descriptor)


def _remove_unlocked(path: Path, folder: int | None) -> None:
    descriptor = os.open(path, os.O_RDONLY | NOFOLLOW | NONBLOCK, dir_fd=folder)
    try:
        lock(descriptor, wait=False)
        with suppress(PermissionError):  # Windows, which removes no file that is open
            os.unlink(path, dir_fd=folder)
            return
    finally:
        os.close(descriptor)
    os.unlink(path, dir_fd=folder)


def _start(path: Path) -> str:
    return f".{path.name[:LONGEST_NAME]}."
