"""A home with two projects, whose sessions the tests query."""

from pathlib import Path

import pytest

from support.mcp_peer import write_history


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store, and a home of its own for the index and the configuration."""
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name in ("CLAUDE_CODE_SESSION_ID", "CLAUDE_SESSION_ID", "TURNLOG_HOME"):
        monkeypatch.delenv(name, raising=False)
    found = tmp_path / "store"
    write_history(found)
    return found
