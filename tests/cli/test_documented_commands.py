"""Output of commands for a session that follows public documents of the format."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from support.build import (
    SESSION,
    Fields,
    assistant,
    call,
    compaction,
    line,
    nth,
    result,
    session,
    text,
    thinking,
    user,
)
from turnlog.conversation.calls import Detail
from turnlog.render.tool_views import outcome_of

ID = SESSION[:8]
CWD = "z:\\project\\AI-云"
NOTED: Fields = {"messageId": nth(3), "timestamp": "2026-11-15T05:59:00.000Z"}
BOUNDARY, SUMMARY = compaction("So far, the lighthouse.", logical_parent_uuid=nth(8))


def lines(**fields: Any) -> tuple[bytes, ...]:
    return (
        line("queue-operation", operation="dequeue", timestamp="2026-11-15T05:58:00.000Z"),
        line("file-history-snapshot", messageId=nth(3), snapshot=NOTED, isSnapshotUpdate=False),
        user([text("look"), text("around")], version="2.0.37", **fields),
        assistant(thinking("a harbour", ""), text("I look"), message_id="m1", **fields),
        assistant(call("Read", {"file_path": "/a"}), message_id="m1", **fields),
        result("toolu_1", "x", **fields),
        assistant(text("seen"), message_id="m2", **fields),
        user("<local-command-caveat>ran by itself</local-command-caveat>", is_meta=True, **fields),
        BOUNDARY,
        SUMMARY,
        user("go on", **fields),
        assistant(text("gone on"), message_id="m3", **fields),
    )


@pytest.fixture
def path(project: Path) -> Path:
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(session(*lines()))
    return path


@pytest.mark.usefixtures("path")
def test_entries_tells_kinds_times_and_texts(turnlog: Run) -> None:
    rows = [json.loads(row) for row in turnlog("entries", ID, "--json").out.splitlines()]
    assert [row["kind"] for row in rows[:3]] == [
        "queue-operation",
        "file-history-snapshot",
        "user",
    ]
    assert rows[1]["timestamp"] == NOTED["timestamp"]
    assert (rows[8]["type"], rows[8]["subtype"]) == ("system", "compact_boundary")
    _, *printed = turnlog("entries", ID).out.splitlines()
    assert "dequeue" in printed[0]
    assert "Conversation compacted" in printed[8]


@pytest.mark.usefixtures("path")
def test_inspect_counts_lines_versions_kinds_blocks_and_tools(turnlog: Run) -> None:
    report = json.loads(turnlog("inspect", ID, "--json").out)
    assert report["lines"] == len(lines())
    assert report["versions"] == {"2.0.37": 1, "2.1.325": 9}
    counted = {
        name: {kind: each["count"] for kind, each in report[name].items()}
        for name in ("kinds", "blocks", "tools")
    }
    assert counted == {
        "kinds": {
            "assistant": 4,
            "user": 5,
            "queue-operation": 1,
            "file-history-snapshot": 1,
            "system/compact_boundary": 1,
        },
        "blocks": {"text": 5, "thinking": 1, "tool_use": 1, "tool_result": 1},
        "tools": {"Read": 1},
    }


@pytest.mark.usefixtures("path")
def test_turns_of_people_are_counted(turnlog: Run) -> None:
    assert len(json.loads(turnlog("turns", ID, "--json").out)) == 2
    (row,) = json.loads(turnlog("stats", "session", "--json").out)["rows"]
    assert (row["turns"], row["calls"]) == (2, 1)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(("kind", "word"), [("summary", "lighthouse"), ("thinking", "harbour")])
def test_summaries_and_thinking_are_found_by_kind(turnlog: Run, kind: str, word: str) -> None:
    assert turnlog("search", word, "--kind", kind).code == 0
    assert turnlog("search", word, "--kind", "prompt").code == 1


@pytest.mark.usefixtures("path")
def test_a_compaction_is_told_by_show_and_tree(turnlog: Run) -> None:
    assert "the conversation was compacted here" in turnlog("show", ID).out
    assert "compacted" in turnlog("tree", ID).out
    assert "lighthouse" not in turnlog("show", ID).out
    assert "lighthouse" in turnlog("show", ID, "--full").out


def test_the_last_of_several_summaries_is_the_title(project: Path, turnlog: Run) -> None:
    titles = [line("summary", summary=title, leaf_uuid=nth(1)) for title in ("Early", "Late")]
    (project / f"{SESSION}.jsonl").write_bytes(session(user("q"), *titles))
    (row,) = json.loads(turnlog("ls", "--json").out)
    assert row["title"] == "Late"


def test_ls_lists_a_directory_of_another_system(project: Path, turnlog: Run) -> None:
    (project / f"{SESSION}.jsonl").write_bytes(session(*lines(cwd=CWD)))
    assert turnlog("ls").out.splitlines()[1] == CWD


def test_ls_names_the_command_that_resumes_unless_every_row_does(
    project: Path, turnlog: Run
) -> None:
    (project / f"{SESSION}.jsonl").write_bytes(session(*lines(cwd=CWD)))
    assert "resume the last one: " in turnlog("ls").err
    assert "resume the last one: " not in turnlog("ls", "--long").err


def test_branches_are_told_apart_and_an_empty_one_is_none(project: Path, turnlog: Run) -> None:
    (project / f"{SESSION}.jsonl").write_bytes(session(*lines(git_branch="")))
    assert turnlog("search", "harbour", "--branch", "main").code == 1
    (row,) = json.loads(turnlog("stats", "branch", "--json").out)["rows"]
    assert not row["branch"]
    (project / f"{SESSION}.jsonl").write_bytes(session(*lines(git_branch="main")))
    assert turnlog("search", "harbour", "--branch", "main").code == 0


def test_a_read_result_of_an_old_shape_is_named_by_its_type() -> None:
    assert outcome_of("Read", Detail({}, "x", {"type": "file", "file": "main.py"})) == "file"
