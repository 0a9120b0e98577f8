"""Indexes that a server keeps open between requests.

Opening one takes a lock, four pragmas and a comparison of versions, which takes longer than most
queries.
"""

import sqlite3
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock

from turnlog.index.database import (
    REBUILD,
    DamagedIndex,
    Index,
    discarded,
    is_damage,
    open_index,
)

KEPT = 4
"""Maximum number of idle connections per index."""

_lock = Lock()
_idle: dict[tuple[Path, int], list[tuple[Index, ExitStack]]] = {}
"""Open indexes by path and inode: an index that was rebuilt since is another file."""


@contextmanager
def pooled_index(path: Path) -> Generator[Index]:
    """Yield an idle index from the pool, or open one."""
    index, stack = _take(path) or _open(path)
    try:
        yield index
    except BaseException as error:
        stack.close()  # it may have an open transaction
        if isinstance(error, sqlite3.Error) and is_damage(error):
            close_pool()
            raise discarded(path) from error
        raise
    _give_back(path, index, stack)


def close_pool() -> None:
    """Close all idle connections."""
    with _lock:
        stacks = [stack for each in _idle.values() for _, stack in each]
        _idle.clear()
    for stack in stacks:
        stack.close()


def _take(path: Path) -> tuple[Index, ExitStack] | None:
    with _lock:
        idle = _idle.get((path, _inode(path)))
        return idle.pop() if idle else None


def _open(path: Path) -> tuple[Index, ExitStack]:
    stack = ExitStack()
    index = stack.enter_context(open_index(path))
    if index.was_damaged:
        # The index is empty now, and a query that does not sync first would find nothing.
        stack.close()
        raise DamagedIndex("the index was damaged, and is being built again", REBUILD)
    return index, stack


def _give_back(path: Path, index: Index, stack: ExitStack) -> None:
    inode = _inode(path)
    with _lock:
        stale = [key for key in _idle if key[0] == path and key[1] != inode]
        closing = [stack for key in stale for _, stack in _idle.pop(key)]
        idle = _idle.setdefault((path, inode), [])
        if len(idle) < KEPT:
            idle.append((index, stack))
        else:
            closing.append(stack)
    for each in closing:
        each.close()


def _inode(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_ino
    return 0
