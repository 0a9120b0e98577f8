"""`turnlog chat -p` on a terminal: answers of the model cannot control it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.chat_process import SECONDS, ChatProcess
from support.scripted_api import ScriptedApi, refused, said
from support.terminal import Terminal

HOSTILE = "a\x1b]52;c;cHduZWQ=\x07b\x1b]0;title\x07c\x1b[2Jd\x9b2Je\u202ef\x1b[8mhidden\x1b[0m g"
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
Run = Callable[..., str]


@pytest.fixture
def run(api: ScriptedApi, tmp_path: Path) -> Run:
    """Run a chat whose output is a terminal; return everything that was written there."""
    chat = ChatProcess(tmp_path / "chat", api.url)

    def start(*arguments: str) -> str:
        terminal = Terminal()
        output = terminal.follower
        chat.start("-p", "hi", *arguments, stdout=output, stderr=output).communicate(
            timeout=SECONDS
        )
        return terminal.close()

    return start


@pytest.mark.parametrize("style", ["text", "json", "stream-json"])
def test_an_answer_cannot_control_the_terminal(run: Run, api: ScriptedApi, style: str) -> None:
    api.replies[:] = [said(HOSTILE)]
    written = run("--output-format", style, "--verbose", "--include-partial-messages")
    assert "hidden" in written
    assert CONTROL.findall(written) == []


def test_json_on_a_terminal_still_means_the_same(run: Run, api: ScriptedApi) -> None:
    api.replies[:] = [said(HOSTILE)]
    assert json.loads(run("--output-format", "json"))["result"] == HOSTILE


def test_an_error_of_the_api_cannot_control_the_terminal(run: Run, api: ScriptedApi) -> None:
    api.replies[:] = [refused(400, HOSTILE)]
    written = run()
    assert "hidden" in written
    assert CONTROL.findall(written) == []


def test_a_pipe_gets_the_answer_as_it_is(api: ScriptedApi, tmp_path: Path) -> None:
    api.replies[:] = [said(HOSTILE)]
    assert ChatProcess(tmp_path / "chat", api.url).run("-p", "hi").out == f"{HOSTILE}\n"


def test_a_raw_line_cannot_control_the_terminal(tmp_path: Path) -> None:
    session = tmp_path / "5e551011-0000-4000-8000-000000000000.jsonl"
    session.write_text(f'{{"type": "user", "text": "{HOSTILE}"}}\n')
    terminal = Terminal()
    command = [sys.executable, "-m", "turnlog", "raw", str(session), "--line", "1"]
    environment = os.environ | {"CLAUDE_CONFIG_DIR": str(tmp_path)}
    subprocess.run(command, stdout=terminal.follower, env=environment, check=True)
    written = terminal.close()
    assert "hidden" in written
    assert CONTROL.findall(written) == []
    piped = subprocess.run(command, capture_output=True, env=environment, check=True)
    assert piped.stdout == session.read_bytes()
