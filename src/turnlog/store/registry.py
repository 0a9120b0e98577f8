"""The registry of running clients: one file per process names the session it has open.

Clients from 2.1 on leave their file behind when they are killed. The start time distinguishes a
process from a later one with the same id.
"""

import json
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from turnlog.errors import Unavailable
from turnlog.format.atomic import write_atomic
from turnlog.format.json_values import Fields, is_object, parse_json, text_in
from turnlog.format.portable import is_running
from turnlog.format.regular_files import read_object, read_regular
from turnlog.store.paths import Store

LATEST = 253_402_214_400_000
"""The last day of the year 9999 in milliseconds: the latest that datetime supports."""
LARGEST = 1 << 16
"""Maximum bytes of a registry file; real ones have less than a kilobyte."""


class Registration(NamedTuple):
    """The registry file of one client.

    Clients with a `status` update it whenever it changes (observed: 2.1.325): `idle` at the prompt,
    `busy` during a turn, `waiting` with a reason in `waitingFor`.
    """

    session_id: str
    cwd: str
    started: float | None = None
    """Seconds since 1970."""
    proc_start: str | None = None
    version: str | None = None
    entrypoint: str | None = None
    name: str | None = None
    name_source: str | None = None
    """`user` if the name was typed, `derived` if it is made from the directory."""
    status: str | None = None
    waiting_for: str | None = None
    """`permission prompt`, `input needed` or `dialog open` (observed: 2.1.325)."""
    status_since: float | None = None


class RunningClient(NamedTuple):
    """A client process and its registration."""

    pid: int
    registration: Registration


class RegistryReader:
    """The running clients of a store; a file is read again only when it has changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[str, tuple[tuple[int, int, int], Registration | None]] = {}

    def running(self) -> list[RunningClient]:
        """Return the clients that are running now, by process id."""
        present = list(self._files())
        self._read = {name: self._read[name] for name in present if name in self._read}
        found = [(int(name.removesuffix(".json")), self._read[name][1]) for name in self._read]
        clients = [RunningClient(pid, each) for pid, each in found if each]
        return sorted(
            client
            for client in clients
            if is_registered_process(client.pid, client.registration.proc_start)
        )

    def _files(self) -> list[str]:
        """Read the files that are new or have changed; return the names of all."""
        names: list[str] = []
        with suppress(OSError), os.scandir(self._store.registry) as entries:
            for entry in entries:
                if entry.name.endswith(".json") and entry.name[:-5].isdecimal():
                    with suppress(OSError):
                        self._look_at(entry)
                        names.append(entry.name)
        return names

    def _look_at(self, entry: "os.DirEntry[str]") -> None:
        status = entry.stat()
        state = (status.st_ino, status.st_size, status.st_mtime_ns)
        known = self._read.get(entry.name)
        if known is None or known[0] != state:
            self._read[entry.name] = state, read_registration(Path(entry.path))


def read_registration(path: Path) -> Registration | None:
    """Return a client's registration; None if the file is malformed or being written."""
    fields: object = None
    with suppress(OSError, ValueError):
        fields = parse_json(read_regular(path, LARGEST))
    if not is_object(fields) or not is_session_id(session_id := text_in(fields, "sessionId") or ""):
        return None
    return Registration(
        session_id,
        text_in(fields, "cwd") or "",
        seconds_in(fields, "startedAt"),
        text_in(fields, "procStart"),
        text_in(fields, "version"),
        text_in(fields, "entrypoint"),
        text_in(fields, "name"),
        text_in(fields, "nameSource"),
        text_in(fields, "status"),
        text_in(fields, "waitingFor"),
        seconds_in(fields, "statusUpdatedAt"),
    )


def is_session_id(text: str) -> bool:
    """Return whether a text is safe as the name of a session file, without dots or slashes."""
    return re.fullmatch(r"[A-Za-z0-9_-]{1,200}", text) is not None


def seconds_in(fields: Fields, name: str) -> float | None:
    """Return a field with milliseconds in seconds; None if it is not a number in range."""
    value = fields.get(name)
    # In Python, JSON's `true` is an int as well.
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value / 1000 if 0 < value < LATEST else None


def is_registered_process(pid: int, started: str | None) -> bool:
    """Return whether the process that registered still runs; `started` detects a reused pid."""
    # A process that /proc lists is running: no second check is needed.
    if (found := start_of(pid)) is not None:
        return started is None or started == found
    with suppress(OverflowError):
        return is_running(pid)
    return False


def has_child_since(pid: int, moment: float) -> bool | None:
    """Return whether a process has a child that started after a moment; None without /proc.

    A running shell command counts; a server that was started earlier does not.
    """
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = {name for task in tasks for name in (task / "children").read_text().split()}
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except OSError:
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    starts = [start_of(int(name)) for name in children]
    booted = time.time() - uptime
    # Both clocks are rounded, so a child may seem to have started just before its call.
    return any(booted + int(start) / ticks > moment - 1 for start in starts if start)


def start_of(pid: int) -> str | None:
    """Return the start time of a process in clock ticks, on systems with /proc."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # Field 22. The second field is the program's name in parentheses, and may contain any
    # byte: split only what follows the last parenthesis.
    return status.rpartition(b")")[2].split()[19].decode()


def claim(store: Store, session_id: str, cwd: Path, entrypoint: str, version: str) -> None:
    """Register a session as open in this process, in the format of 2.1.325."""
    # The file is named by process: claiming another session replaces the last claim.
    pid = os.getpid()
    start = start_of(pid)
    fields = {
        "pid": pid,
        "sessionId": session_id,
        "cwd": str(cwd),
        "startedAt": round(time.time() * 1000),
        **({"procStart": start} if start else {}),
        "version": version,
        "kind": "interactive",
        "entrypoint": entrypoint,
    }
    # The registry is a courtesy to other clients. If it cannot be written, writing the session file
    # will fail as well and report it.
    with suppress(OSError, Unavailable):
        write_atomic(_claim_file(store), json.dumps(fields, separators=(",", ":")).encode())


def release(store: Store, session_id: str) -> None:
    """Remove this process's claim on a session, unless it has claimed another one since."""
    path = _claim_file(store)
    with suppress(OSError):
        if read_object(path).get("sessionId") == session_id:
            path.unlink()


def _claim_file(store: Store) -> Path:
    return store.registry / f"{os.getpid()}.json"
