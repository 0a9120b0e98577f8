"""Files and directories below a root, never reached through symlinks.

Each component is opened relative to its parent's descriptor with `O_NOFOLLOW`, so swapping an
opened directory for a symlink has no effect. Windows has no such descriptors; there each component
is checked by its path.
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
"""NONBLOCK, because a FIFO in place of a file would block its reader."""
NEW = CREATE | NOFOLLOW | CLOEXEC
LINKED = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)
"""Error codes that report a link found with `O_NOFOLLOW`; they differ between systems."""


JUNCTION = 0xA0000003
"""IO_REPARSE_TAG_MOUNT_POINT, the reparse tag of a Windows junction."""


class Folder:
    """An open directory; methods take names of its entries."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path = path
        self.descriptor = descriptor
        """None on systems that cannot open directories."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a directory, which may be a link."""
        if not HAS_FOLDER_DESCRIPTORS:
            _require_folder(path, path.stat())
            return cls(path, None)
        return cls(path, os.open(path, os.O_RDONLY | DIRECTORY | CLOEXEC))

    def enter(self, name: str) -> Self:
        """Open a subdirectory; raise `OSError` with an errno in `LINKED` for a link."""
        path = self.path / name
        if self.descriptor is None:
            _require_folder(path, path.lstat())
            return type(self)(path, None)
        return type(self)(path, os.open(name, FOLDER_FLAGS, dir_fd=self.descriptor))

    def open_file(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open a file and return its descriptor; raise `OSError` for a link as in `enter`."""
        path, at = self._at(name)
        if self.descriptor is None and Path(path).is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        return os.open(path, flags, mode, dir_fd=at)

    def stat(self, name: str | None = None) -> os.stat_result:
        """Return the status of an entry without following links, or of the directory itself."""
        if name is None:
            return self.path.stat() if self.descriptor is None else os.fstat(self.descriptor)
        entry, at = self._at(name)
        return os.stat(entry, dir_fd=at, follow_symlinks=False)

    def names(self) -> list[str]:
        """Return the names of all entries."""
        return os.listdir(self.path if self.descriptor is None else self.descriptor)

    def make_folder(self, name: str, mode: int) -> None:
        path, at = self._at(name)
        os.mkdir(path, mode, dir_fd=at)

    def remove_file(self, name: str) -> None:
        path, at = self._at(name)
        os.unlink(path, dir_fd=at)

    def remove_folder(self, name: str) -> None:
        path, at = self._at(name)
        os.rmdir(path, dir_fd=at)

    def link(self, old: str, new: str) -> None:
        """Add a second name to a file; raise `FileExistsError` if the name is taken."""
        (old_path, at), (new_path, _) = self._at(old), self._at(new)
        if at is None:
            os.link(old_path, new_path)
        else:
            os.link(old_path, new_path, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing any file of that name."""
        (old_path, at), (new_path, _) = self._at(old), self._at(new)
        os.replace(old_path, new_path, src_dir_fd=at, dst_dir_fd=at)

    def sync(self) -> None:
        if self.descriptor is not None:
            os.fsync(self.descriptor)

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)

    def _at(self, name: str) -> tuple[str, int | None]:
        """Return a path to pass to `os`, and the descriptor that it is relative to."""
        return (str(self.path / name) if self.descriptor is None else name), self.descriptor


def _require_folder(path: Path, found: os.stat_result) -> None:
    # Python does not report a junction as a symlink, but it leads elsewhere like one.
    is_junction = getattr(found, "st_reparse_tag", 0) == JUNCTION
    if not stat.S_ISDIR(found.st_mode) or is_junction:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


@contextmanager
def open_below(root: Path, folders: Sequence[str]) -> Generator[Folder]:
    """Open a directory below `root`; `root` itself may be a link, nothing below it."""
    # One component at a time, because O_NOFOLLOW covers only the last one of a path: opening
    # "objects/ab/x.zst" at once would follow a link at "objects" or "ab".
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
            raise Damaged(f"{path} is a symbolic link or below one") from error
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
    """Return the size of a regular file; 0 if there is none."""
    try:
        with open_below(root, folders) as folder:
            found = folder.stat(name)
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0
