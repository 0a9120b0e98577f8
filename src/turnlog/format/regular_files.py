"""Open regular files only, and collect what had to be skipped.

A store may hold anything under the name of a session: a FIFO blocks its reader forever, a
directory or a broken link fails. `open_regular` raises `OSError` for all of them at once. Code that
reads many files passes over such a file with `skipping`; `collect_skipped` lists what was skipped.
"""

import errno
import json
import os
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

from turnlog.format.json_values import Fields, is_object

READ_FLAGS = ("O_RDONLY", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
"""As far as the system knows them: Windows has O_BINARY alone."""
READ = sum(getattr(os, name, 0) for name in READ_FLAGS)
KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
AnyPath = str | os.PathLike[str]
Skipped = dict[str, str]
"""Why each path was skipped."""

_collector: ContextVar[Skipped | None] = ContextVar("skipped", default=None)


def open_regular(path: AnyPath, buffering: int = -1) -> BinaryIO:
    """Open a regular file for reading bytes; raise `OSError` for anything else, without waiting."""
    return os.fdopen(open_descriptor(path), "rb", buffering)


def open_descriptor(path: AnyPath) -> int:
    """Return a descriptor of a regular file; raise `OSError` for anything else."""
    # Without O_NONBLOCK, opening a FIFO waits for a writer that may never come. The type is taken
    # from the descriptor: a file can be swapped for a FIFO between a check of its path and open.
    try:
        descriptor = os.open(path, READ)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        # What open says of a socket, and of a device that is not there.
        raise OSError(errno.EINVAL, _kind(Path(path).stat().st_mode), os.fspath(path)) from error
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, _kind(mode), os.fspath(path))


def read_regular(path: AnyPath, limit: int | None = None) -> bytes:
    """Return the content of a regular file; raise `OSError` for anything else.

    A file of more than `limit` bytes is an error as well, and is not read.
    """
    with open_regular(path) as file:
        if limit is None:
            return file.read()
        # The size is no guarantee: a file in /proc has none, and others grow.
        content = file.read(limit + 1) if os.fstat(file.fileno()).st_size <= limit else None
    if content is None or len(content) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit >> 20} MiB", os.fspath(path))
    return content


def why_unreadable(path: AnyPath, limit: int) -> str | None:
    """Return why `read_regular` would fail, in a few words; None if it would not."""
    try:
        with open_regular(path) as file:
            is_small = os.fstat(file.fileno()).st_size <= limit
            return None if is_small else f"larger than {limit >> 20} MiB"
    except OSError as error:
        return _reason(path, error)


@contextmanager
def collect_skipped() -> Generator[Skipped]:
    """Collect the paths that are skipped inside the block, each with the reason."""
    skipped: Skipped = {}
    token = _collector.set(skipped)
    try:
        yield skipped
    finally:
        _collector.reset(token)


def note_skipped(path: AnyPath, reason: str) -> None:
    """Tell the innermost collector, if there is one, that a path was skipped."""
    if (skipped := _collector.get()) is not None:
        skipped[os.fspath(path)] = reason


@contextmanager
def skipping(path: AnyPath) -> Generator[None]:
    """Pass over a path that cannot be read, and note it; one that is gone by now is no news."""
    try:
        yield
    except OSError as error:
        _note_error(path, error)


def _note_error(path: AnyPath, error: OSError) -> None:
    if os.path.lexists(path):
        note_skipped(path, _reason(path, error))


def is_readable(path: AnyPath) -> bool:
    """Whether a path is a regular file that can be opened; note it otherwise."""
    with skipping(path):
        os.close(open_descriptor(path))
        return True
    return False


def is_regular(entry: "os.DirEntry[str]") -> bool:
    """Whether an entry of a directory is a regular file, or a link to one; note it otherwise."""
    with skipping(entry.path):
        if entry.is_file():
            return True
        note_skipped(entry.path, _kind(Path(entry.path).stat().st_mode))
    return False


def stat_regular(folder: str, name: str, descriptor: int | None) -> os.stat_result | None:
    """Return the status of a regular file, or of the one a link names; note anything else.

    A descriptor of its folder spares the system looking for it. Called for every file of a store:
    a context manager would take as long as the system call.
    """
    try:
        if descriptor is None:
            status = os.stat(f"{folder}{os.sep}{name}")  # noqa: PTH116
        else:
            status = os.stat(name, dir_fd=descriptor)
    except OSError as error:
        _note_error(f"{folder}{os.sep}{name}", error)
        return None
    if stat.S_ISREG(status.st_mode):
        return status
    note_skipped(f"{folder}{os.sep}{name}", _kind(status.st_mode))
    return None


@contextmanager
def opened_folder(folder: str) -> Generator[int | None]:
    """Open a directory for system calls that name files in it; None where there are none."""
    if os.stat not in os.supports_dir_fd:
        yield None
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_folder(entry: "os.DirEntry[str]") -> bool:
    """Whether an entry of a directory is a directory, or a link to one."""
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def regular_paths(paths: Iterable[Path]) -> list[Path]:
    """Return the paths that are regular files, or links to one, sorted; note the others."""
    found: list[Path] = []
    for path in sorted(paths):
        with skipping(path):
            mode = path.stat().st_mode
            if stat.S_ISREG(mode):
                found.append(path)
            else:
                note_skipped(path, _kind(mode))
    return found


def entries_of(folder: AnyPath) -> "list[os.DirEntry[str]]":
    """Return the entries of a directory; none, and a note, where it cannot be read."""
    with skipping(folder), os.scandir(folder) as found:
        return list(found)
    return []


def _kind(mode: int) -> str:
    return f"{KINDS.get(stat.S_IFMT(mode), 'something else')}, not a regular file"


def _reason(path: AnyPath, error: OSError) -> str:
    if isinstance(error, FileNotFoundError) and Path(path).is_symlink():
        return "a symbolic link to nothing"
    return error.strerror or str(error)


def read_object(path: Path) -> Fields:
    """Return the JSON object that a file holds; an empty one if it is missing or holds none."""
    try:
        held = json.loads(read_regular(path))
    except (OSError, ValueError):
        return {}
    return held if is_object(held) else {}
