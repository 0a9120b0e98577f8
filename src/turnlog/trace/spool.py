"""The notes that wait, in the order in which they were left; and what went wrong with others.

A note says which session has something to send. Only one sender at a time takes notes.
"""

import fcntl
import json
import os
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from turnlog.format.private_files import create_private_folder, touch_private
from turnlog.format.values import is_array, is_object
from turnlog.trace.note import SUFFIX, leave_note, spool_folder
from turnlog.trace.state import write_json

KEPT = 100
"""Failures that are remembered."""
CATCH_UP = "CatchUp"
"""The event of a note that turnlog left itself, for a session that no hook told of."""


class Note(Struct, frozen=True):
    """What the client told at an event."""

    path: Path
    time: float
    """When it was left, in seconds since 1970."""
    arguments: tuple[str, ...]
    """What the hook's command was called with: where to send, and how."""
    event: str
    session: str
    transcript: Path
    message: str | None = None
    """The model's last words, where the client tells them."""
    running: frozenset[str] = frozenset()
    """The ids of sub-agents that go on in the background."""


class Failure(Struct, frozen=True):
    """Something that will not be sent, and why."""

    time: str
    session: str | None
    reason: str


class Trouble(Struct, frozen=True):
    """Why what waits could not be sent the last time."""

    time: str
    reason: str


class Spool:
    """The folder of the notes."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(spool_folder())

    def begin(self) -> None:
        """Remember since when sessions are to be sent; what is older, only when it goes on."""
        create_private_folder(self.folder)
        touch_private(self.folder / "since")

    @property
    def since(self) -> float:
        """When the hooks were installed last, in seconds since 1970."""
        try:
            return (self.folder / "since").stat().st_mtime
        except OSError:
            return time.time()

    @contextmanager
    def lock(self, wait: float = 0) -> Generator[bool]:
        """Take the notes for oneself; False if another sender has them all the time."""
        create_private_folder(self.folder)
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            yield _is_locked(descriptor, time.time() + wait)
        finally:
            os.close(descriptor)

    def paths(self) -> list[Path]:
        """The files of all notes, the oldest first."""
        return sorted(self.folder.glob(f"*{SUFFIX}"))

    def notes(self) -> list[Note]:
        """All notes that make sense, the oldest first."""
        return [found for path in self.paths() if isinstance(found := read_note(path), Note)]

    def weed(self) -> None:
        """Take away the notes that make no sense, remembering why."""
        for path in self.paths():
            if isinstance(found := read_note(path), str):
                self.fail(None, found)
                path.unlink(missing_ok=True)

    def leave(self, arguments: Sequence[str], transcript: Path) -> None:
        """Leave a note for a session that no hook told of, unless one waits already."""
        if any(note.transcript == transcript for note in self.notes()):
            return
        told = {"hook_event_name": CATCH_UP, "session_id": transcript.stem}
        told["transcript_path"] = str(transcript)
        leave_note(str(self.folder), arguments, json.dumps(told).encode())

    def drop(self, notes: Iterable[Note]) -> None:
        """Take away notes of which everything is sent."""
        for note in notes:
            note.path.unlink(missing_ok=True)

    @property
    def failures(self) -> list[Failure]:
        held = _read(self.folder / "failures.json")
        fields = [each for each in held if is_object(each)] if is_array(held) else []
        return [
            Failure(str(each.get("time")), each.get("session"), str(each.get("reason")))
            for each in fields
        ]

    def fail(self, session: str | None, reason: str) -> None:
        """Remember something that will not be sent; the same is remembered once."""
        same = [each for each in self.failures if (each.session, each.reason) != (session, reason)]
        self._remember([*same, Failure(_now(), session, reason)])

    def forgive(self) -> None:
        """Forget all failures."""
        self._remember([])

    def _remember(self, failures: Sequence[Failure]) -> None:
        fields = [{name: getattr(e, name) for name in e.__struct_fields__} for e in failures]
        write_json(self.folder / "failures.json", fields[-KEPT:])

    @property
    def trouble(self) -> Trouble | None:
        held = _read(self.folder / "trouble.json")
        return Trouble(str(held.get("time")), str(held.get("reason"))) if is_object(held) else None

    def worry(self, reason: str | None) -> None:
        """Remember why what waits could not be sent, or that it could."""
        path = self.folder / "trouble.json"
        if reason is not None:
            write_json(path, {"time": _now(), "reason": reason})
        else:
            path.unlink(missing_ok=True)


def read_note(path: Path) -> Note | str | None:
    """A note; or why it makes no sense; or None if it is gone."""
    try:
        first, _, told = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    try:
        held = json.loads(told)
    except (ValueError, RecursionError):
        return "what the client told the hook is not JSON"
    if not is_object(held) or not isinstance(held.get("transcript_path"), str):
        return "the client told the hook no transcript_path"
    transcript = Path(held["transcript_path"])
    message = held.get("last_assistant_message")
    arguments = first.decode("utf-8", "surrogateescape").split("\0") if first else []
    return Note(
        path=path,
        time=_moment(path),
        arguments=tuple(arguments),
        event=str(held.get("hook_event_name") or ""),
        session=str(held.get("session_id") or transcript.stem),
        transcript=transcript,
        message=message if isinstance(message, str) else None,
        running=_running(held.get("background_tasks")),
    )


def _running(tasks: Any) -> frozenset[str]:
    held = [each for each in tasks if is_object(each)] if is_array(tasks) else []
    return frozenset(str(each.get("id")) for each in held if each.get("status") == "running")


def _moment(path: Path) -> float:
    try:
        return int(path.name.partition("-")[0]) / 1e9
    except ValueError:
        return time.time()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def _is_locked(descriptor: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.time() >= until:
                return False
            time.sleep(0.05)
        else:
            return True
