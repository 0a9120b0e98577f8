"""Keys while something runs: move it to the background, send queued prompts at once."""

import json
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.scripted_api import Reply, ScriptedApi, called, said
from support.tmux import Pane, isolate_terminal, needs_tmux, terminal
from turnlog.conversation.session import open_session
from turnlog.edit.check.checks import check_session
from turnlog.format.json_values import Fields, is_array
from turnlog.store.paths import Store

pytestmark = needs_tmux

Start = Callable[..., AbstractContextManager[Pane]]
WAITING = "echo begun; while [ ! -e go ]; do sleep 0.05; done; echo the end"
WAIT = {"command": WAITING, "description": "Wait"}
UNASKED = ("--permission-mode", "bypassPermissions")


@pytest.fixture
def start(
    api: ScriptedApi, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Start:
    """Starts a chat in a terminal."""
    isolate_terminal(monkeypatch, tmp_path)
    monkeypatch.setenv("IS_SANDBOX", "1")

    @contextmanager
    def run(*options: str) -> Generator[Pane]:
        command = [sys.executable, "-m", "turnlog", "chat", *options]
        with terminal(command, project, 100, 30) as pane:
            pane.see("% of")
            yield pane

    return run


def entries(store: Store) -> list[dict[str, Any]]:
    """The lines of the only session, in which nothing is amiss."""
    (path,) = store.session_files()
    assert [finding.message for finding in check_session(open_session(path))] == []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def result(store: Store, call_id: str) -> tuple[str, Any]:
    """Return the result of a call: the text for the model, and the recorded data."""
    for entry in entries(store):
        content: Any = entry["message"]["content"] if "message" in entry else None
        if is_array(content) and content[0].get("tool_use_id") == call_id:
            return content[0]["content"], entry["toolUseResult"]
    raise AssertionError(f"no result of {call_id}")


def queue(store: Store) -> list[str]:
    return [line["operation"] for line in entries(store) if line["type"] == "queue-operation"]


def test_a_command_goes_on_in_the_background(
    start: Start, api: ScriptedApi, store: Store, project: Path
) -> None:
    api.replies[:] = [called(("t1", "Bash", WAIT)), said("Went on."), said("It is told.")]
    with start(*UNASKED) as pane:
        pane.say("wait")
        pane.see("    begun")
        pane.keys("C-b")
        pane.see("in the background", "Went on.")
        text, data = result(store, "t1")
        name = data["backgroundTaskId"]
        assert data["backgroundedByUser"] is True
        assert text.startswith(f"Command was manually backgrounded by user with ID: {name}. ")
        (project / "go").touch()
        pane.see("It is told.")
        api.replies[:] = [called(("t2", "TaskOutput", {"task_id": name})), said("Read.")]
        pane.say("what did it print?")
        pane.see("Read.")
    assert "<output>\nbegun\nthe end\n</output>" in result(store, "t2")[0]


def test_a_sub_agent_goes_on_in_the_background(
    start: Start, api: ScriptedApi, store: Store, project: Path
) -> None:
    agent = {"description": "Look", "prompt": "background work", "subagent_type": "general-purpose"}
    work = [called(("t2", "Bash", WAIT)), said("Report.")]
    talk = [called(("t1", "Agent", agent)), said("Went on."), said("It is told.")]

    def choose(body: Fields) -> Reply:
        is_agent = "background work" in json.dumps(body["messages"][0])
        return (work if is_agent else talk).pop(0)

    api.choose = choose
    with start(*UNASKED) as pane:
        pane.say("look")
        pane.see("○ Agent Look", "Bash echo begun")
        pane.keys("C-x", "C-b")
        pane.see("Went on.")
        assert result(store, "t1")[1]["status"] == "async_launched"
        (project / "go").touch()
        pane.see("It is told.")
    (notice,) = [
        line["message"]["content"]
        for line in entries(store)
        if line["type"] == "user" and "<task-notification>" in str(line["message"]["content"])
    ]
    assert "<status>completed</status>" in notice
    assert "<result>Report.</result>" in notice


def test_without_anything_running_the_key_goes_back_by_a_character(start: Start) -> None:
    with start() as pane:
        pane.type("ac")
        pane.keys("C-b")
        pane.type("b")
        pane.see("❯ abc")


def test_what_is_queued_is_sent_while_the_command_goes_on(
    start: Start, api: ScriptedApi, store: Store, project: Path
) -> None:
    api.replies[:] = [called(("t1", "Bash", WAIT)), said("Both seen.")]
    with start(*UNASKED) as pane:
        pane.say("wait")
        pane.see("    begun")
        pane.say("one more")
        pane.say("and another")
        pane.see("and another  queued", "ctrl-x ctrl-s to send now")
        pane.keys("C-x", "C-s")
        pane.see("Both seen.")
        assert not (project / "go").exists()
        assert result(store, "t1")[1]["backgroundedToDeliverMessage"] is True
        assert "was not interrupted" in result(store, "t1")[0]
    sent = json.dumps(api.requests[-1].body["messages"])
    assert sent.index("moved to the background") < sent.index("one more") < sent.index("another")
    assert queue(store) == ["enqueue", "enqueue", "remove", "remove"]


def test_escape_sends_what_is_queued_at_once_in_one_turn(
    start: Start, api: ScriptedApi, store: Store
) -> None:
    api.replies[:] = [called(("t1", "Bash", WAIT)), said("Both seen.")]
    with start(*UNASKED) as pane:
        pane.say("wait")
        pane.see("    begun")
        pane.say("stop that")
        pane.say("do this")
        pane.see("do this  queued")
        pane.type("a draft")
        pane.keys("Escape")
        pane.see("Both seen.", "❯ a draft")
    assert len(api.requests) == 2
    sent = json.dumps(api.requests[-1].body["messages"])
    assert sent.index("interrupted by user") < sent.index("stop that") < sent.index("do this")
    assert queue(store)[:2] == ["enqueue", "enqueue"]


def test_a_command_of_the_user_goes_on_in_the_background(start: Start, api: ScriptedApi) -> None:
    api.replies[:] = [said("Seen.")]
    with start() as pane:
        pane.say(f"!{WAITING}")
        pane.see("    begun")
        pane.keys("C-b")
        pane.see("Seen.")
    assert "manually backgrounded by user" in json.dumps(api.requests[-1].body["messages"])
