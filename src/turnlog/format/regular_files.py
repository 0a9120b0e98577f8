"""Open regular files only, and collect the paths that had to be skipped.

Anything may have the name of a session: a FIFO blocks its reader forever, a directory or a broken
link fails. `open_regular` raises `OSError` at once for all of them. Code that reads many files
wraps each one in `skipping`; `collect_skipped` lists the skipped ones.
"""

import errno
import os
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

from turnlog.format.json_values import Fields, as_object, parse_json

READ_FLAGS = ("O_RDONLY", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
"""Flags that the system may lack: Windows has only O_BINARY."""
READ = sum(getattr(os, name, 0) for name in READ_FLAGS)
LINKED_FOLDER = "a symbolic link to a directory, which is not followed"
KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
AnyPath = str | os.PathLike[str]
Skipped = dict[str, str]
"""The reason why each path was skipped."""

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
        # open fails with ENXIO for a socket, and for a device file without a device.
        raise OSError(errno.EINVAL, _kind(Path(path).stat().st_mode), os.fspath(path)) from error
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, _kind(mode), os.fspath(path))


def read_regular(path: AnyPath, limit: int | None = None) -> bytes:
    """Return the content of a regular file; raise `OSError` for anything else.

    Also raise `OSError`, without reading it, for a file of more than `limit` bytes.
    """
    with open_regular(path) as file:
        if limit is None:
            return file.read()
        # The size cannot be trusted: a file in /proc reports 0, and a log may grow meanwhile.
        content = file.read(limit + 1) if os.fstat(file.fileno()).st_size <= limit else None
    if content is None or len(content) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit >> 20} MiB", os.fspath(path))
    return content


def why_unreadable(path: AnyPath, limit: int) -> str | None:
    """Return why `read_regular` would fail, in a few words; None if it would succeed."""
    try:
        with open_regular(path) as file:
            is_small = os.fstat(file.fileno()).st_size <= limit
            return None if is_small else f"larger than {limit >> 20} MiB"
    except OSError as error:
        return _reason(path, error)


@contextmanager
def collect_skipped() -> Generator[Skipped]:
    """Collect the paths that are skipped inside the block, with reasons."""
    skipped: Skipped = {}
    token = _collector.set(skipped)
    try:
        yield skipped
    finally:
        _collector.reset(token)


@contextmanager
def watch_skipped() -> Generator[Skipped]:
    """Collect skipped paths like `collect_skipped`, and report them to the outer collector, too."""
    skipped: Skipped = {}
    try:
        with collect_skipped() as skipped:
            yield skipped
    finally:
        for path, reason in skipped.items():
            note_skipped(path, reason)


def note_skipped(path: AnyPath, reason: str) -> None:
    """Report a skipped path to the innermost collector, if there is one."""
    if (skipped := _collector.get()) is not None:
        skipped[os.fspath(path)] = reason


@contextmanager
def skipping(path: AnyPath) -> Generator[None]:
    """Skip a path that cannot be read and report it, unless it no longer exists."""
    try:
        yield
    except OSError as error:
        _note_error(path, error)


def _note_error(path: AnyPath, error: OSError) -> None:
    # A file deleted since the directory was listed is normal, and not worth a warning. A file in a
    # folder without search permission seems not to exist either, but is reported.
    if isinstance(error, PermissionError) or os.path.lexists(path):
        note_skipped(path, _reason(path, error))


def is_readable(path: AnyPath) -> bool:
    """Return whether a path is a regular file that can be opened; report it if not."""
    with skipping(path):
        os.close(open_descriptor(path))
        return True
    return False


def is_regular(entry: "os.DirEntry[str]") -> bool:
    """Return whether a directory entry is a regular file or a link to one; report it if not."""
    with skipping(entry.path):
        if entry.is_file():
            return True
        kind = _kind(Path(entry.path).stat().st_mode)
        is_link = entry.is_symlink() and entry.is_dir()
        note_skipped(entry.path, LINKED_FOLDER if is_link else kind)
    return False


def stat_regular(folder: str, name: str, descriptor: int | None) -> os.stat_result | None:
    """Return the status of a regular file or of a link's target; report anything else.

    A descriptor of its folder saves path lookups.
    """
    # Called for every file of a store: `with skipping(...)` would take as long as the system call.
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
    """Open a directory for `dir_fd` arguments; yield None on systems without them."""
    if os.stat not in os.supports_dir_fd:
        yield None
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_folder(entry: "os.DirEntry[str]") -> bool:
    """Return whether a directory entry is a directory or a link to one."""
    try:
        return entry.is_dir()
    except OSError:  # for example a link to itself
        return False


def regular_paths(paths: Iterable[Path]) -> list[Path]:
    """Return the paths that are regular files or links to one, sorted; report the others."""
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
    """Return the entries of a directory; if it cannot be read, report it and return none."""
    with skipping(folder), os.scandir(folder) as found:
        return list(found)
    return []


def _kind(mode: int) -> str:
    return f"{KINDS.get(stat.S_IFMT(mode), 'something else')}, not a regular file"


def _reason(path: AnyPath, error: OSError) -> str:
    if isinstance(error, FileNotFoundError) and Path(path).is_symlink():
        return "a broken symbolic link"
    return error.strerror or str(error)


def read_object(path: Path) -> Fields:
    """Return the JSON object in a file; {} if it is missing or contains something else."""
    try:
        value = parse_json(read_regular(path))
    except (OSError, ValueError):
        return {}
    return as_object(value)
