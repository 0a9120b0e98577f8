"""Determine a session's id in its traces: the file name if it is a UUID, else from the lines."""

from hashlib import sha256
from pathlib import Path
from uuid import UUID
from weakref import WeakKeyDictionary

from turnlog.conversation.session import Session
from turnlog.format.decode import read_entries
from turnlog.format.fields import given
from turnlog.format.jsonl import read_lines


def session_id_of(session: Session) -> str:
    """Return the session's id: the file name if it is a UUID, else the first id in the file.

    Other programs copy sessions to names such as `transcript.jsonl`. If no line has an id, the name
    and a hash of the first line are used: they stay the same while the file grows.
    """
    if session not in _OTHER_IDS:
        try:
            _OTHER_IDS[session] = str(UUID(session.id))
        except ValueError:
            _OTHER_IDS[session] = _id_in(session.path) or _id_by_first_line(session.path)
    return _OTHER_IDS[session]


_OTHER_IDS: WeakKeyDictionary[Session, str] = WeakKeyDictionary()


def _id_in(path: Path) -> str | None:
    return next(
        (name for _, entry in read_entries(path) if (name := given(entry.session_id))), None
    )


def _id_by_first_line(path: Path) -> str:
    # Only the first line: it stays the same while the file grows.
    first = next((line.raw.strip() for line in read_lines(path) if line.raw.strip()), b"")
    return f"{path.stem}-{sha256(first).hexdigest()[:8]}"
