"""Sessions built from the lines that a test states."""

from pathlib import Path
from typing import Protocol

import pytest

from support.build import SESSION, session
from turnlog.conversation.session import Session, open_session


class Opened(Protocol):
    def __call__(self, *lines: bytes) -> Session: ...


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """Write lines as a session file, and open it."""

    def open_lines(*lines: bytes) -> Session:
        path = tmp_path / f"{SESSION}.jsonl"
        path.write_bytes(session(*lines))
        return open_session(path)

    return open_lines
