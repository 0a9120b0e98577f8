"""Drop root's privilege to ignore permission bits, so that tests of them work for root, too."""

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

OVERRIDES = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
VERSION_3 = 0x20080522
Result = TypeVar("Result")


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Data(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable"))


def without_privileges(function: Callable[[], Result]) -> Result:
    """Call a function in a thread to which permission bits apply, also if it belongs to root."""
    # Capabilities belong to a thread, and threads that it starts inherit them. access(2) asks for
    # the permitted ones, which cannot be taken back: hence a thread of its own.
    with ThreadPoolExecutor(1, initializer=_drop) as pool:
        return pool.submit(function).result()


def _drop() -> None:
    if os.geteuid():
        return
    system = ctypes.CDLL(None, use_errno=True)
    header, data = _Header(VERSION_3, 0), (_Data * 2)()
    assert system.capget(ctypes.byref(header), data) == 0
    data[0].effective &= ~OVERRIDES
    data[0].permitted &= ~OVERRIDES
    assert system.capset(ctypes.byref(header), data) == 0
