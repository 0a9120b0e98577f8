"""Faults around a chat: each is reported in one line, and the session can be resumed."""

import asyncio
import errno
import json
import os
import resource
import signal
import time
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.chat_process import ANYTHING, NEW, ChatProcess, typed
from support.going_on import go_on
from support.scripted_api import Reply, ScriptedApi, called, refused, said
from turnlog.agent.chat.assembly import PRINTED, ChatOptions
from turnlog.agent.chat.opening import open_chat
from turnlog.agent.headless.print_mode import Printer, Style
from turnlog.agent.permissions import ApprovalMode

TOO_LONG = refused(400, "prompt is too long: 210000 tokens > 200000 maximum")
TOO_LARGE = os.strerror(errno.EFBIG)


def bash(command: str, name: str = "toolu_1", **more: Any) -> Reply:
    given = {"command": command, "description": "Run it"} | more
    return called((name, "Bash", given), text="Look.")


class Fault(NamedTuple):
    """A fault, and the message that reports it."""

    replies: list[Reply]
    out: str = "Done."
    code: int = 0
    retries: int = 0
    result: str = ""
    """The result that the model gets for its call."""


FAULTS = {
    "overloaded twice": Fault([refused(529, "Overloaded")] * 2, retries=2),
    "connection lost": Fault([bash("ls")._replace(cut_after=7)], retries=1),
    "garbled events": Fault([said("Half of it.")._replace(garbled_after=7)], retries=1),
    "wrong key": Fault([refused(401, "invalid x-api-key")], "invalid x-api-key (status 401", 1),
    "too long from the start": Fault([TOO_LONG] * 3, "prompt is too long", 1),
    "too long later": Fault([bash("ls"), TOO_LONG, said("They looked.")]),
    "a command hangs": Fault(
        [bash("sleep 60", timeout=300)], result="Command timed out after 0.3 s and was stopped"
    ),
    "a command floods": Fault(
        [bash("yes 0123456 | head -c 200000000")], result="<persisted-output>"
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_clear_line_and_nothing_is_lost(
    name: str, chat: ChatProcess, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = FAULTS[name]
    api.replies[:0] = fault.replies
    told = chat.run("-p", "hello", *NEW, *ANYTHING)
    assert (told.code, told.err) == (fault.code, "")
    [line] = told.out.splitlines()
    assert fault.out in line
    kept = chat.session.read_bytes()
    assert kept.count(b'"subtype":"api_error"') == fault.retries
    assert len(kept) < 200_000
    if fault.result:
        [answer] = api.requests[1].body["messages"][-1]["content"]
        assert fault.result in answer["content"]
    api.replies[:] = [said("Again.")]
    go_on(chat, api, monkeypatch)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_running_command_and_the_session_says_so(
    number: int, chat: ChatProcess, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.replies[:] = [bash("echo $$ > pid; echo begun; sleep 60; true")]
    with chat.start("-p", "hello", *NEW, *ANYTHING) as running:
        assert running.stdin
        running.stdin.close()
        running.stdin = None
        pid = wait_for(chat.work / "pid")
        running.send_signal(number)
        out, err = running.communicate(timeout=60)
        assert (running.returncode, out, err) == (1, "The turn was interrupted\n", "")
    assert not Path(f"/proc/{pid}").exists()
    assert b"[Request interrupted by user for tool use]" in chat.session.read_bytes()
    api.replies[:] = [said("Again.")]
    go_on(chat, api, monkeypatch)


def test_a_program_gets_the_result_of_a_turn_that_a_signal_ends(
    chat: ChatProcess, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.replies[:] = [bash("echo $$ > pid; sleep 60; true")]
    both = ("-p", "--input-format", "stream-json", "--output-format", "stream-json")
    with chat.start(*both, *NEW, *ANYTHING) as running:
        assert running.stdin
        running.stdin.write(typed(["hello"]))
        running.stdin.flush()
        pid = wait_for(chat.work / "pid")
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (1, "")
    assert json.loads(out.splitlines()[-1])["subtype"] == "error_during_execution"
    assert not Path(f"/proc/{pid}").exists()
    api.replies[:] = [said("Again.")]
    go_on(chat, api, monkeypatch)


def wait_for(path: Path) -> str:
    """Return the content of a file, once there is any."""
    while not (path.exists() and path.read_text().endswith("\n")):
        time.sleep(0.01)
    return path.read_text().strip()


def test_whoever_stops_reading_ends_the_turn_and_the_session_goes_on(
    chat: ChatProcess, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.replies[:] = [bash("echo hi", f"toolu_{number}") for number in range(100)]
    with chat.start("-p", "hello", *NEW, *ANYTHING, "--output-format", "stream-json") as running:
        assert running.stdin
        assert running.stdout
        assert running.stderr
        running.stdin.close()
        for _ in range(5):
            running.stdout.readline()
        running.stdout.close()
        assert (running.stderr.read(), running.wait(60)) == ("", 0)
    assert len(api.requests) < 100
    api.replies[:] = [said("Again.")]
    go_on(chat, api, monkeypatch)


@contextmanager
def files_of_at_most(size: int) -> Generator[None]:
    """A disk that is full as soon as a file has so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def ask(chat: ChatProcess, prompt: str) -> list[str]:
    """Run `turnlog chat -p` in this process; return its output."""
    lines: list[str] = []

    async def run() -> None:
        options = ChatOptions(
            cwd=chat.work, entrypoint=PRINTED, mode=ApprovalMode.BYPASS, session_id=NEW[1]
        )
        opened = await open_chat(chat.store, options)

        async def one() -> AsyncIterator[str]:
            yield prompt

        await Printer(opened, Style.TEXT, lines.append).run(one())
        await opened.close()

    asyncio.run(run())
    return lines


def test_a_full_disk_is_told_wherever_it_fills_and_the_session_goes_on(
    tmp_path: Path, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = [bash("echo hi"), said("The end.")]
    sizes = [10_000_000, *range(100, 6_000, 350)]
    ends: set[str] = set()
    for size in sizes:
        api.replies[:] = replies
        chat = ChatProcess(tmp_path / str(size), api.url)
        for name, value in chat.environment.items():
            monkeypatch.setenv(name, value)
        with files_of_at_most(size):
            told = ask(chat, "hello")
        kept = chat.session.read_bytes()
        if len(kept) == size:
            assert f"{chat.session}: {TOO_LARGE}" in "\n".join(told), size
        if b"The end." in kept.rpartition(b"\n")[0]:
            assert "The end." in "\n".join(told), size
        ends |= {told[-1].rpartition(": ")[2]}
        if b'"type":"user"' in kept.rpartition(b"\n")[0]:
            api.replies[:] = [said("Again.")]
            go_on(chat, api, monkeypatch)
    assert ends == {"The end.", TOO_LARGE}


def test_a_command_that_fills_the_disk_is_told_to_the_model(
    chat: ChatProcess, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.replies[:] = [bash("head -c 200000 /dev/zero | tr '\\0' x"), said("Full.")]
    for name, value in chat.environment.items():
        monkeypatch.setenv(name, value)
    with files_of_at_most(100_000):
        assert ask(chat, "hello") == ["Full."]
    [answer] = api.requests[1].body["messages"][-1]["content"]
    assert answer["is_error"]
    go_on(chat, api, monkeypatch)


def test_what_is_printed_is_one_result_for_programs_too(
    chat: ChatProcess, api: ScriptedApi
) -> None:
    api.replies[:] = [refused(401, "invalid x-api-key")]
    told = chat.run("-p", "hello", *NEW, "--output-format", "json")
    result = json.loads(told.out)
    assert (told.code, result["is_error"], told.err) == (1, True, "")
