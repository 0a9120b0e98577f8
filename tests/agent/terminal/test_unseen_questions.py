"""Keys that were pressed before a question appeared do not answer it."""

import json
import sys
import time
from pathlib import Path
from threading import Event, Thread

import pytest

from support import mcp_server
from support.chat_process import NEW, ChatProcess
from support.pty_chat import PtyChat, pty_chat, wait_for
from support.scripted_api import ScriptedApi, called, said

HELD = 0.03
"""Seconds between two characters of a key that is held."""
TRUST, RUN, SERVER = "Do you trust", "Run this command?", "run?"


def bring_hook(chat: ChatProcess) -> Path:
    """Create a project whose settings would create a file."""
    canary = chat.work.parent / "canary"
    hook = {"type": "command", "command": f"touch {canary}"}
    (chat.work / ".claude").mkdir()
    settings = {"hooks": {"SessionStart": [{"hooks": [hook]}]}}
    (chat.work / ".claude" / "settings.json").write_text(json.dumps(settings))
    return canary


class Held:
    """A key that is held for as long as the block takes."""

    def __init__(self, running: PtyChat, key: str) -> None:
        self._running, self._key = running, key
        self._is_over = Event()
        self._thread = Thread(target=self._press, daemon=True)

    def _press(self) -> None:
        while not self._is_over.wait(HELD):
            self._running.type(self._key)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()


@pytest.mark.parametrize("typed", ["\r", "\r" * 50, "1", "y\r\r", "1\r\x1b[A\r"])
def test_the_trust_question_is_not_answered_by_what_was_typed_ahead(
    chat: ChatProcess, typed: str
) -> None:
    canary = bring_hook(chat)
    with pty_chat(chat, *NEW, typed=typed.encode()) as running:
        running.see(TRUST, "enter to choose")
        time.sleep(1)
        assert running.process.poll() is None
        assert not canary.exists()
        running.type("\r")
        wait_for(canary.exists, lambda: running.screen)


def test_the_trust_question_is_not_answered_by_an_enter_that_is_held(chat: ChatProcess) -> None:
    canary = bring_hook(chat)
    with pty_chat(chat, *NEW) as running:
        with Held(running, "\r"):
            running.see("❯")
            time.sleep(6)
            assert not canary.exists()
        running.see(TRUST, "enter to choose")
        time.sleep(1)
        assert not canary.exists()
        running.type("\r")
        wait_for(canary.exists, lambda: running.screen)


def test_a_permission_question_is_not_answered_by_an_enter_that_is_held(
    chat: ChatProcess, api: ScriptedApi
) -> None:
    api.replies[:] = [called(("t", "Bash", {"command": "touch pwned"})), said("Done.")]
    with pty_chat(chat, "do it", *NEW) as running:
        with Held(running, "\r"):
            wait_for(lambda: bool(api.requests))
            time.sleep(4)
            assert not (chat.work / "pwned").exists()
        running.see(RUN, "enter to choose")
        time.sleep(1)
        assert not (chat.work / "pwned").exists()
        running.type("\r")
        running.see("Done.")
    assert (chat.work / "pwned").exists()


def test_a_server_is_not_approved_by_an_enter_that_is_held(chat: ChatProcess) -> None:
    server = {"command": sys.executable, "args": [mcp_server.__file__]}
    (chat.work / ".mcp.json").write_text(json.dumps({"mcpServers": {"shop": server}}))
    with pty_chat(chat, *NEW) as running:
        running.see(TRUST, "enter to choose")
        with Held(running, "\r"):  # the first one answers
            time.sleep(6)
            assert not any("mcp_server" in each for each in running.survivors())
        wait_for(lambda: running.screen.count("enter to choose") > 1)
        time.sleep(1)
        assert not any("mcp_server" in each for each in running.survivors())
        running.type("\r")
        wait_for(lambda: any("mcp_server" in each for each in running.survivors()))
