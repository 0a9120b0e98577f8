"""Files that are written beside the one whose place they take.

Each is locked while it is written, and a lock ends with its process: what a killed process left
behind is known by that, and removed when the same file is written again.
"""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

ENDING = ".tmp"
LONGEST_NAME = 100


@contextmanager
def written_beside(path: Path, mode: int) -> Generator[tuple[int, Path]]:
    """A new file beside another: its descriptor and its path; gone at the end, unless moved."""
    _remove_left(path)
    descriptor, beside = _create(path, mode)
    try:
        yield descriptor, beside
    finally:
        beside.unlink(missing_ok=True)
        os.close(descriptor)


def is_at(path: Path, descriptor: int) -> bool:
    """Whether an open file is the one at a path."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _create(path: Path, mode: int) -> tuple[int, Path]:
    while True:
        beside = path.with_name(f"{_start(path)}{os.urandom(4).hex()}{ENDING}")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with suppress(OSError):  # there are file systems without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if is_at(beside, descriptor):
            return descriptor, beside
        os.close(descriptor)  # removed as left behind, before it was locked


def _remove_left(path: Path) -> None:
    start = _start(path)
    for name in os.listdir(path.parent):
        if name.startswith(start) and name.endswith(ENDING) and len(name) == len(start) + 12:
            with suppress(OSError):
                _remove_unlocked(path.with_name(name))


def _remove_unlocked(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(descriptor)


def _start(path: Path) -> str:
    return f".{path.name[:LONGEST_NAME]}."
