"""A scripted model for tests of the agent, without the keys that this machine may have."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.chat_process import ChatProcess
from support.chatting import make_parts
from support.scripted_api import ScriptedApi, said, scripted_api
from turnlog.agent.loop.conversation import Parts
from turnlog.store.paths import Store

KEPT_OUT = ("ANTHROPIC_", "CLAUDE_CODE_", "CLAUDE_AUTOCOMPACT_", "DISABLE_")


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    """The Messages API, which the environment names."""
    for name in [name for name in os.environ if name.startswith(KEPT_OUT)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-key")
    with scripted_api(said("Done.")) as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.url)
        yield running


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A working directory."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def parts(store: Store, project: Path, api: ScriptedApi) -> Parts:
    """A conversation that has not begun."""
    return make_parts(store, project)


@pytest.fixture
def chat(tmp_path: Path, api: ScriptedApi) -> ChatProcess:
    """Starts chats as processes of their own."""
    return ChatProcess(tmp_path, api.url)
