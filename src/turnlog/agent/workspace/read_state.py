"""Remember files as the model last read them: it may not change content it does not know."""

import hashlib
import os
from io import BufferedReader
from typing import NamedTuple

from turnlog.format.jsonl import FileState

HASHED = 64 << 20
"""Files above this size in bytes are compared by `FileState` alone."""


class ReadState(NamedTuple):
    """The state of a file when it was last read or written."""

    state: FileState
    digest: bytes
    """Hash of its content; empty if only the state is known."""

    def still_holds(self, file: BufferedReader) -> bool:
        """Return whether an open file has the same content; its times may differ."""
        return state_of(file) == self.state or (
            self.digest != b"" and digest_of(file) == self.digest
        )


def read_state_of(file: BufferedReader, state: FileState) -> ReadState:
    """Return the read state of an open file, whose `state` was taken before it was read."""
    digest = digest_of(file) if state.size <= HASHED else b""
    return ReadState(state, digest if state_of(file) == state else b"")


def state_of(file: BufferedReader) -> FileState:
    """Return the state of an open file."""
    found = os.fstat(file.fileno())
    return FileState(found.st_ino, found.st_size, found.st_mtime_ns)


def digest_of(file: BufferedReader) -> bytes:
    """Hash an open file from its start."""
    file.seek(0)
    return hashlib.file_digest(file, "sha256").digest()
