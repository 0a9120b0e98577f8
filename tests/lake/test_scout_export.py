"""Transcripts for inspect_scout; tests/backends/scout.py runs its scanners on them."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.build import SESSION, assistant, call, result, session, text, thinking, user
from support.lake_machines import PushingMachine
from turnlog.errors import Conflict, NotFound
from turnlog.lake.lake_schema import pyarrow
from turnlog.lake.scout_export import export_scout

CHAT = session(
    user("Fix the shop"),
    assistant(thinking("Hm"), message_id="msg_1"),
    assistant(text("I look"), message_id="msg_1"),
    assistant(call("Bash", {"command": "ls"}, "toolu_1"), message_id="msg_1"),
    result("toolu_1", "a.py"),
    assistant(text("Done"), message_id="msg_2"),
)


@pytest.fixture
def machine(tmp_path: Path) -> PushingMachine:
    found = PushingMachine(tmp_path / "ada", str(tmp_path / "lake"), consents=frozenset({"texts"}))
    found.write(CHAT)
    return found


def transcripts(dest: str, folder: Path) -> list[dict[str, Any]]:
    return pyarrow("parquet").read_table(export_scout(dest, folder).path).to_pylist()


def test_blocks_of_an_answer_are_one_message(machine: PushingMachine, tmp_path: Path) -> None:
    machine.push()
    (row,) = transcripts(machine.dest, tmp_path / "out")
    prompt, answer, output, end = json.loads(row["messages"])
    assert prompt == {"role": "user", "content": "Fix the shop"}
    assert answer["content"] == [
        {"type": "reasoning", "reasoning": "Hm"},
        {"type": "text", "text": "I look"},
    ]
    (use,) = answer["tool_calls"]
    assert use["arguments"] == {"command": "ls"}
    assert output == {
        "role": "tool",
        "content": "a.py",
        "tool_call_id": use["id"],
        "function": "Bash",
    }
    assert end["content"] == [{"type": "text", "text": "Done"}]


def test_a_transcript_has_the_figures_of_its_session(
    machine: PushingMachine, tmp_path: Path
) -> None:
    machine.push()
    (row,) = transcripts(machine.dest, tmp_path / "out")
    assert (row["source_id"], row["task_set"], row["user_name"]) == (SESSION, "shop", "ada")
    assert (row["message_count"], row["total_tokens"]) == (2, 60)
    assert row["date"] == "2026-11-15T06:00:01.000000Z"


def test_superseded_texts_are_left_out(machine: PushingMachine, tmp_path: Path) -> None:
    machine.push()
    machine.write(session(user("Forget it")))
    machine.push()
    (row,) = transcripts(machine.dest, tmp_path / "out")
    assert json.loads(row["messages"]) == [{"role": "user", "content": "Forget it"}]


def test_an_export_is_not_replaced_unasked(machine: PushingMachine, tmp_path: Path) -> None:
    machine.push()
    export_scout(machine.dest, tmp_path)
    with pytest.raises(Conflict):
        export_scout(machine.dest, tmp_path)
    assert export_scout(machine.dest, tmp_path, again=True).transcripts == 1


def test_an_empty_lake_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="has no sessions"):
        export_scout(str(tmp_path / "lake"), tmp_path)


def test_a_lake_without_texts_has_transcripts_without_messages(tmp_path: Path) -> None:
    machine = PushingMachine(tmp_path / "ada", str(tmp_path / "lake"))
    machine.write(CHAT)
    machine.push()
    done = export_scout(machine.dest, tmp_path / "out")
    assert (done.transcripts, done.messages) == (1, 0)
