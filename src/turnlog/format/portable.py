"""System calls that Windows lacks or restricts.

Nothing here asks which system it runs on: what `os` offers decides, function by function.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK = getattr(os, "O_NONBLOCK", 0)
DIRECTORY = getattr(os, "O_DIRECTORY", 0)
CLOEXEC = getattr(os, "O_CLOEXEC", 0)
BINARY = getattr(os, "O_BINARY", 0)
"""Without it, Windows turns every LF that is written into CR LF."""
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY
HAS_FOLDER_DESCRIPTORS = bool(DIRECTORY) and os.open in os.supports_dir_fd
QUERY = 0x1000
"""PROCESS_QUERY_LIMITED_INFORMATION of Windows."""
PATIENCE = 2.0
"""Seconds to wait until no other process has a file open that is to be replaced."""


def read_at(descriptor: int, size: int, offset: int) -> bytes:
    """Read bytes of an open file from an offset on; its position is undefined afterwards."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, offset)
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, size)


def set_mode(descriptor: int, mode: int) -> None:
    """Set the permission bits of an open file, where files have any."""
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, mode)


def sync_folder(folder: Path) -> None:
    """Let the names in a folder outlast a power failure, where folders can be opened."""
    if not HAS_FOLDER_DESCRIPTORS:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def move_over(
    ready: Path, path: Path, descriptors: tuple[int, ...], require: Callable[[], None]
) -> None:
    """Replace a file atomically by a finished one; `require` raises if that must not be done.

    `descriptors` are those under which this process has either of them open.
    """
    if HAS_FOLDER_DESCRIPTORS:
        require()
        ready.replace(path)
        return
    # Windows replaces no file that is open anywhere. Each descriptor is pointed elsewhere, which
    # closes the file and releases its lock: what was written in between is found by `require`.
    with Path(os.devnull).open("rb") as nowhere:
        for descriptor in descriptors:
            os.dup2(nowhere.fileno(), descriptor)
    deadline = time.monotonic() + PATIENCE
    while True:
        require()
        try:
            ready.replace(path)
            return
        except PermissionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether there is a process with this id."""
    try:
        import _winapi
    except ModuleNotFoundError:
        return _answers(pid)
    # os.kill(pid, 0) would send Ctrl-C on Windows.
    try:
        handle = _winapi.OpenProcess(QUERY, 0, pid)  # pyright: ignore
    except PermissionError:
        return True
    except OSError:
        return False
    try:
        return _winapi.GetExitCodeProcess(handle) == _winapi.STILL_ACTIVE  # pyright: ignore
    finally:
        _winapi.CloseHandle(handle)  # pyright: ignore


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs, as another user
        return True
    return True
