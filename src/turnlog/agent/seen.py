"""Files as the model last saw them, so that none is changed whose content it does not know."""

import hashlib
from pathlib import Path
from typing import NamedTuple

from turnlog.format.jsonl import FileState

HASHED = 64 << 20
"""Files above this size are told apart by their state alone."""


class Seen(NamedTuple):
    """A file when it was read or written."""

    state: FileState
    digest: bytes
    """Of its content; empty where only the state is known."""

    def still_holds(self, path: Path) -> bool:
        """Whether the file has the same content: one that was only touched has."""
        return FileState.of(path) == self.state or (
            self.digest != b"" and digest_of(path) == self.digest
        )


def look_at(path: Path, state: FileState) -> Seen:
    """A file that was read from the moment on when it had a state."""
    digest = digest_of(path) if state.size <= HASHED else b""
    return Seen(state, digest if FileState.of(path) == state else b"")


def digest_of(path: Path) -> bytes:
    """The hash of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
