"""Create several files below a directory: all of them appear, or none.

Nothing below the root is reached through a symlink, nothing is overwritten, and everything created
is private. Files are written under temporary names first and then linked into place.
"""

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from shlex import quote
from types import TracebackType
from typing import NamedTuple, Self

from turnlog.errors import Conflict, Unavailable
from turnlog.format.atomic import TEMPORARY_SUFFIX
from turnlog.format.portable import set_mode
from turnlog.format.private_files import FILE, FOLDER, create_private_folder
from turnlog.store.descriptors import LINKED, NEW, READ_FLAGS, Folder

UNSUPPORTED = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)
"""Error codes of file systems without hard links."""


SPARE = 64 << 20
"""Bytes of disk space that are left free."""


class Staged(NamedTuple):
    """A file written under a temporary name."""

    folder: Folder
    temporary: str
    name: str
    path: Path


class Destination:
    """A directory to restore files to; on an error, everything created is removed again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._open: dict[tuple[str, ...], Folder] = {}
        self._undo = ExitStack()
        self._owners: set[int] = set()

    def __enter__(self) -> Self:
        missing = [path for path in (self.root, *self.root.parents) if not path.exists()]
        for folder in reversed(missing):
            self._undo.callback(_remove_path, folder)
        create_private_folder(self.root)
        root = Folder.open(self.root)
        self._open[()] = root
        own = getattr(os, "geteuid", lambda: 0)()  # on Windows, all user ids are 0
        self._owners = {0, own, root.stat().st_uid}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if kind is None:
            self._undo.pop_all()
        self._undo.close()
        for folder in self._open.values():
            folder.close()

    def open_existing(self, parts: Sequence[str]) -> int | None:
        """Open a file that already exists; return None if there is none."""
        try:
            folder = self._folder(tuple(parts[:-1]), create=False)
            descriptor = folder.open_file(parts[-1], READ_FLAGS)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._refusal(parts, error) from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise Conflict(f"{self.root.joinpath(*parts)} already exists and is not a regular file")
        return descriptor

    def write(
        self, parts: Sequence[str], chunks: Iterable[bytes], mode: int, mtime_ns: int | None
    ) -> Staged:
        """Write a file under a temporary name, with only the owner's bits of its mode."""
        path = self.root.joinpath(*parts)
        try:
            folder = self._folder(tuple(parts[:-1]), create=True)
        except OSError as error:
            raise self._refusal(parts, error) from error
        temporary = f".{os.urandom(8).hex()}{TEMPORARY_SUFFIX}"
        descriptor = folder.open_file(temporary, NEW, FILE)
        self._undo.callback(_remove_file, temporary, folder)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(chunks)
            file.flush()
            # A mode of 6755 in a hostile archive must not become a setuid program.
            set_mode(descriptor, FILE | mode & FOLDER)
            if mtime_ns is not None and os.utime in os.supports_fd:
                os.utime(descriptor, ns=(mtime_ns, mtime_ns))
            os.fsync(descriptor)
        if mtime_ns is not None and os.utime not in os.supports_fd:
            os.utime(folder.path / temporary, ns=(mtime_ns, mtime_ns))
        return Staged(folder, temporary, parts[-1], path)

    def put_in_place(self, staged: Staged) -> None:
        """Link a staged file to its name; raise `Conflict` if the name was taken meanwhile."""
        folder = staged.folder
        try:
            _link(staged.temporary, staged.name, folder)
        except FileExistsError as error:
            hint = "run the command again"
            raise Conflict(f"{staged.path} was created by another process", hint) from error
        self._undo.callback(_remove_file, staged.name, folder)
        _remove_file(staged.temporary, folder)
        folder.sync()

    def _folder(self, parts: tuple[str, ...], create: bool) -> Folder:
        """Open a directory below the root, one component at a time; all stay open."""
        if parts not in self._open:
            above = self._folder(parts[:-1], create)
            if create:
                self._create(parts[-1], above)
            folder = above.enter(parts[-1])
            self._open[parts] = folder
            if folder.stat().st_uid not in self._owners:
                # Its owner could read or replace the restored files.
                raise Conflict(f"{self.root.joinpath(*parts)} belongs to another user")
        return self._open[parts]

    def _create(self, name: str, above: Folder) -> None:
        with suppress(FileExistsError):
            above.make_folder(name, FOLDER)
            self._undo.callback(_remove_folder, name, above)

    def _refusal(self, parts: Sequence[str], error: OSError) -> Exception:
        if error.errno not in LINKED:
            return error
        for end in range(1, len(parts) + 1):
            path = self.root.joinpath(*parts[:end])
            if path.is_symlink() or not path.is_dir():
                what = "is a symbolic link" if path.is_symlink() else "is not a directory"
                return Conflict(
                    f"{path} {what}; nothing restored", "turnlog restore SESSION --into DIR"
                )
        return error


def require_space(folder: Path, size: int) -> None:
    """Raise `Unavailable` if a directory has not enough space for files of `size` bytes."""
    free = shutil.disk_usage(folder).free
    if size + SPARE > free:
        needed = f"{size:,} bytes and {SPARE >> 20} MiB kept free"
        message = f"not enough space in {folder}: {needed}, but {free:,} bytes free"
        raise Unavailable(message, f"df -h {quote(str(folder))}")


def _link(temporary: str, name: str, folder: Folder) -> None:
    """Rename a file in a directory; raise `FileExistsError` if the new name is taken."""
    try:
        folder.link(temporary, name)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        # Without hard links, reserve the name with an empty file first: O_EXCL fails if it exists,
        # whereas a rename alone would silently replace it.
        os.close(folder.open_file(name, NEW, FILE))
        folder.rename(temporary, name)


def _remove_file(name: str, folder: Folder) -> None:
    with suppress(FileNotFoundError):
        folder.remove_file(name)


def _remove_folder(name: str, above: Folder) -> None:
    with suppress(OSError):  # never created, or no longer empty
        above.remove_folder(name)


def _remove_path(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
