"""turnlog replay, in this process and as one that serves."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from build import SESSION, assistant, call, result, session, text, user
from cli.conftest import Run
from planted import BARE

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


def test_a_session_without_answers_is_told(project: Path, turnlog: Run) -> None:
    (project / f"{SESSION}.jsonl").write_bytes(session(user("hi")))
    assert turnlog("replay", "last").code == 1


def test_it_serves_until_it_is_stopped(project: Path) -> None:
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(session(*TALK))
    serving = subprocess.Popen(
        [sys.executable, "-m", "turnlog", "replay", str(path), "--serve"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert serving.stdout
    url = serving.stdout.readline().strip()
    body = json.dumps({"messages": [{"role": "user", "content": "other"}]}).encode()
    with urllib.request.urlopen(f"{url}/v1/messages", body) as answer:
        assert json.load(answer)["id"] == "m1"
    serving.send_signal(signal.SIGINT)
    _, told = serving.communicate(timeout=20)
    assert "request 1 of main differs" in told
    assert "Traceback" not in told
