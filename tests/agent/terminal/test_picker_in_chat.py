"""The picker on the terminal of a running chat."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.scripted_api import ScriptedApi
from support.tmux import Pane, isolate_terminal, needs_tmux, terminal
from turnlog.store.paths import Store

pytestmark = needs_tmux
LISTED = "1 session"


@pytest.fixture
def pane(
    api: ScriptedApi, store: Store, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Pane]:
    """A chat with a session, in which the picker is open; `chat.pid` has its process."""
    isolate_terminal(monkeypatch, tmp_path)
    chat = f"echo $$ > {tmp_path}/chat.pid; exec {sys.executable} -m turnlog chat"
    with terminal(["sh", "-c", chat], project, 100, 30) as running:
        running.see("% of 1M")
        running.say("mend the cart")
        running.see("Done.")
        running.say("/resume")
        running.see(LISTED, "mend the cart")
        yield running


def test_the_picker_fills_a_terminal_of_another_size(pane: Pane) -> None:
    pane.resize(70, 20)
    pane.wait(lambda screen: LISTED in screen and "Enter chat" in screen.splitlines()[-1])
    pane.keys("Escape", "Escape")
    pane.wait(lambda screen: LISTED not in screen and "% of 1M" in screen)
    pane.say("and then?")
    pane.wait(lambda screen: screen.count("Done.") == 2)


def test_a_signal_ends_the_picker_and_the_chat(pane: Pane, tmp_path: Path) -> None:
    os.kill(int((tmp_path / "chat.pid").read_text()), signal.SIGTERM)
    pane.see("turnlog chat --resume")
    pane.wait(lambda _: pane.is_dead())
