"""Open exactly the file that permission was decided for, or fail.

A path is resolved once, before the verdict. It is opened by walking the resolved path from the
root, one directory descriptor at a time, and no symlink is followed on the way: a file or folder
that was replaced by a symlink after the verdict is an error, never another file.
"""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader
from pathlib import Path

from msgspec import Struct

from turnlog.agent.workspace.tool import Grant, ToolError

CHANGED = (
    "{path} changed while permission was being asked: it does not lead to {target} any more. "
    "Nothing was read or written."
)
# O_PATH also opens folders that may be entered but not listed; only Linux has it.
FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Without O_NONBLOCK, opening a FIFO that took the file's place would wait forever."""
REDIRECTED = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)
"""Errors for a symlink where none may be followed; they differ between systems."""


class Pinned(Struct, frozen=True):
    """A path of a call, and the file that it led to when permission was decided."""

    path: Path
    """The path as the call names it."""
    target: Path
    """The resolved path when permission was decided."""

    @property
    def changed(self) -> ToolError:
        return ToolError(CHANGED.format(path=self.path, target=self.target))


def pin(path: Path, grant: Grant) -> Pinned:
    """Return a path of a call with the target that its permission was granted for."""
    return Pinned(path, grant.target(path))


@contextmanager
def open_folder(pinned: Pinned, *, creates: bool = False) -> Generator[int]:
    """Open the folder of a file; `creates` makes missing folders."""
    with ExitStack() as stack:
        yield _walk(pinned, pinned.target.parent, creates, stack)


@contextmanager
def open_place(pinned: Pinned) -> Generator[int]:
    """Open the target itself, which is a folder."""
    with ExitStack() as stack:
        yield _walk(pinned, pinned.target, creates=False, stack=stack)


@contextmanager
def open_file(pinned: Pinned) -> Generator[BufferedReader]:
    """Open a regular file for reading."""
    with open_folder(pinned) as folder, open_in(pinned, folder) as file:
        yield file


@contextmanager
def open_in(pinned: Pinned, folder: int) -> Generator[BufferedReader]:
    """Open a regular file for reading, relative to its folder's open descriptor."""
    with _redirections(pinned):
        descriptor = os.open(pinned.target.name, os.O_RDONLY | FILE, dir_fd=folder)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise pinned.changed
        yield file


def _walk(pinned: Pinned, place: Path, creates: bool, stack: ExitStack) -> int:
    folder = _opened("/", None, stack)
    for name in place.parts[1:]:
        with _redirections(pinned):
            try:
                folder = _opened(name, folder, stack)
            except FileNotFoundError:
                if not creates:
                    raise
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
                folder = _opened(name, folder, stack)
    # A folder that was moved elsewhere during the walk is still open, but no longer at its path.
    if not _is_at(place, folder):
        raise pinned.changed
    return folder


def _opened(name: str, parent: int | None, stack: ExitStack) -> int:
    descriptor = os.open(name, FOLDER, dir_fd=parent)
    stack.callback(os.close, descriptor)
    return descriptor


def _is_at(place: Path, folder: int) -> bool:
    try:
        return os.path.samestat(place.lstat(), os.fstat(folder))
    except OSError:
        return False


@contextmanager
def _redirections(pinned: Pinned) -> Generator[None]:
    try:
        yield
    except OSError as error:
        # ENOTDIR is also what `file.txt/x` gives, where no symlink is involved.
        is_plain = Path(os.path.realpath(pinned.target)) == pinned.target
        if error.errno in REDIRECTED and not is_plain:
            raise pinned.changed from error
        raise
