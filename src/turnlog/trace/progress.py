"""Record how far each session was sent to a target: one small file per session file.

Losing one is harmless: the session is read from its start again, and the sent state prevents
duplicates.
"""

from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from turnlog.format.private_files import secure_folder
from turnlog.format.regular_files import read_object
from turnlog.trace.sent_state import now_text, write_json

PROBE = 4096
"""Number of bytes before an offset whose hash detects that a file was replaced or edited."""


class SendPosition(Struct, frozen=True):
    """The start of the first turn that is not completely sent, with counts of what precedes it."""

    offset: int
    lines: int
    turns: int
    time: str
    """The timestamp of its prompt."""
    probe: str
    agents: dict[str, int]
    """Sizes of the sub-agents' files that belong to earlier turns, by path."""


class SendProgress(Struct):
    """The part of a session that was sent, and the number of spans that were not."""

    session: str
    path: str
    first: str
    """The id of the conversation's first trace, which names its sent state."""
    mark: SendPosition | None = None
    size: int = 0
    """Size of the session's file when it was last read."""
    seen: float = 0.0
    """Time of the last note that was processed, in seconds since 1970."""
    turns: int = 0
    """Number of turns when the file was last read."""
    spans: int = 0
    """Number of spans that were sent."""
    open: int = 0
    """Number of spans that are not final."""
    unsent: int = 0
    """Number of spans that the target did not accept but may accept later."""
    refused: int = 0
    reason: str | None = None
    """The reason why spans were refused."""
    withheld: dict[str, list[int]] = {}
    """Numbers of the turns that are not sent along any route, by reason."""
    link: str | None = None
    """The URL of the last trace sent, in the backend's UI."""
    updated: str = ""

    def is_same(self, path: Path) -> bool:
        """Return whether a file has the size last read, and all its final spans were sent."""
        return self.size == path.stat().st_size and self.unsent == 0


def load_progress(folder: Path, target: str, session: str) -> SendProgress | None:
    """Return the progress of a session; None if there is none."""
    try:
        return msgspec.convert(read_object(_path(folder, target, session)), SendProgress)
    except msgspec.ValidationError:
        return None


def save_progress(folder: Path, target: str, progress: SendProgress) -> None:
    """Write the progress of a session atomically."""
    progress.updated = now_text()
    path = _path(folder, target, progress.session)
    secure_folder(path.parent, must_own=True)
    write_json(path, msgspec.to_builtins(progress))


def all_progress(folder: Path) -> list[tuple[str, SendProgress]]:
    """Return the target and progress of all sessions, the most recently sent first."""
    names = [(path.parent.parent.name, path.stem) for path in folder.glob("*/sessions/*.json")]
    loaded = ((target, load_progress(folder, target, session)) for target, session in names)
    found = [(target, known) for target, known in loaded if known]
    return sorted(found, key=lambda item: item[1].updated, reverse=True)


def probe_of(path: Path, offset: int) -> str:
    """Return a fingerprint of the bytes before an offset."""
    # Hashing everything before the offset would defeat reading only the tail. An edited file almost
    # certainly differs in its last bytes: bytes shift as soon as the length of any earlier line
    # changes.
    with path.open("rb") as file:
        start = max(0, offset - PROBE)
        file.seek(start)
        return sha256(file.read(offset - start)).hexdigest()


def _path(folder: Path, target: str, session: str) -> Path:
    return folder / target / "sessions" / f"{session}.json"
