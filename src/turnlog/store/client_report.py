"""Ask an installed client which sessions are running: `claude agents --json`.

The client reads the same registry (observed: 2.1.325), so it is asked only about sessions whose
registry file has no status. The client need not be installed, and no caller waits for its answer.
"""

import os
import shutil
import subprocess
import time
from contextlib import suppress
from threading import Lock, Thread
from typing import NamedTuple

from turnlog.format.json_values import is_array, is_object, parse_json, text_in
from turnlog.store.paths import Store

PAUSE = 30.0
"""Seconds between two calls: each takes the client half a second of CPU time."""
TIMEOUT = 5.0


class ClientStatus(NamedTuple):
    """The state of a session as the client lists it."""

    status: str
    waiting_for: str | None


class ClientReport:
    """The client's list of running sessions, refreshed in the background."""

    def __init__(self, store: Store, pause: float = PAUSE, timeout: float = TIMEOUT) -> None:
        self._store = store
        self._pause = pause
        self._timeout = timeout
        self._lock = Lock()
        self._asked = float("-inf")
        self._is_supported = True
        self._statuses: dict[str, ClientStatus] = {}

    def status_of(self, session_id: str) -> ClientStatus | None:
        """Return the status of a session in the newest list, and request a newer one if due."""
        with self._lock:
            is_due = self._is_supported and time.monotonic() - self._asked >= self._pause
            if is_due:
                self._asked = time.monotonic()
        if is_due:
            Thread(target=self._ask, daemon=True, name="client report").start()
        return self._statuses.get(session_id)

    def _ask(self) -> None:
        statuses = list_running(self._store, self._timeout)
        # An older client does not know the command. Asking it again would start it again.
        self._is_supported = statuses is not None
        self._statuses = statuses or {}


def list_running(store: Store, timeout: float = TIMEOUT) -> dict[str, ClientStatus] | None:
    """Return the sessions that the installed client lists; None if it cannot list any."""
    program = shutil.which("claude")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "agents", "--json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=True,
            # Not the current directory: a client reads the settings of the project it starts in.
            cwd=store.root,
            env={**os.environ, "CLAUDE_CONFIG_DIR": str(store.root)},
        )
        listed = parse_json(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return _statuses(listed)


def _statuses(listed: object) -> dict[str, ClientStatus]:
    found: dict[str, ClientStatus] = {}
    for each in listed if is_array(listed) else []:
        with suppress(KeyError):
            if is_object(each) and (status := text_in(each, "status")):
                waiting_for = text_in(each, "waitingFor")
                found[each["sessionId"]] = ClientStatus(status, waiting_for)
    return found
