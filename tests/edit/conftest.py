"""Sessions with the content that a test states."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.build import SESSION
from turnlog.conversation.session import Session, open_session

Open = Callable[[bytes], Session]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """Write the content of a session file, and open it."""

    def write(content: bytes) -> Session:
        path = tmp_path / f"{SESSION}.jsonl"
        path.write_bytes(content)
        return open_session(path)

    return write
