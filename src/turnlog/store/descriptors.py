"""Files and directories below a root, never reached through symlinks.

Where the system allows it, each component is opened relative to its parent's descriptor with
`O_NOFOLLOW`: whoever swaps a directory for a symlink after it was opened changes nothing for the
one who holds it. Windows has no such descriptors; there each component is checked by its path.
"""

import errno
import os
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from turnlog.errors import Damaged
from turnlog.format.portable import (
    BINARY,
    CLOEXEC,
    CREATE,
    DIRECTORY,
    HAS_FOLDER_DESCRIPTORS,
    NOFOLLOW,
    NONBLOCK,
)

FOLDER_FLAGS = os.O_RDONLY | DIRECTORY | NOFOLLOW | CLOEXEC
READ_FLAGS = os.O_RDONLY | NOFOLLOW | NONBLOCK | CLOEXEC | BINARY
"""A FIFO in the place of a file must not keep its reader waiting."""
NEW = CREATE | NOFOLLOW | CLOEXEC
LINKED = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)
"""What systems say where `O_NOFOLLOW` finds a link."""


JUNCTION = 0xA0000003
"""IO_REPARSE_TAG_MOUNT_POINT of Windows."""


class Folder:
    """An open directory; names are those of its entries."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path = path
        self.descriptor = descriptor
        """None where directories cannot be opened."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a directory, which may be a link."""
        if not HAS_FOLDER_DESCRIPTORS:
            _require_folder(path, path.stat())
            return cls(path, None)
        return cls(path, os.open(path, os.O_RDONLY | DIRECTORY | CLOEXEC))

    def enter(self, name: str) -> Self:
        """Open a directory in this one; raise `OSError` with an errno of `LINKED` for a link."""
        path = self.path / name
        if self.descriptor is None:
            _require_folder(path, path.lstat())
            return type(self)(path, None)
        return type(self)(path, os.open(name, FOLDER_FLAGS, dir_fd=self.descriptor))

    def open_file(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open a file and return its descriptor; a link is an `OSError` as in `enter`."""
        place, at = self._at(name)
        if self.descriptor is None and Path(place).is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), place)
        return os.open(place, flags, mode, dir_fd=at)

    def stat(self, name: str | None = None) -> os.stat_result:
        """Describe an entry without following it, or the directory itself."""
        if name is None:
            return self.path.stat() if self.descriptor is None else os.fstat(self.descriptor)
        place, at = self._at(name)
        return os.stat(place, dir_fd=at, follow_symlinks=False)

    def make_folder(self, name: str, mode: int) -> None:
        place, at = self._at(name)
        os.mkdir(place, mode, dir_fd=at)

    def remove_file(self, name: str) -> None:
        place, at = self._at(name)
        os.unlink(place, dir_fd=at)

    def remove_folder(self, name: str) -> None:
        place, at = self._at(name)
        os.rmdir(place, dir_fd=at)

    def link(self, old: str, new: str) -> None:
        """Give a file a second name; raise `FileExistsError` if that is taken."""
        (old_place, at), (new_place, _) = self._at(old), self._at(new)
        if at is None:
            os.link(old_place, new_place)
        else:
            os.link(old_place, new_place, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing another one."""
        (old_place, at), (new_place, _) = self._at(old), self._at(new)
        os.replace(old_place, new_place, src_dir_fd=at, dst_dir_fd=at)

    def sync(self) -> None:
        if self.descriptor is not None:
            os.fsync(self.descriptor)

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)

    def _at(self, name: str) -> tuple[str, int | None]:
        """Return what to pass to `os`: a path, and the descriptor that it is relative to."""
        return (str(self.path / name) if self.descriptor is None else name), self.descriptor


def _require_folder(path: Path, found: os.stat_result) -> None:
    # A junction is no symlink to Python, but leads elsewhere all the same.
    is_junction = getattr(found, "st_reparse_tag", 0) == JUNCTION
    if not stat.S_ISDIR(found.st_mode) or is_junction:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


@contextmanager
def open_below(root: Path, folders: Sequence[str]) -> Generator[Folder]:
    """Open a directory below `root`; `root` itself may be a link, nothing below it."""
    folder = Folder.open(root)
    try:
        for name in folders:
            inner = folder.enter(name)
            folder.close()
            folder = inner
        yield folder
    finally:
        folder.close()


def read_below(root: Path, folders: Sequence[str], name: str, limit: int) -> bytes:
    """Read a regular file of at most `limit` bytes; raise `Damaged` for anything else."""
    path = root.joinpath(*folders, name)
    try:
        with open_below(root, folders) as folder:
            descriptor = folder.open_file(name, READ_FLAGS)
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
    """Return the size of a regular file; 0 where there is none."""
    try:
        with open_below(root, folders) as folder:
            found = folder.stat(name)
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0
