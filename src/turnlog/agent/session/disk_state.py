"""Detect files that someone else changed since the session last wrote them."""

import filecmp
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct

from turnlog.conversation.calls import Detail
from turnlog.conversation.session import Session
from turnlog.format.json_values import is_object
from turnlog.format.regular_files import read_regular
from turnlog.format.timestamps import parse_timestamp
from turnlog.format.tools import CHANGING

SLACK = timedelta(seconds=1)
"""Tolerance between the clocks of file systems and sessions."""

ARRIVAL = timedelta(minutes=1)
"""Maximum time between writing a backup and the line that names it."""


class LastChange(Struct, frozen=True):
    """A session's last change to a file."""

    time: datetime
    text: str | None
    """The content after the change; None if the call does not record it."""


def last_changes(session: Session, root: Path) -> dict[Path, LastChange]:
    """Return the last change of a session to each file, including changes of sub-agents.

    Relative paths in calls are resolved against `root`, the session's directory.
    """
    found: dict[Path, LastChange] = {}
    for each in (session, *map(session.open_subagent, session.subagents)):
        for call in each.calls:
            time = parse_timestamp(call.result.time) if call.result else None
            if call.name not in CHANGING or call.is_error or not time:
                continue
            detail = each.detail(call)
            given = detail.input if is_object(detail.input) else {}
            path = root / str(given.get("file_path") or given.get("notebook_path"))
            if path not in found or found[path].time <= time:
                found[path] = LastChange(time, _text_after(detail))
    return found


def is_changed_outside(path: Path, copies: list[Path], change: LastChange | None) -> bool:
    """Return whether a file differs from what the session wrote and from all its backups."""
    if not path.is_file() or any(is_same(path, copy) for copy in copies):
        return False
    if change is None:
        return True
    if change.text is not None:
        return _plain(read_regular(path).decode("utf-8", "replace")) != _plain(change.text)
    # Unlike mtime, ctime cannot be set back by a program that writes the file.
    status = datetime.fromtimestamp(path.stat().st_ctime, UTC)
    return status > change.time + SLACK


def is_recorded_here(copy: Path, time: str) -> bool:
    """Return whether a backup was created on this machine at the time that the session records.

    A restored or copied file has another ctime. The author of a session can forge all timestamps in
    it, but not the time at which its files are created here.
    """
    recorded = parse_timestamp(time)
    status = datetime.fromtimestamp(copy.lstat().st_ctime, UTC)
    return recorded is not None and abs(status - recorded) <= ARRIVAL


def is_same(path: Path, copy: Path) -> bool:
    """Return whether two files have the same content."""
    return path.is_file() and copy.is_file() and filecmp.cmp(path, copy, shallow=False)


def _text_after(detail: Detail) -> str | None:
    """Return the content of a file after a call, if the entries record it."""
    given = detail.input if is_object(detail.input) else {}
    if isinstance(given.get("content"), str):
        return given["content"]
    structured = detail.structured if is_object(detail.structured) else {}
    before, old = structured.get("originalFile"), structured.get("oldString")
    if not isinstance(before, str) or not isinstance(old, str) or not old:
        return None
    count = -1 if structured.get("replaceAll") else 1
    return before.replace(old, str(structured.get("newString")), count)


def _plain(text: str) -> str:
    r"""Return a text without byte order mark and with `\n` line endings."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")
