"""Find the session that a request comes from, so that searches do not quote it back to itself.

The session id in the environment is set when the client starts, and stale after `/clear` and
`/resume`. So the request and the client's own registry are checked first, and every session they
name counts: leaving out one session too many is better than an echo.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from turnlog.format.json_values import as_object
from turnlog.index import service
from turnlog.store.paths import Store
from turnlog.store.registry import RegistryReader, is_session_id

CALL_KEYS = ("claudecode/toolUseId", "toolUseId", "tool_use_id")
"""Fields of `_meta` with the id of the call that caused a request (observed: 2.1.325)."""
SESSION_KEY = re.compile(r"(?:^|[/._-])session[_-]?id$", re.IGNORECASE)
VARIABLES = ("CLAUDE_CODE_SESSION_ID", "CLAUDE_SESSION_ID")
RECENT = 60.0
"""If nothing names the calling session, one with an entry in the last RECENT seconds counts."""
DEEPEST = 8
"""Maximum number of ancestor processes to check for the client."""


def named_sessions(meta: Mapping[str, Any]) -> set[str]:
    """Return the session ids that the metadata of a request names."""
    return _ids(value for key, value in meta.items() if SESSION_KEY.search(key))


def started_sessions(environment: Mapping[str, str] = os.environ) -> set[str]:
    """Return the session ids that the environment names, which may be stale."""
    return _ids(environment.get(name) for name in VARIABLES)


def _ids(values: Iterable[Any]) -> set[str]:
    return {value for value in values if isinstance(value, str) and is_session_id(value)}


def call_in(meta: Mapping[str, Any]) -> str | None:
    """Return the id of the tool call that caused a request."""
    found = (meta.get(key) for key in CALL_KEYS)
    return next((each for each in found if isinstance(each, str) and each), None)


def registered_sessions(stores: Sequence[Store]) -> set[str]:
    """Return the sessions currently open in the client that started this process."""
    ancestors = set(_ancestors())
    found: set[str] = set()
    for store in stores:
        with suppress(OSError):
            running = RegistryReader(store).running()
            found |= {each.registration.session_id for each in running if each.pid in ancestors}
    return found


def calling_sessions(stores: Sequence[Store], meta: Mapping[str, Any]) -> set[str]:
    """Return the ids of sessions known with certainty to be the source of a request."""
    found = named_sessions(meta) | registered_sessions(stores)
    call = call_in(meta)
    if call and (owner := service.session_of_call(stores, call)):
        found.add(owner)
    return found


def is_recent(last_active: float) -> bool:
    """Return whether a session was written to just now, like the calling one."""
    return abs(time.time() - last_active) < RECENT


def meta_of(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the metadata of a request."""
    return as_object(params.get("_meta"))


def _ancestors() -> Iterator[int]:
    pid = os.getppid()
    # Between the client and this process may be a shell, a launcher or a package runner.
    for _ in range(DEEPEST):
        if pid <= 1:
            return
        yield pid
        pid = _parent_of(pid)


def _parent_of(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        # "42 (a (b) c) S 41 …": the name may contain anything, so count from its end.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
