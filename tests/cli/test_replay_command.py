"""turnlog replay, in this process and as a server."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from cli.conftest import Run
from support.build import SESSION, assistant, call, result, session, text, user
from support.planted import BARE

SECRET = BARE[0].value
TALK = (
    user("hi"),
    assistant(text("I look"), message_id="m1"),
    assistant(call("Bash"), message_id="m1", message={"stop_reason": "tool_use"}),
    result("toolu_1"),
    assistant(text(f"it is {SECRET} now"), message={"stop_reason": "end_turn"}),
)


def test_without_serving_the_answers_are_listed(project: Path, turnlog: Run) -> None:
    (project / f"{SESSION}.jsonl").write_bytes(session(*TALK))
    printed = turnlog("replay", "last")
    assert [row.split() for row in printed.out.splitlines()] == [
        ["conversation", "answer", "content", "stop", "reason"],
        ["main", "1", "I", "look", "[Bash]", "tool_use"],
        ["main", "2", "it", "is", *printed.out.splitlines()[2].split()[4:-1], "end_turn"],
    ]
    assert SECRET not in printed.out


def test_answers_are_listed_as_json(project: Path, turnlog: Run) -> None:
    (project / f"{SESSION}.jsonl").write_bytes(session(*TALK))
    first, second = json.loads(turnlog("replay", "last", "--json", "--reveal").out)
    assert (first["conversation"], first["n"], first["message"]["id"]) == ("main", 1, "m1")
    assert SECRET in second["message"]["content"][0]["text"]


def test_options_for_serving_want_it(project: Path, turnlog: Run) -> None:
    (project / f"{SESSION}.jsonl").write_bytes(session(*TALK))
    assert turnlog("replay", "last", "--strict").code == 2
    assert turnlog("replay", "last", "--key", "k").code == 2


def test_a_session_without_answers_is_told(project: Path, turnlog: Run) -> None:
    (project / f"{SESSION}.jsonl").write_bytes(session(user("hi")))
    assert turnlog("replay", "last").code == 1


@contextmanager
def serving(path: Path, *options: str, **variables: str) -> Generator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-m", "turnlog", "replay", str(path), "--serve", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"} | variables,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def printed_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def ask(url: str, headers: dict[str, str]) -> int:
    """The status of a request."""
    body = json.dumps({"messages": [{"role": "user", "content": "other"}]}).encode()
    request = urllib.request.Request(f"{url}/v1/messages", body, headers)
    try:
        with urllib.request.urlopen(request) as answer:
            assert json.load(answer)["id"] == "m1"
            return 200
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_it_serves_until_it_is_stopped(project: Path) -> None:
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(session(*TALK))
    with serving(path) as process:
        url, key = printed_line(process), printed_line(process)
        assert ask(url, {"x-api-key": key}) == 200
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)
    assert "request 1 of main differs" in told
    assert "Traceback" not in told


def test_who_does_not_know_the_key_gets_no_answer(project: Path) -> None:
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(session(*TALK))
    with serving(path) as process:
        url, key = printed_line(process), printed_line(process)
        others = ["", "none", key[:-1], f"{key}x", key.upper(), "\xe9"]
        assert {ask(url, {"x-api-key": other}) for other in others} == {401}
        assert ask(url, {}) == 401
        assert ask(url, {"Authorization": f"Basic {key}"}) == 401
        assert ask(url, {"Authorization": f"Bearer {key}"}) == 200
    with serving(path) as process:
        assert printed_line(process) != url
        assert printed_line(process) != key, "every server has a key of its own"


def test_the_key_can_be_chosen(project: Path) -> None:
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(session(*TALK))
    with serving(path, "--key", "none") as process:
        url = printed_line(process)
        assert printed_line(process) == "none"
        assert ask(url, {"x-api-key": "none"}) == 200
    with serving(path, TURNLOG_REPLAY_KEY="mine") as process:
        url = printed_line(process)
        assert ask(url, {"x-api-key": "none"}) == 401
        assert ask(url, {"x-api-key": "mine"}) == 200
