"""Scan a store for the states of its files: inode, size and time of change of each.

Nearly every command does this first. It consists of system calls and little else; half of a large
store is scanned by a second process.
"""

import marshal
import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

from turnlog.format.regular_files import (
    collect_skipped,
    entries_of,
    is_folder,
    note_skipped,
    opened_folder,
    skipping,
    stat_regular,
)
from turnlog.store.paths import SUBAGENTS, Store

MANY = 20_000
"""Names in the folders of projects from which on a second process is worth starting."""

State = tuple[int, int, int]
"""Inode, size and time of change in nanoseconds."""
States = dict[str, State]
"""The files of sessions and sub-agents, by path."""
Listing = list[tuple[str, list[str]]]
"""Folders of projects, with the names in each."""
Rows = list[tuple[str, int, int, int]]
"""Files of one folder: name and state."""


class FileStates:
    """The states of all files of a store, as a scan found them.

    They stay encoded: most commands only compare the bytes with those of an earlier scan.
    """

    def __init__(self, parts: list[bytes]) -> None:
        self.parts = parts

    @cached_property
    def by_path(self) -> States:
        """The states, by path."""
        return {
            f"{folder}{os.sep}{name}": (inode, size, time)
            for folder, rows in self._folders()
            for name, inode, size, time in rows
        }

    def names_before(self, moment: float) -> list[str]:
        """Return the names of the files that were last changed before `moment` (in ns)."""
        return [name for _, rows in self._folders() for name, _, _, time in rows if time < moment]

    def _folders(self) -> Iterator[tuple[str, Rows]]:
        for part in self.parts:
            yield from marshal.loads(part)


def scan_store(store: Store) -> FileStates:
    """Return the states of all files of sessions and sub-agents."""
    return begin_scan(store)()


def begin_scan(store: Store, many: int = MANY) -> Callable[[], FileStates]:
    """Start to scan a store; return a function that ends it and returns what was found.

    Call this before any thread is started: a large store is scanned with the help of a fork.
    """
    listing = _list_projects(store)
    first, second = _halves(listing)
    # A fork copies no other threads, only the locks that they hold at that moment.
    can_fork = sys.platform == "linux" and threading.active_count() == 1
    is_shared = can_fork and sum(len(names) for _, names in listing) >= many
    finish_second = _begin_apart(second) if is_shared else lambda: _scan(second)
    return lambda: FileStates([_scan(first), finish_second()])


def scan_session(session: Path) -> States:
    """Return the states of a session's file and of the sub-agents in its own folder."""
    states: States = {}
    with skipping(session):
        found = session.stat()
        states[str(session)] = found.st_ino, found.st_size, found.st_mtime_ns
    below = session.with_suffix("") / SUBAGENTS
    part = marshal.dumps(_scan_subagents(str(below)))
    return states | FileStates([part]).by_path


def _list_projects(store: Store) -> Listing:
    listing: Listing = []
    for project in entries_of(str(store.projects)):
        if is_folder(project):
            with skipping(project.path):
                listing.append((project.path, os.listdir(project.path)))
    return listing


def _halves(listing: Listing) -> tuple[Listing, Listing]:
    """Split a listing into two with as many names, if need be within a folder."""
    left = sum(len(names) for _, names in listing) // 2
    halves: tuple[Listing, Listing] = [], []
    for folder, names in listing:
        for half, part in zip(halves, (names[:left], names[left:]), strict=True):
            if part:
                half.append((folder, part))
        left = max(0, left - len(names))
    return halves


def _begin_apart(listing: Listing) -> Callable[[], bytes]:
    """Start to scan folders in a process of its own; return a function that waits for its end."""
    reading, writing = os.pipe()
    try:
        child = os.fork()
    except OSError:  # no more processes are allowed
        os.close(reading)
        os.close(writing)
        return lambda: _scan(listing)
    if child == 0:
        try:
            os.close(reading)  # so that writing fails once the parent is gone
            with collect_skipped() as skipped, os.fdopen(writing, "wb") as pipe:
                pipe.write(marshal.dumps((_scan(listing), skipped)))
            os._exit(0)
        finally:
            os._exit(1)  # run nothing of the parent's: its buffers and its index are its own
    os.close(writing)

    def finish() -> bytes:
        with os.fdopen(reading, "rb") as pipe:
            told = pipe.read()
        if os.waitpid(child, 0)[1] != 0:  # killed, for example for want of memory
            return _scan(listing)
        part, skipped = marshal.loads(told)
        for path, reason in skipped.items():
            note_skipped(path, reason)
        return part

    return finish


def _scan(listing: Listing) -> bytes:
    """Return the encoded states of the files in folders of projects."""
    found: list[tuple[str, Rows]] = []
    for folder, names in listing:
        with skipping(folder), opened_folder(folder) as descriptor:
            found.append((folder, _stat_sessions(folder, names, descriptor)))
        found += _scan_below(folder, names)
    # Version 2 of the format has no back references, which would depend on reference counts.
    return marshal.dumps(found, 2)


def _stat_sessions(folder: str, names: list[str], descriptor: int | None) -> Rows:
    rows: Rows = []
    for name in names:
        is_wanted = name.endswith(".jsonl") and not name.startswith(".")
        if is_wanted and (status := stat_regular(folder, name, descriptor)):
            rows.append((name, status.st_ino, status.st_size, status.st_mtime_ns))
    return rows


def _scan_below(folder: str, names: list[str]) -> Iterator[tuple[str, Rows]]:
    """Yield the states of sub-agents, which lie with their session or with the project."""
    for name in names:
        if name.endswith(".jsonl"):
            continue
        if name != SUBAGENTS:
            yield from _scan_subagents(f"{folder}{os.sep}{name}{os.sep}{SUBAGENTS}")
        elif Path(folder, name).is_dir():
            yield from _scan_subagents(f"{folder}{os.sep}{name}")


def _scan_subagents(folder: str) -> list[tuple[str, Rows]]:
    """Return the states of sub-agents below a folder, those of workflows included."""
    rows: Rows = []
    found = [(folder, rows)]
    for entry in entries_of(folder):
        if entry.name.endswith(".jsonl"):
            is_subagent = entry.name.startswith("agent-")
            if is_subagent and (status := stat_regular(folder, entry.name, None)):
                rows.append((entry.name, status.st_ino, status.st_size, status.st_mtime_ns))
        elif is_folder(entry):
            found += _scan_subagents(entry.path)
    return found if rows or len(found) > 1 else []
