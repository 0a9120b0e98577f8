"""System calls that Windows lacks or restricts.

Nothing here checks the platform: each function checks what `os` offers.
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
"""Without this flag, Windows writes every LF as CR LF."""
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY
HAS_FOLDER_DESCRIPTORS = bool(DIRECTORY) and os.open in os.supports_dir_fd
QUERY = 0x1000
"""PROCESS_QUERY_LIMITED_INFORMATION, a Windows access right."""
PATIENCE = 2.0
"""Seconds to wait for other processes to close a file that is to be replaced."""


def read_at(descriptor: int, size: int, offset: int) -> bytes:
    """Read bytes of an open file at an offset; its position is undefined afterwards."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, offset)
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, size)


def set_mode(descriptor: int, mode: int) -> None:
    """Set the permission bits of an open file, on systems that have them."""
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, mode)


def sync_folder(folder: Path) -> None:
    """Flush a directory to disk, so that new names in it survive a power failure."""
    # fsync of a file makes its content durable, not its name: that is stored in the directory.
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
    """Replace a file atomically with a finished one, unless `require` raises.

    `descriptors` are this process's open descriptors of the two files.
    """
    if HAS_FOLDER_DESCRIPTORS:
        require()
        ready.replace(path)
        return
    # Windows refuses to replace a file that is open anywhere. Redirecting each descriptor closes
    # the file but also releases its lock, so another process may write before the replacement:
    # `require` checks the file again right before each attempt.
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
    """Return whether there is a process with this id."""
    try:
        import _winapi
    except ModuleNotFoundError:
        return _process_exists(pid)
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


def _process_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # the process exists and belongs to another user
        return True
    return True
