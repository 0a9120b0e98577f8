"""New files below a directory: all of them appear, or none does.

Nothing below the root is reached through a symlink, nothing is overwritten, and everything that was
created is private. Files are written under temporary names first and then linked into place.
"""

import errno
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from turnlog.errors import Conflict
from turnlog.format.private_files import FILE, FOLDER, create_private_folder
from turnlog.store.descriptors import FOLDER_FLAGS, LINKED, READ_FLAGS
from turnlog.store.whole import UNFINISHED

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
UNSUPPORTED = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)
"""What file systems without hard links say."""


class Staged(NamedTuple):
    """A file that was written under a temporary name."""

    folder: int
    temporary: str
    name: str
    path: Path


class Destination:
    """A directory that files are restored to; on an error, what was created is removed again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._open: dict[tuple[str, ...], int] = {}
        self._undo = ExitStack()
        self._owners: set[int] = set()

    def __enter__(self) -> Self:
        missing = [each for each in (self.root, *self.root.parents) if not each.exists()]
        for folder in reversed(missing):
            self._undo.callback(_remove_folder, str(folder), None)
        create_private_folder(self.root)
        root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._open[()] = root
        self._owners = {0, os.geteuid(), os.fstat(root).st_uid}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if kind is None:
            self._undo.pop_all()
        self._undo.close()
        for descriptor in self._open.values():
            os.close(descriptor)

    def open_existing(self, parts: Sequence[str]) -> int | None:
        """Open a file that is there already; None if there is none."""
        try:
            folder = self._folder(tuple(parts[:-1]), create=False)
            descriptor = os.open(parts[-1], READ_FLAGS, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._refusal(parts, error) from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise Conflict(f"{self.root.joinpath(*parts)} exists already, and is no file")
        return descriptor

    def write(
        self, parts: Sequence[str], chunks: Iterable[bytes], mode: int, mtime_ns: int | None
    ) -> Staged:
        """Write a file under a temporary name; only the owner's bits of its mode count."""
        path = self.root.joinpath(*parts)
        try:
            folder = self._folder(tuple(parts[:-1]), create=True)
        except OSError as error:
            raise self._refusal(parts, error) from error
        temporary = f".{os.urandom(8).hex()}{UNFINISHED}"
        descriptor = os.open(temporary, NEW, FILE, dir_fd=folder)
        self._undo.callback(_remove_file, temporary, folder)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(chunks)
            file.flush()
            # 6755 in a hostile archive must not become a setuid program.
            os.fchmod(descriptor, FILE | mode & FOLDER)
            if mtime_ns is not None:
                os.utime(descriptor, ns=(mtime_ns, mtime_ns))
            os.fsync(descriptor)
        return Staged(folder, temporary, parts[-1], path)

    def put_in_place(self, staged: Staged) -> None:
        """Give a staged file its name, unless something has taken it meanwhile."""
        folder = staged.folder
        try:
            _link(staged.temporary, staged.name, folder)
        except FileExistsError as error:
            raise Conflict(f"{staged.path} was created meanwhile", "run it again") from error
        self._undo.callback(_remove_file, staged.name, folder)
        _remove_file(staged.temporary, folder)
        os.fsync(folder)

    def _folder(self, parts: tuple[str, ...], create: bool) -> int:
        """Open a directory below the root, one component at a time; each stays open."""
        if parts not in self._open:
            above = self._folder(parts[:-1], create)
            if create:
                self._create(parts[-1], above)
            descriptor = os.open(parts[-1], FOLDER_FLAGS, dir_fd=above)
            self._open[parts] = descriptor
            if os.fstat(descriptor).st_uid not in self._owners:
                # Its owner could read what is restored, or replace it.
                raise Conflict(f"{self.root.joinpath(*parts)} belongs to another user")
        return self._open[parts]

    def _create(self, name: str, above: int) -> None:
        with suppress(FileExistsError):
            os.mkdir(name, FOLDER, dir_fd=above)
            self._undo.callback(_remove_folder, name, above)

    def _refusal(self, parts: Sequence[str], error: OSError) -> Exception:
        if error.errno not in LINKED:
            return error
        for end in range(1, len(parts) + 1):
            path = self.root.joinpath(*parts[:end])
            if path.is_symlink() or not path.is_dir():
                what = "is a symbolic link" if path.is_symlink() else "is no directory"
                return Conflict(
                    f"{path} {what}; nothing restored", "turnlog restore SESSION --to DIR"
                )
        return error


def _link(temporary: str, name: str, folder: int) -> None:
    """Rename a file in a directory; raise `FileExistsError` if the new name is taken."""
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        os.close(os.open(name, NEW, FILE, dir_fd=folder))
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def _remove_file(name: str, folder: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _remove_folder(name: str, above: int | None) -> None:
    with suppress(OSError):  # never created, or another file has come into it
        os.rmdir(name, dir_fd=above)
