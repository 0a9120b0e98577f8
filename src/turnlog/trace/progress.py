"""How far each session was sent to a target: one small file for each session's file.

A lost one does no harm: the session is read from its start again, and the state of its conversation
tells what was sent.
"""

from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from turnlog.format.private_files import secure_folder
from turnlog.trace.sent_state import now_text, write_json

PROBE = 4096
"""Bytes before an offset that tell whether a file is still the one that was read."""


class SendPosition(Struct, frozen=True):
    """Where the first turn begins of which not all was sent, and what is before it."""

    offset: int
    lines: int
    turns: int
    time: str
    """That of its prompt."""
    probe: str
    agents: dict[str, int]
    """The files of the sub-agents before it, with their sizes."""


class SendProgress(Struct):
    """What was sent of a session, and what is yet to come."""

    session: str
    path: str
    first: str
    """The name of the conversation's state: the id of its first trace."""
    mark: SendPosition | None = None
    size: int = 0
    """Of the session's file when it was read last."""
    seen: float = 0.0
    """When the last note was left that was looked at, in seconds since 1970."""
    turns: int = 0
    """How many there were then."""
    spans: int = 0
    """How many were sent."""
    open: int = 0
    """Spans of which more is to come."""
    unsent: int = 0
    """Spans that the target did not take, for now."""
    refused: int = 0
    reason: str | None = None
    """Why spans were refused."""
    link: str | None = None
    """Where the backend shows the trace that was sent last."""
    updated: str = ""

    def is_same(self, path: Path) -> bool:
        """Whether a file has not grown since, and all that was final then was sent."""
        return self.size == path.stat().st_size and self.unsent == 0


def load_progress(folder: Path, target: str, session: str) -> SendProgress | None:
    """What is remembered of a session, if anything."""
    try:
        return msgspec.json.decode(_path(folder, target, session).read_bytes(), type=SendProgress)
    except (OSError, msgspec.MsgspecError):
        return None


def save_progress(folder: Path, target: str, progress: SendProgress) -> None:
    """Remember how far a session was sent."""
    progress.updated = now_text()
    path = _path(folder, target, progress.session)
    secure_folder(path.parent, must_own=True)
    write_json(path, msgspec.to_builtins(progress))


def all_progress(folder: Path) -> list[tuple[str, SendProgress]]:
    """What is remembered of all sessions, each with its target; the last that was sent first."""
    places = [(path.parent.parent.name, path.stem) for path in folder.glob("*/sessions/*.json")]
    loaded = ((target, load_progress(folder, target, session)) for target, session in places)
    found = [(target, known) for target, known in loaded if known]
    return sorted(found, key=lambda each: each[1].updated, reverse=True)


def probe_of(path: Path, offset: int) -> str:
    """A fingerprint of the bytes before an offset."""
    with path.open("rb") as file:
        start = max(0, offset - PROBE)
        file.seek(start)
        return sha256(file.read(offset - start)).hexdigest()


def _path(folder: Path, target: str, session: str) -> Path:
    return folder / target / "sessions" / f"{session}.json"
