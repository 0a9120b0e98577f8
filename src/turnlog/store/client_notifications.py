"""The last notification of each session, as the plugin's hook received it.

A client without a status in the registry does not record anywhere that it waits for permission.
One small file per session stores the kind and time of the last notification, but not its text.
"""

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from turnlog.errors import Unavailable
from turnlog.format.atomic import write_atomic
from turnlog.format.json_values import is_object, parse_json, text_in
from turnlog.format.regular_files import read_regular
from turnlog.store.directories import data_directory
from turnlog.store.registry import is_session_id, seconds_in

LARGEST = 1 << 12
KEPT_SECONDS = 7 * 86_400.0
"""Age at which the file of a session that never ended is removed."""


class Notification(NamedTuple):
    """A notification that a client sent."""

    kind: str
    """Such as `permission_prompt` or `idle_prompt` (documented; observed: 2.1.150, 2.1.325)."""
    at: float
    """Seconds since 1970."""


def notification_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the notifications, which need not exist."""
    return Path(data_directory(environment)) / "notifications"


def record_notification(session_id: str, kind: str) -> None:
    """Record the latest notification of a session, replacing any earlier one."""
    if not is_session_id(session_id):
        return
    path = _file_of(session_id)
    fields = {"kind": kind, "at": round(time.time() * 1000)}
    write_atomic(path, json.dumps(fields).encode())
    for other in path.parent.glob("*.json"):
        with suppress(OSError):
            if time.time() - other.stat().st_mtime > KEPT_SECONDS:
                other.unlink()


def read_notification(session_id: str) -> Notification | None:
    """Return the last notification of a session; None if there is none."""
    with suppress(OSError, ValueError, Unavailable):
        fields = parse_json(read_regular(_file_of(session_id), LARGEST))
        if is_object(fields):
            kind, at = text_in(fields, "kind"), seconds_in(fields, "at")
            return Notification(kind, at) if kind and at else None
    return None


def clear_notification(session_id: str) -> None:
    """Forget the notification of a session that has ended."""
    if is_session_id(session_id):
        _file_of(session_id).unlink(missing_ok=True)


def _file_of(session_id: str) -> Path:
    return notification_folder() / f"{session_id}.json"
