"""Scan stores for the state of each file: inode, size and modification time.

Nearly every command does this first, so it consists of little but system calls; a second process
scans half of a large store.
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
from turnlog.store.stores import AnyStores, each_store

MANY = 20_000
"""Minimum number of file names for which a second process pays off."""

State = tuple[int, int, int]
"""Inode, size and modification time in nanoseconds."""
States = dict[str, State]
"""States of session and sub-agent files, by path."""
Listing = list[tuple[str, list[str]]]
"""Project folders with the names in each."""
Rows = list[tuple[str, int, int, int]]
"""Files of one folder, each with its name and state."""


class FileStates:
    """The states of all files of one or several stores, as found by a scan.

    They stay encoded: most commands only compare the bytes with those of an earlier scan.
    """

    def __init__(self, parts: list[bytes]) -> None:
        self.parts = parts

    @cached_property
    def by_path(self) -> States:
        """Decoded states, by path."""
        return {
            f"{folder}{os.sep}{name}": (inode, size, time)
            for folder, rows in self._folders()
            for name, inode, size, time in rows
        }

    def names_before(self, projects: str, moment: float) -> list[str]:
        """Return the names of files below a folder last modified before `moment`, in ns."""
        return [
            name
            for folder, rows in self._folders()
            if folder.startswith(projects)
            for name, _, _, time in rows
            if time < moment
        ]

    def _folders(self) -> Iterator[tuple[str, Rows]]:
        for part in self.parts:
            yield from marshal.loads(part)


def scan_store(stores: AnyStores) -> FileStates:
    """Return the states of all session and sub-agent files."""
    return begin_scan(stores)()


def begin_scan(stores: AnyStores, many: int = MANY) -> Callable[[], FileStates]:
    """Start to scan stores; return a function that finishes the scan and returns the states.

    Call this before starting any thread: a large store is scanned with the help of a fork.
    """
    # Stores share one index whatever their order, so the order must not affect the fingerprint.
    ordered = sorted(each_store(stores))
    roots = {str(store.root) for store in ordered}
    found = (folder for store in ordered for folder in _list_projects(store))
    listing = [folder for folder in found if folder[0] not in roots]
    first, second = _halves(listing)
    # A fork copies the locks that other threads hold, but not the threads that would release them:
    # the child could wait forever.
    can_fork = sys.platform == "linux" and threading.active_count() == 1
    is_shared = can_fork and sum(len(names) for _, names in listing) >= many
    finish_second = _begin_apart(second) if is_shared else lambda: _scan(second)
    return lambda: FileStates([_scan(first), finish_second()])


def scan_session(session: Path) -> States:
    """Return the states of a session's file and of its sub-agents."""
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
                names = _utf8_names(project.path, os.listdir(project.path))
                listing.append((project.path, names))
    return listing


def _utf8_names(folder: str, names: list[str]) -> list[str]:
    """Return the names whose paths are UTF-8, the encoding of the index; report the others."""
    if _is_utf8("".join((folder, *names))):
        return names
    found: list[str] = []
    for name in names:
        path = f"{folder}{os.sep}{name}"
        if _is_utf8(path):
            found.append(name)
        else:
            note_skipped(path, "its name is not UTF-8")
    return found


def _is_utf8(path: str) -> bool:
    # Bytes that are not UTF-8 were decoded to lone surrogates.
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _halves(listing: Listing) -> tuple[Listing, Listing]:
    """Split a listing into two of equal size, dividing a folder if necessary."""
    room = sum(len(names) for _, names in listing) // 2
    halves: tuple[Listing, Listing] = [], []
    for folder, names in listing:
        for half, part in zip(halves, (names[:room], names[room:]), strict=True):
            if part:
                half.append((folder, part))
        room = max(0, room - len(names))
    return halves


def _begin_apart(listing: Listing) -> Callable[[], bytes]:
    """Scan folders in a forked process; return a function that waits for its result."""
    reading, writing = os.pipe()
    try:
        child = os.fork()
    except OSError:  # the process limit is reached
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
            # Skip the parent's exit handlers: they would flush its buffers a second time.
            os._exit(1)
    os.close(writing)

    def finish() -> bytes:
        with os.fdopen(reading, "rb") as pipe:
            output = pipe.read()
        if os.waitpid(child, 0)[1] != 0:  # killed, for example by the OOM killer
            return _scan(listing)
        part, skipped = marshal.loads(output)
        for path, reason in skipped.items():
            note_skipped(path, reason)
        return part

    return finish


def _scan(listing: Listing) -> bytes:
    """Return the encoded states of the files in project folders."""
    found: list[tuple[str, Rows]] = []
    for folder, names in listing:
        with skipping(folder), opened_folder(folder) as descriptor:
            found.append((folder, _stat_sessions(folder, names, descriptor)))
        found += _scan_below(folder, names)
    # Later versions of the format encode back references depending on reference counts, so equal
    # states could produce different bytes.
    return marshal.dumps(found, 2)


def _stat_sessions(folder: str, names: list[str], descriptor: int | None) -> Rows:
    rows: Rows = []
    for name in names:
        is_session = name.endswith(".jsonl") and not name.startswith(".")
        if is_session and (status := stat_regular(folder, name, descriptor)):
            rows.append((name, status.st_ino, status.st_size, status.st_mtime_ns))
    return rows


def _scan_below(folder: str, names: list[str]) -> Iterator[tuple[str, Rows]]:
    """Yield the states of sub-agents, stored per session or per project."""
    for name in names:
        if name.endswith(".jsonl"):
            continue
        if name != SUBAGENTS:
            yield from _scan_subagents(f"{folder}{os.sep}{name}{os.sep}{SUBAGENTS}")
        elif Path(folder, name).is_dir():
            yield from _scan_subagents(f"{folder}{os.sep}{name}")


def _scan_subagents(folder: str) -> list[tuple[str, Rows]]:
    """Return the states of all sub-agents below a folder, including those of workflows."""
    rows: Rows = []
    found = [(folder, rows)]
    entries = {entry.name: entry for entry in entries_of(folder)}
    for name in _utf8_names(folder, list(entries)):
        entry = entries[name]
        if name.endswith(".jsonl"):
            is_subagent = entry.name.startswith("agent-")
            if is_subagent and (status := stat_regular(folder, entry.name, None)):
                rows.append((entry.name, status.st_ino, status.st_size, status.st_mtime_ns))
        elif is_folder(entry):
            found += _scan_subagents(entry.path)
    return found if rows or len(found) > 1 else []
