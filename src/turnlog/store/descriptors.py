"""Files and directories below a root, reached through descriptors and never through symlinks.

Each component is opened relative to its parent's descriptor with `O_NOFOLLOW`: whoever swaps a
directory for a symlink after it was opened changes nothing for the one who holds it.
"""

import errno
import os
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from turnlog.errors import Damaged

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""A FIFO in the place of a file must not keep its reader waiting."""
LINKED = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)
"""What systems say where `O_NOFOLLOW` finds a link."""


@contextmanager
def open_below(root: Path, folders: Sequence[str]) -> Generator[int]:
    """Open a directory below `root`; `root` itself may be a link, nothing below it."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in folders:
            inner = os.open(name, FOLDER_FLAGS, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def read_below(root: Path, folders: Sequence[str], name: str, limit: int) -> bytes:
    """Read a regular file of at most `limit` bytes; raise `Damaged` for anything else."""
    path = root.joinpath(*folders, name)
    try:
        with open_below(root, folders) as folder:
            descriptor = os.open(name, READ_FLAGS, dir_fd=folder)
    except OSError as error:
        if error.errno in LINKED:
            raise Damaged(f"{path} is a link, or lies below one") from error
        raise
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise Damaged(f"{path} is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(limit + 1) if found.st_size <= limit else b""
    if found.st_size > limit or len(content) > limit:
        raise Damaged(f"{path} is larger than {limit:,} bytes")
    return content


def size_below(root: Path, folders: Sequence[str], name: str) -> int:
    """The size of a regular file; 0 where there is none."""
    try:
        with open_below(root, folders) as folder:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0
