"""The registry of running clients: one file per process names the session it has open.

Clients from 2.1 on leave their file behind when they are killed. The start time distinguishes a
process from a later one with the same id.
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
    """Return the start time of a process in clock ticks, on systems with /proc."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # Field 22. The second field is the program's name in parentheses, and may contain any
    # character: split only what follows the last parenthesis.
    return status.rpartition(")")[2].split()[19]


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
    with suppress(OSError, ValueError, AttributeError):
        if json.loads(read_regular(path)).get("sessionId") == session_id:
            path.unlink()


def _claim_file(store: Store) -> Path:
    return store.registry / f"{os.getpid()}.json"
