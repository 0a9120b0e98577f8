"""Chats in a real terminal."""

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.scripted_api import ScriptedApi
from support.tmux import Pane, Start, isolate_terminal, terminal
from turnlog.store.paths import Store


@pytest.fixture
def start(
    api: ScriptedApi, store: Store, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Start:
    """Starts a chat in a terminal."""
    isolate_terminal(monkeypatch, tmp_path)

    @contextmanager
    def run(
        *options: str, columns: int = 80, rows: int = 30, command: Sequence[str] = ()
    ) -> Generator[Pane]:
        usual = [sys.executable, "-m", "turnlog", "chat", *options]
        with terminal(command or usual, project, columns, rows) as pane:
            pane.see("% of 1M")
            yield pane

    return run
