"""The spool: waiting notes, notes that a backend refused, and recent failures.

A note names a session with unsent spans and the route to send them along. At most one sender at a
time processes the notes for a target.
"""

import json
import os
import re
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from turnlog.errors import Conflict, TurnlogError
from turnlog.format.json_values import is_object, objects_in, parse_json
from turnlog.format.locks import lock
from turnlog.format.private_files import secure_folder, touch_private
from turnlog.store.paths import real_path
from turnlog.trace.note import (
    FAMILY,
    SUFFIX,
    leave_note,
    split_note,
    spool_folder,
)
from turnlog.trace.route import Credential, Route, parse_route
from turnlog.trace.sent_state import now_text, write_json

BOOKS_WAIT = 30.0
KEPT = 100
"""Maximum number of failures, and of refused notes, that are kept."""
SESSION_FILE = re.compile(r"(?!agent-)[\w-][\w.-]*\.jsonl")
BACKFILL = "Backfill"
"""The event of a note that turnlog itself wrote, for a session that no hook announced."""
OTHER_VERSION = "left by an older turnlog, without a route (try: turnlog trace SESSION --to TARGET)"


class HookNote(Struct, frozen=True):
    """One hook call: the client's payload, and the route of the delivery."""

    path: Path
    time: float
    """Time of the hook call, in seconds since 1970."""
    fields: dict[str, str]
    route: Route
    credentials: tuple[Credential, ...]
    event: str
    session: str
    transcript: Path
    source: str = ""
    """For SessionStart: startup, resume, clear or compact."""
    message: str | None = None
    """The model's last message, if the client passes it."""
    running: frozenset[str] = frozenset()
    """Ids of sub-agents that are running in the background."""

    @property
    def is_backfill(self) -> bool:
        """True if turnlog wrote the note itself."""
        return self.event == BACKFILL

    @property
    def is_start(self) -> bool:
        """True if a client started; compaction during a turn also reports SessionStart."""
        return self.event == "SessionStart" and self.source != "compact"


class Failure(Struct, frozen=True):
    """Something that was not sent, and why."""

    time: str
    session: str | None
    reason: str


class Spool:
    """The folder of notes, private to the user."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(spool_folder())

    def begin(self) -> None:
        """Record the start of tracing; older sessions are sent only if they are continued."""
        secure_folder(self.folder, must_own=True)
        touch_private(self.folder / "since")

    @property
    def since(self) -> float:
        """Time at which the hooks were last installed, in seconds since 1970."""
        try:
            return (self.folder / "since").stat().st_mtime
        except OSError:
            return time.time()

    @contextmanager
    def lock(self, wait: float = 0, is_shared: bool = False) -> Generator[bool]:
        """Lock out all senders, or share the lock with them; yield False if that fails."""
        with self._locked("lock", wait, is_shared) as is_ours:
            yield is_ours

    @contextmanager
    def lock_queue(self, name: str, wait: float = 0) -> Generator[bool]:
        """Lock the notes for one target; yield False if another sender keeps them locked."""
        secure_folder(self.folder / "queues", must_own=True)
        with self._locked(f"queues/{name}.lock", wait) as is_ours:
            yield is_ours

    @contextmanager
    def lock_books(self) -> Generator[None]:
        """Lock the files that senders of all targets write; hold it only briefly."""
        with self._locked("books.lock", BOOKS_WAIT) as is_ours:
            if not is_ours:
                raise Conflict(f"{self.folder} is in use by another turnlog", "turnlog hook status")
            yield

    @contextmanager
    def _locked(self, name: str, wait: float, is_shared: bool = False) -> Generator[bool]:
        secure_folder(self.folder, must_own=True)
        descriptor = os.open(self.folder / name, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            yield _is_locked(descriptor, time.time() + wait, is_shared)
        finally:
            os.close(descriptor)

    def paths(self) -> list[Path]:
        """Return the files of all notes, the oldest first."""
        return sorted(self.folder.glob(f"*{SUFFIX}"))

    def notes(self) -> list[HookNote]:
        """Return all valid notes, the oldest first."""
        return [found for path in self.paths() if isinstance(found := read_note(path), HookNote)]

    def discard_invalid(self) -> None:
        """Remove the notes that can never be sent, and record why."""
        for path in self.paths():
            if isinstance(found := read_note(path), str):
                self.fail(None, found)
                path.unlink(missing_ok=True)

    def leave_backfill(self, like: HookNote, transcript: Path) -> None:
        """Write a note for a session that no hook announced, with the route of another note."""
        waiting = ((note.transcript, note.route.key) for note in self.notes())
        if (transcript, like.route.key) in waiting:
            return
        payload = {"hook_event_name": BACKFILL, "session_id": transcript.stem}
        payload["transcript_path"] = str(transcript)
        # The caller's span belongs to the client that ran the hook, not to the missed session.
        fields = {name: value for name, value in like.fields.items() if name != "traceparent"}
        leave_note(str(self.folder), fields, json.dumps(payload).encode())

    def drop(self, notes: Iterable[HookNote]) -> None:
        """Remove delivered notes."""
        for note in notes:
            note.path.unlink(missing_ok=True)

    def set_aside(self, note: HookNote) -> None:
        """Keep a note whose spans the backend refused, so that they can be retried later."""
        secure_folder(self._refused, must_own=True)
        # One note per session and route is enough: a retry sends everything that was refused.
        for other in self.refused_notes():
            if (other.transcript, other.route.key) == (note.transcript, note.route.key):
                other.path.unlink(missing_ok=True)
        note.path.replace(self._refused / note.path.name)
        for path in sorted(self._refused.glob(f"*{SUFFIX}"))[:-KEPT]:
            path.unlink(missing_ok=True)

    def refused_notes(self) -> list[HookNote]:
        """Return the notes whose spans the backend refused."""
        paths = sorted(self._refused.glob(f"*{SUFFIX}"))
        return [found for path in paths if isinstance(found := read_note(path), HookNote)]

    def take_back(self, note: HookNote) -> None:
        """Queue a refused note again."""
        note.path.replace(self.folder / note.path.name)

    @property
    def _refused(self) -> Path:
        return self.folder / "refused"

    @property
    def failures(self) -> list[Failure]:
        """Recent failures, the oldest first."""
        stored = _read(self.folder / "failures.json")
        items = objects_in(stored)
        return [
            Failure(str(item.get("time")), item.get("session"), str(item.get("reason")))
            for item in items
        ]

    def fail(self, session: str | None, reason: str) -> None:
        """Record a failure; an equal one is recorded only once, with the latest time."""
        with self.lock_books():
            others = [e for e in self.failures if (e.session, e.reason) != (session, reason)]
            self._remember([*others, Failure(now_text(), session, reason)])

    def forget_failures(self) -> None:
        """Forget all failures."""
        self._remember([])

    def _remember(self, failures: Sequence[Failure]) -> None:
        fields = [{name: getattr(e, name) for name in e.__struct_fields__} for e in failures]
        write_json(self.folder / "failures.json", fields[-KEPT:])


def read_note(path: Path) -> HookNote | str | None:
    """Return a note, or why it can never be sent; None if it is gone or a newer turnlog's."""
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    parts = split_note(raw)
    if parts is None:
        # A newer turnlog may be installed elsewhere: leave its notes to its own sender.
        return None if raw.startswith(FAMILY) else OTHER_VERSION
    fields, payload = parts
    if refusal := fields.get("refused"):
        return refusal
    try:
        document = parse_json(payload)
    except ValueError:
        return "the hook's payload is not JSON"
    transcript = _transcript(document)
    if transcript is None:
        return "the hook's payload has no valid transcript_path"
    if reason := find_intrusion(transcript, Path(fields.get("store", ""))):
        return f"{transcript} is not sent: {reason}"
    try:
        route, credentials = parse_route(fields)
    except TurnlogError as error:
        return f"{transcript.stem}: {error.message}"
    message = document.get("last_assistant_message")
    return HookNote(
        path=path,
        time=_moment(path),
        fields=fields,
        route=route,
        credentials=credentials,
        event=str(document.get("hook_event_name") or ""),
        session=str(document.get("session_id") or transcript.stem),
        transcript=transcript,
        source=str(document.get("source") or ""),
        message=message if isinstance(message, str) else None,
        running=_running(document.get("background_tasks")),
    )


def _transcript(payload: Any) -> Path | None:
    """Return the session file that a payload names, if the path is valid."""
    name = payload.get("transcript_path") if is_object(payload) else None
    if not isinstance(name, str) or not name.startswith("/") or "\0" in name:
        return None
    # The name becomes part of paths in the state folder: reject "..", "*" and the like.
    return Path(name) if SESSION_FILE.fullmatch(Path(name).name) else None


def find_intrusion(transcript: Path, store: Path) -> str | None:
    """Return why a path is not that of a session in a store; None if it is.

    Any local program can run `turnlog hook run` with the path of another file, such as
    `/home/ada/diary.jsonl` or `projects/x/s.jsonl -> ../../../diary.jsonl`. Its content must not
    reach a backend. A path without a file is valid: a new session has none yet.
    """
    projects, real = real_path(store / "projects"), real_path(transcript)
    if real.parent.parent != projects:
        return f"it is not a session in {projects}"
    if os.path.lexists(real) and not real.is_file():
        return "it is not a regular file"
    return None


def _running(tasks: Any) -> frozenset[str]:
    known = objects_in(tasks)
    return frozenset(str(task.get("id")) for task in known if task.get("status") == "running")


def _moment(path: Path) -> float:
    try:
        return int(path.name.partition("-")[0]) / 1e9
    except ValueError:
        return time.time()


def _read(path: Path) -> Any:
    try:
        return parse_json(path.read_bytes())
    except (OSError, ValueError):
        return None


def _is_locked(descriptor: int, until: float, is_shared: bool) -> bool:
    while True:
        try:
            lock(descriptor, wait=False, is_shared=is_shared)
        except BlockingIOError:
            if time.time() >= until:
                return False
            time.sleep(0.05)
        else:
            return True
