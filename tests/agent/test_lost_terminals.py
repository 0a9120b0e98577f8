"""A chat that loses its terminal exits, stops what it started, and leaves a sound session."""

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support import mcp_server
from support.chat_process import ANYTHING, NAME, NEW, ChatProcess
from support.pty_chat import PtyChat, pty_chat, wait_for
from support.scripted_api import ScriptedApi, called, said
from turnlog.conversation.session import open_session
from turnlog.edit.check.checks import check_session

PROCESSOR = 8.0
"""Seconds of processor time of a whole chat that does not spin."""
SLEEP = {"command": "sleep 1000.25; echo never", "description": "wait"}
BACKGROUND = {"command": "sleep 2000.25", "run_in_background": True}


@pytest.fixture
def chat(tmp_path: Path, api: ScriptedApi) -> ChatProcess:
    made = ChatProcess(tmp_path, api.url)
    server = {"command": sys.executable, "args": [mcp_server.__file__]}
    (tmp_path / "claude").mkdir(exist_ok=True)
    (tmp_path / "claude" / ".claude.json").write_text(json.dumps({"mcpServers": {"s": server}}))
    return made


def hang_up(running: PtyChat) -> None:
    running.hang_up()


def terminate(running: PtyChat) -> None:
    running.process.send_signal(signal.SIGTERM)


ENDINGS = pytest.mark.parametrize("end", [hang_up, terminate])


def ended(running: PtyChat, end: Callable[[PtyChat], None]) -> None:
    """End a chat; it is gone soon, and so is all that it started."""
    end(running)
    _, status, used = wait4(running)
    assert os.waitstatus_to_exitcode(status) in (0, 1, 130)  # 1: `-p` has no answer
    assert used.ru_utime + used.ru_stime < PROCESSOR
    wait_for(lambda: not running.survivors(), running.survivors)


def is_running(running: PtyChat, *commands: str) -> bool:
    started = running.survivors()
    return all(any(command in each for each in started) for command in commands)


def wait4(running: PtyChat) -> tuple[int, int, resource.struct_rusage]:
    found: list[tuple[int, int, resource.struct_rusage]] = []

    def is_over() -> bool:
        pid, status, used = os.wait4(running.process.pid, os.WNOHANG)
        if pid:
            running.process.returncode = os.waitstatus_to_exitcode(status)
            found.append((pid, status, used))
        return bool(pid)

    wait_for(is_over, lambda: running.screen)
    return found[0]


def resumes(chat: ChatProcess, api: ScriptedApi, *expected: str) -> None:
    """Check that the session is sound, and that another chat can resume it."""
    findings = check_session(open_session(chat.session))
    assert [each.message for each in findings if each.is_serious] == []
    api.replies[:] = [said("Back again.")]
    told = chat.run("-p", "--resume", NAME, "go on")
    assert (told.code, told.out) == (0, "Back again.\n"), told.err
    sent = json.dumps(api.requests[-1].body["messages"])
    assert all(each in sent for each in expected)


@ENDINGS
def test_at_an_idle_prompt(
    chat: ChatProcess, api: ScriptedApi, end: Callable[[PtyChat], None]
) -> None:
    with pty_chat(chat, "hello", *NEW) as running:
        running.see("Done.")
        ended(running, end)
    resumes(chat, api, "hello", "Done.")


@ENDINGS
def test_while_the_model_is_talking(
    chat: ChatProcess, api: ScriptedApi, end: Callable[[PtyChat], None]
) -> None:
    api.replies[:] = [said("It is a long story. " * 20)._replace(hold_after=12)]
    with pty_chat(chat, "tell me", *NEW) as running:
        wait_for(api.holding.is_set)
        running.see("It is a long")
        ended(running, end)
    resumes(chat, api, "tell me")


@ENDINGS
def test_while_commands_run(
    chat: ChatProcess, api: ScriptedApi, end: Callable[[PtyChat], None]
) -> None:
    api.replies[:] = [called(("b", "Bash", BACKGROUND)), called(("t", "Bash", SLEEP))]
    with pty_chat(chat, "wait", *NEW, *ANYTHING) as running:
        wait_for(lambda: is_running(running, "sleep 1000.25", "sleep 2000.25"))
        ended(running, end)
    resumes(chat, api, "wait")


@ENDINGS
def test_at_a_permission_question(
    chat: ChatProcess, api: ScriptedApi, end: Callable[[PtyChat], None]
) -> None:
    api.replies[:] = [called(("t", "Bash", {"command": "touch canary"}))]
    with pty_chat(chat, "do it", *NEW) as running:
        running.see("Run this command?", "Yes")
        ended(running, end)
    assert not (chat.work / "canary").exists()
    resumes(chat, api, "do it")


@ENDINGS
def test_at_the_trust_question(chat: ChatProcess, end: Callable[[PtyChat], None]) -> None:
    (chat.work / ".claude").mkdir()
    (chat.work / ".claude" / "settings.json").write_text("{}")
    with pty_chat(chat, "do it", *NEW) as running:
        running.see("Do you trust", "Yes")
        ended(running, end)
    assert not chat.session.exists()
    assert not (chat.store.root.parent / "turnlog" / "trusted.json").exists()


@ENDINGS
def test_while_a_hook_keeps_it_from_starting(
    chat: ChatProcess, end: Callable[[PtyChat], None]
) -> None:
    hook = {"type": "command", "command": "sleep 3000.25"}
    settings = {"hooks": {"SessionStart": [{"hooks": [hook]}]}}
    chat.store.settings.write_text(json.dumps(settings))
    with pty_chat(chat, "do it", *NEW) as running:
        wait_for(lambda: is_running(running, "sleep 3000.25"))
        ended(running, end)


@ENDINGS
def test_while_a_server_does_not_answer(
    chat: ChatProcess, tmp_path: Path, end: Callable[[PtyChat], None]
) -> None:
    server = {"command": "sleep", "args": ["4000.25"]}
    (tmp_path / "claude" / ".claude.json").write_text(json.dumps({"mcpServers": {"s": server}}))
    with pty_chat(chat, "do it", *NEW) as running:
        wait_for(lambda: is_running(running, "sleep 4000.25"))
        ended(running, end)


@ENDINGS
def test_when_nothing_that_it_started_wants_to_end(
    chat: ChatProcess, api: ScriptedApi, tmp_path: Path, end: Callable[[PtyChat], None]
) -> None:
    stubborn = "trap '' TERM HUP INT; "
    hook = {"type": "command", "command": f"{stubborn}sleep 3000.25; sleep 3000.5"}
    chat.store.settings.write_text(json.dumps({"hooks": {"SessionEnd": [{"hooks": [hook]}]}}))
    command = f"{stubborn}{sys.executable} {mcp_server.__file__}; sleep 4000.25"
    server = {"command": "sh", "args": ["-c", command]}
    (tmp_path / "claude" / ".claude.json").write_text(json.dumps({"mcpServers": {"s": server}}))
    background = BACKGROUND | {"command": f"{stubborn}sleep 2000.25; sleep 2000.5"}
    sleep = {"command": f"{stubborn}sleep 1000.25; sleep 1000.5"}
    api.replies[:] = [called(("b", "Bash", background)), called(("t", "Bash", sleep))]
    with pty_chat(chat, "wait", *NEW, *ANYTHING) as running:
        wait_for(lambda: is_running(running, "sleep 1000.25", "sleep 2000.25"))
        ended(running, end)
    resumes(chat, api, "wait")


@ENDINGS
@pytest.mark.parametrize("phase", ["start", "server", "work"])
def test_with_print(
    chat: ChatProcess,
    api: ScriptedApi,
    tmp_path: Path,
    phase: str,
    end: Callable[[PtyChat], None],
) -> None:
    if phase == "start":
        hook = {"type": "command", "command": "sleep 1000.25"}
        chat.store.settings.write_text(json.dumps({"hooks": {"SessionStart": [{"hooks": [hook]}]}}))
    if phase == "server":
        server = {"command": "sleep", "args": ["1000.25"]}
        (tmp_path / "claude" / ".claude.json").write_text(json.dumps({"mcpServers": {"s": server}}))
    api.replies[:] = [called(("t", "Bash", SLEEP))]
    with pty_chat(chat, "-p", "wait", *NEW, *ANYTHING) as running:
        wait_for(lambda: is_running(running, "sleep 1000.25"))
        ended(running, end)


@pytest.mark.parametrize("delay", [0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.5])
def test_at_any_moment_of_the_start(tmp_path: Path, api: ScriptedApi, delay: float) -> None:
    with pty_chat(ChatProcess(tmp_path, api.url), *NEW) as running:
        running.see("❯")
        time.sleep(delay)
        ended(running, hang_up)
