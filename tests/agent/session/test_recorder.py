"""Recorded entries, and crashes: a session cut off at any byte can be resumed."""

import json
from pathlib import Path

import pytest

from support.chatting import FACTS, SESSION
from turnlog.agent.hooks.hook_entries import DEFERRED
from turnlog.agent.session.entry_builders import STOPPED, new_agent_id, new_slug
from turnlog.agent.session.recorder import Recorder
from turnlog.agent.session.resume import continue_session, reopen
from turnlog.agent.workspace.tool import ToolOutcome
from turnlog.conversation.session import Session, open_session
from turnlog.edit.check.checks import check_session
from turnlog.errors import NotFound
from turnlog.format.json_values import Fields

MESSAGE: Fields = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-5-5",
    "stop_reason": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
CALL: Fields = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
TEXT: Fields = {"type": "text", "text": "Look."}
THOUGHT: Fields = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "project" / f"{SESSION}.jsonl", FACTS, lambda: tmp_path)


def a_turn(recorder: Recorder, n: int = 1) -> None:
    """A prompt, an answer with a call, its result, and another answer."""
    call, message = f"t{n}", MESSAGE | {"id": f"msg_{n}"}
    recorder.prompt("list files", "default", "typed")
    recorder.block(message, TEXT, 0, "req_1")
    recorder.block(message, CALL | {"id": call}, 1, "req_1")
    recorder.settle()
    recorder.progress({"type": "bash_progress", "output": "a"}, "bash-progress-0", call)
    recorder.result(call, ToolOutcome("a.txt", {"stdout": "a.txt", "stderr": ""}))
    recorder.block(message | {"id": f"msg_{n}b"}, TEXT, 0, "req_2")
    recorder.settle()
    recorder.turn_duration(1.5)
    recorder.tip("list files")


def lines_of(recorder: Recorder) -> list[Fields]:
    return [json.loads(raw) for raw in recorder.path.read_bytes().splitlines()]


def opened(recorder: Recorder) -> Session:
    session = open_session(recorder.path)
    assert [finding.message for finding in check_session(session)] == []
    return session


def test_a_turn_is_one_straight_chain(recorder: Recorder) -> None:
    a_turn(recorder)
    chain = [entry for entry in lines_of(recorder) if entry.get("type") in ("user", "assistant")]
    assert [entry["parentUuid"] for entry in chain] == [
        None,
        *(entry["uuid"] for entry in chain[:-1]),
    ]
    assert len(opened(recorder).context()) == 4


def test_a_result_names_the_line_of_its_call(recorder: Recorder) -> None:
    a_turn(recorder)
    entries = {entry["uuid"]: entry for entry in lines_of(recorder) if "uuid" in entry}
    (result,) = [entry for entry in entries.values() if "toolUseResult" in entry]
    source = entries[result["sourceToolAssistantUUID"]]
    assert source["message"]["content"] == [CALL]


def test_nothing_follows_on_news_of_a_call(recorder: Recorder) -> None:
    a_turn(recorder)
    entries = lines_of(recorder)
    (news,) = [entry for entry in entries if entry["type"] == "progress"]
    assert news["uuid"] not in [entry.get("parentUuid") for entry in entries]
    assert news["parentToolUseID"] == "t1"


def test_every_line_says_where_and_when(tmp_path: Path, recorder: Recorder) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/topic\n")
    entry = recorder.prompt("go", "plan", "typed")
    told = ("sessionId", "cwd", "gitBranch", "slug", "entrypoint", "permissionMode", "isSidechain")
    assert [entry[name] for name in told] == [
        SESSION,
        str(tmp_path),
        "topic",
        "calm-teal-hopper",
        "cli",
        "plan",
        False,
    ]


def test_only_its_owner_can_read_a_session(recorder: Recorder) -> None:
    recorder.prompt("go", "default", "typed")
    assert recorder.path.stat().st_mode & 0o777 == 0o600


def test_a_message_that_broke_off_is_a_branch_that_ends(recorder: Recorder) -> None:
    recorder.prompt("go", "default", "typed")
    recorder.block(MESSAGE, TEXT, 0, "req_1")
    recorder.block(MESSAGE, CALL, 1, "req_1")
    recorder.abandon()
    recorder.block(MESSAGE | {"id": "msg_2"}, {"type": "text", "text": "Whole."}, 0, "req_2")
    recorder.settle()
    assert recorder.open_calls == []
    said = [message["content"][-1]["text"] for message in opened(recorder).context()]
    assert said == ["go", "Whole."]


def test_an_answer_of_nothing_but_thinking_is_left_out(recorder: Recorder) -> None:
    recorder.prompt("go", "default", "typed")
    recorder.block(MESSAGE, THOUGHT, 0, "req_1")
    recorder.settle()
    recorder.interruption(STOPPED)
    roles = [message["role"] for message in opened(recorder).context()]
    assert roles == ["user", "assistant"]


def test_a_compaction_starts_anew_and_keeps_the_old_lines(recorder: Recorder) -> None:
    a_turn(recorder)
    tip = recorder.leaf
    boundary, summary = recorder.compaction("Files were listed.", "list files", "manual", {}, [])
    assert (boundary["parentUuid"], boundary["logicalParentUuid"]) == (None, tip)
    assert summary["parentUuid"] == boundary["uuid"]
    session = opened(recorder)
    assert session.context()[0]["content"][0]["text"] == "Files were listed."
    assert len(session.history()) > 4


def test_half_of_a_surrogate_pair_is_written(recorder: Recorder) -> None:
    recorder.prompt("\ud83d", "default", "typed")
    assert lines_of(recorder)[0]["message"]["content"] == "\ud83d"


def test_a_crash_at_any_byte_leaves_a_session_that_goes_on(recorder: Recorder) -> None:
    a_turn(recorder)
    recorder.compaction("Files were listed.", "list files", "manual", {}, [])
    a_turn(recorder, 2)
    whole = recorder.path.read_bytes()
    ends = [place for place, byte in enumerate(whole) if byte == 10]
    places = sorted({*ends, *(end + 1 for end in ends), *range(5, len(whole), 97)})
    for place in places:
        recorder.path.write_bytes(whole[:place])
        again = Recorder(recorder.path, FACTS, recorder.where)
        try:
            continue_session(again, reopen(again.path))
        except NotFound:
            assert place < ends[0] + 1
            continue
        again.prompt("on", "default", "typed")
        session = open_session(again.path)
        found = {finding.kind for finding in check_session(session) if finding.is_serious}
        assert found <= {"unreadable-line"}, place
        last = session.context()[-2 if session.context()[-1]["role"] == "assistant" else -1]
        assert last["content"][-1]["text"] == "on"


def test_names_are_of_the_usual_kinds() -> None:
    assert len(new_slug().split("-")) == 3
    name = new_agent_id()
    assert (name[0], len(name), int(name[1:], 16) >= 0) == ("a", 17, True)


def test_deferred_call_with_a_result_is_not_run_again(recorder: Recorder) -> None:
    recorder.prompt("list files", "default", "typed")
    recorder.block(MESSAGE, CALL, 0, "req_1")
    recorder.settle()
    recorder.follow({"type": "attachment", "attachment": {"type": DEFERRED, "toolUseID": "t1"}})
    assert recorder.take_deferred() == CALL
    recorder.result("t1", ToolOutcome("a.txt"))
    recorder.prompt("go on", "default", "typed")
    assert recorder.take_deferred() is None


@pytest.mark.parametrize("given", [{"id": ["t"]}, {"id": "t", "name": "Bash"}, {"id": "t"}])
def test_a_deferred_call_that_is_malformed_is_not_taken(given: Fields, recorder: Recorder) -> None:
    note = {"type": "hook_deferred_tool", "toolUseID": given["id"]}
    recorder.chain += [
        {"type": "assistant", "uuid": "a", "message": {"content": [{"type": "tool_use", **given}]}},
        {"type": "attachment", "uuid": "b", "attachment": note},
    ]
    assert recorder.take_deferred() is None
