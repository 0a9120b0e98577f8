"""File locks through `fcntl`, or `msvcrt` on Windows; all locks are taken here.

A lock belongs to an open file and ends with its process, even if the process is killed.
"""

import os
import time

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None
    import msvcrt

LOCKED_BYTE = 1 << 40
"""Offset of the locked byte. Windows locks are mandatory; no file has a byte this far out."""
RETRY_SECONDS = 0.05


def lock(descriptor: int, *, wait: bool = True, is_shared: bool = False) -> None:
    """Lock an open file; without `wait`, raise `BlockingIOError` if another process has locked it.

    On Windows, shared locks exclude each other as well.
    """
    if fcntl is not None:
        kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
        fcntl.flock(descriptor, kind if wait else kind | fcntl.LOCK_NB)
        return
    while not _try_locking(descriptor):
        if not wait:
            raise BlockingIOError(11, "locked by another process")
        time.sleep(RETRY_SECONDS)


def _try_locking(descriptor: int) -> bool:
    position = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # pyright: ignore
    except PermissionError:
        return False
    finally:
        os.lseek(descriptor, position, os.SEEK_SET)
    return True
