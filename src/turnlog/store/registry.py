"""The registry of running clients: a file for each process says which session it has open.

Clients from 2.1 on leave their files behind where they are killed: by its start a process is told
from a later one with the same id.
"""

import json
import os
import time
from contextlib import suppress
from pathlib import Path

from turnlog.errors import Unavailable
from turnlog.format.atomic import write_atomic
from turnlog.format.regular_files import read_regular
from turnlog.store.paths import Store


def start_of(pid: int) -> str | None:
    """When a process was started, by the system's own count, where it tells."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return status.rpartition(")")[2].split()[19]


def claim(store: Store, session_id: str, cwd: Path, entrypoint: str, version: str) -> None:
    """Say that this process has a session open, in the words of 2.1.325; it has one at a time."""
    pid = os.getpid()
    start = start_of(pid)
    held = {
        "pid": pid,
        "sessionId": session_id,
        "cwd": str(cwd),
        "startedAt": round(time.time() * 1000),
        **({"procStart": start} if start else {}),
        "version": version,
        "kind": "interactive",
        "entrypoint": entrypoint,
    }
    with suppress(OSError, Unavailable):  # where it cannot be written, the session's file says so
        write_atomic(_own(store), json.dumps(held, separators=(",", ":")).encode())


def release(store: Store, session_id: str) -> None:
    """Say that it is open no longer, unless this process has another one by now."""
    path = _own(store)
    with suppress(OSError, ValueError, AttributeError):
        if json.loads(read_regular(path)).get("sessionId") == session_id:
            path.unlink()


def _own(store: Store) -> Path:
    return store.registry / f"{os.getpid()}.json"
