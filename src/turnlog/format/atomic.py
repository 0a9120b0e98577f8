"""Atomic writes: write a temporary file in the same directory, then rename it.

Readers see the old content or the new, never a part of it. A temporary file is locked while it is
written, and a lock ends with its process: an unlocked one is left over from a killed process and is
removed by the next write of the same file.
"""

import errno
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from turnlog.errors import Conflict, Unavailable, UsageError
from turnlog.format.locks import lock
from turnlog.format.portable import CREATE, DIRECTORY, NOFOLLOW, NONBLOCK, move_over
from turnlog.format.private_files import create_private_folder
from turnlog.format.regular_files import open_regular

TEMPORARY_SUFFIX = ".tmp"
LONGEST_NAME = 100
HEAD = 1 << 16
"""Number of leading bytes by which turnlog recognizes its own files."""
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_atomic(path: Path, content: bytes, *, is_clearing: bool = True) -> None:
    """Write a small private file atomically and durably.

    Without `is_clearing`, leave leftovers alone: the directory may have 100,000 files of the
    archive, which removes its leftovers itself.
    """
    create_private_folder(path.parent)
    try:
        with written_beside(path, 0o600, is_clearing=is_clearing) as (descriptor, temporary):
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(content)
            os.fsync(descriptor)
            move_over(temporary, path, (descriptor,), lambda: None)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise Unavailable(f"no space left for {path}", f"df -h {path.parent}") from error
        raise


def require_absent(path: Path) -> None:
    """Raise Conflict if something is at a path, so that it is not overwritten by mistake."""
    if os.path.lexists(path):
        raise Conflict(f"{path} exists", "overwrite=True")


def require_replaceable(
    path: Path, command: str, is_agreed: bool, is_own: Callable[[bytes], bool]
) -> None:
    """Raise UsageError if writing would replace a file that turnlog did not write.

    The file cannot be restored: no journal keeps what `--to package.json` would overwrite. `is_own`
    judges the start of a file; `command` is the hint: the command that replaces it anyway.
    """
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        raise UsageError(f"{path} is not a regular file", f"{_command_of(command)} --help")
    if not is_agreed and (stat.S_ISLNK(mode) or not _starts_own(path, is_own)):
        raise UsageError(f"{path} exists, and turnlog did not write it", command)


def _command_of(line: str) -> str:
    """Return the first two words of a command line: `turnlog trace`."""
    return " ".join(line.split()[:2])


def _starts_own(path: Path, is_own: Callable[[bytes], bool]) -> bool:
    """Return whether a file is empty or starts like one of turnlog's own."""
    try:
        with open_regular(path) as file:
            start = file.read(HEAD)
    except OSError:
        return False
    return not start or is_own(start)


@contextmanager
def written_beside(
    path: Path, mode: int, folder: int | None = None, *, is_clearing: bool = True
) -> Generator[tuple[int, Path]]:
    """Create a temporary file next to another; yield its descriptor and path.

    The file is removed afterwards unless it was renamed. With `folder`, the descriptor of an open
    directory, paths are relative to that directory.
    """
    if is_clearing:
        _remove_leftovers(path, folder)
    descriptor, temporary = _create(path, mode, folder)
    try:
        yield descriptor, temporary
    finally:
        # Keep the lock until the name is gone, or another process might take the file for a
        # leftover. Windows cannot remove an open file, so there the order is reversed.
        try:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            os.close(descriptor)
        except PermissionError:
            os.close(descriptor)
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)


def is_at(path: Path, descriptor: int, folder: int | None = None) -> bool:
    """Return whether an open file is the one at a path."""
    try:
        return os.path.samestat(os.stat(path, dir_fd=folder), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _create(path: Path, mode: int, folder: int | None) -> tuple[int, Path]:
    while True:
        temporary = _name_beside(path)
        descriptor = os.open(temporary, CREATE, mode, dir_fd=folder)
        with suppress(OSError):  # some file systems do not support locks
            lock(descriptor)
        if is_at(temporary, descriptor, folder):
            return descriptor, temporary
        # Between open and lock, another process found the file unlocked and removed it as a
        # leftover. Try again under another name.
        os.close(descriptor)


def _remove_leftovers(path: Path, folder: int | None) -> None:
    prefix = _prefix(path)
    for name in _names_in(path.parent, folder):
        if (
            name.startswith(prefix)
            and name.endswith(TEMPORARY_SUFFIX)
            and len(name) == len(prefix) + 12  # eight hex digits and ".tmp"
        ):
            with suppress(OSError):
                _remove_unlocked(path.with_name(name), folder)


def _names_in(path: Path, folder: int | None) -> list[str]:
    if folder is None:
        return os.listdir(path)
    descriptor = os.open(path, os.O_RDONLY | DIRECTORY, dir_fd=folder)
    try:
        return os.listdir(descriptor)
    finally:
        os.close(descriptor)


def _remove_unlocked(path: Path, folder: int | None) -> None:
    # A leftover is a regular file. NOFOLLOW and NONBLOCK keep a planted link or FIFO of that name
    # from redirecting or blocking the writer.
    descriptor = os.open(path, os.O_RDONLY | NOFOLLOW | NONBLOCK, dir_fd=folder)
    try:
        lock(descriptor, wait=False)
        with suppress(PermissionError):  # Windows cannot remove an open file
            os.unlink(path, dir_fd=folder)
            return
    finally:
        os.close(descriptor)
    os.unlink(path, dir_fd=folder)


def _prefix(path: Path) -> str:
    return f".{path.name[:LONGEST_NAME]}."


def _name_beside(path: Path) -> Path:
    return path.with_name(f"{_prefix(path)}{os.urandom(4).hex()}{TEMPORARY_SUFFIX}")
