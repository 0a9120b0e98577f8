"""Facts that sessions record besides the conversation, in each command that shows or finds them."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from support.build import (
    SESSION,
    START,
    Fields,
    assistant,
    call,
    compaction,
    nth,
    result,
    session,
    stamp,
    system,
    text,
    user,
)

SLUG = "reactive-imagining-pony"
SELECTED = "<ide_selection>The user selected the lines 78 to 78</ide_selection>"
WAITED: Fields = {"timestamp": stamp(START + timedelta(seconds=95))}


@pytest.fixture
def path(project: Path) -> Path:
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(
        session(
            user([text(SELECTED), text("implement it")], permission_mode="acceptEdits", slug=SLUG),
            assistant(
                call("Read", {"file_path": "e:\\proj\\main.py"}, "A"),
                message_id="m1",
                message={"stop_reason": "tool_use"},
            ),
            result("A", "needle", tool_use_result={"file": {"numLines": 1}}, **WAITED),
            assistant(
                text("half an answ"),
                message_id="m2",
                message={"stop_reason": "max_tokens"},
                **WAITED,
            ),
            system("turn_duration", duration_ms=5200, **WAITED),
            system("local_command", content="<command-name>/usage</command-name>", **WAITED),
            system(
                "local_command",
                content="<local-command-stdout>spent 10%</local-command-stdout>",
                **WAITED,
            ),
            *compaction("So far.", logical_parent_uuid=nth(7), **WAITED),
            assistant(text("No response requested."), message={"model": "<synthetic>"}, **WAITED),
        )
    )
    return path


def asked(turnlog: Run, *arguments: str) -> Any:
    return json.loads(turnlog(*arguments, "--json").out)


def rows(turnlog: Run, query: str) -> list[dict[str, Any]]:
    return asked(turnlog, "sql", query)


def hits(turnlog: Run, *query: str) -> list[tuple[str, str]]:
    found = asked(turnlog, "search", *query)
    return [
        (hit["kind"], hit["text"])
        for each in found
        for turn in each["turns"]
        for hit in turn["hits"]
    ]


def test_search_finds_what_the_editor_told_the_model(path: Path, turnlog: Run) -> None:
    assert hits(turnlog, "lines 78") == [("note", "The user selected the lines 78 to 78")]


def test_search_finds_local_commands_and_what_they_printed(path: Path, turnlog: Run) -> None:
    assert hits(turnlog, "/usage") == [("note", "/usage")]
    assert hits(turnlog, "spent") == [("note", "spent 10%")]


def test_search_does_not_take_a_filler_of_the_client_for_an_answer(
    path: Path, turnlog: Run
) -> None:
    assert hits(turnlog, "response requested") == [("note", "No response requested.")]
    assert turnlog("search", "response requested", "--kind", "answer").code == 1


@pytest.mark.parametrize(
    "name", ["main.py", "proj\\main.py", "proj/main.py", "e:\\proj\\main.py", "e:/proj/main.py"]
)
def test_search_by_file_takes_either_separator(path: Path, turnlog: Run, name: str) -> None:
    assert hits(turnlog, "needle", "--file", name) == [("result", "needle")]


def test_search_by_file_wants_whole_names(path: Path, turnlog: Run) -> None:
    assert turnlog("search", "needle", "--file", "ain.py").code == 1


def test_search_by_file_with_backslashes_finds_a_posix_path(project: Path, turnlog: Run) -> None:
    read = assistant(call("Read", {"file_path": "/home/ada/shop/till.py"}, "A"))
    (project / f"{SESSION}.jsonl").write_bytes(session(user("q"), read, result("A", "needle")))
    assert hits(turnlog, "needle", "--file", "shop\\till.py") == [("result", "needle")]


def test_the_nickname_names_the_session(path: Path, turnlog: Run) -> None:
    assert f"session {SESSION} · {SLUG} · " in turnlog("show", SLUG).out
    assert turnlog("turns", "imagining").code == 0
    (row,) = asked(turnlog, "ls")
    assert row["slug"] == SLUG


def test_search_finds_the_nickname_once(path: Path, turnlog: Run) -> None:
    again = session(user("more", slug=SLUG, uuid=nth(90), parent=nth(4)))
    path.write_bytes(path.read_bytes() + again)
    assert hits(turnlog, SLUG) == [("title", SLUG)]


def test_the_index_has_compactions_modes_stop_reasons_and_nicknames(
    path: Path, turnlog: Run
) -> None:
    assert rows(turnlog, "SELECT line, trigger, pre_tokens FROM compactions") == [
        {"line": 8, "trigger": "manual", "pre_tokens": 1000}
    ]
    assert rows(turnlog, "SELECT permission_mode, working FROM prompts") == [
        {"permission_mode": "acceptEdits", "working": 5.2}
    ]
    reasons = rows(turnlog, "SELECT stop_reason FROM messages ORDER BY line")
    assert [row["stop_reason"] for row in reasons] == ["tool_use", "max_tokens"]
    assert rows(turnlog, "SELECT slug FROM files") == [{"slug": SLUG}]


def test_inspect_counts_stop_reasons_by_line_and_by_message(path: Path, turnlog: Run) -> None:
    again = assistant(text("…"), message_id="m2", message={"stop_reason": "max_tokens"})
    path.write_bytes(path.read_bytes() + session(again))
    assert asked(turnlog, "inspect", SESSION)["stop_reasons"] == {
        "max_tokens": {"lines": 2, "messages": 1},
        "tool_use": {"lines": 1, "messages": 1},
        "(none)": {"lines": 1, "messages": 1},
    }
    rows = [line.split() for line in turnlog("inspect", SESSION).out.splitlines()]
    assert ["2", "1", "max_tokens"] in rows


def test_inspect_reproduces_the_documented_counts_of_a_streamed_session(
    project: Path, turnlog: Run
) -> None:
    """The counts of session 945090a1, whose client wrote lines without a stop reason."""
    documented = {"end_turn": 19, "tool_use": 179, "stop_sequence": 1, None: 267}
    reasons = [reason for reason, count in documented.items() for _ in range(count)]
    uses = [call("Read", {}, f"t{n}") for n in range(257)]
    blocks = [*(text("a") for _ in range(466 - 257)), *uses]
    said = [
        assistant(block, message_id=f"m{n // 3}", message={"stop_reason": reason})
        for n, (reason, block) in enumerate(zip(reasons, blocks, strict=True))
    ]
    nested = [text("x"), call("Read")]
    answers = [result(use["id"], nested, tool_use_result={"content": nested}) for use in uses]
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(session(*said, *answers))
    report = asked(turnlog, "inspect", SESSION)
    assert report["kinds"]["assistant"]["count"] == 466
    lines = {reason: counts["lines"] for reason, counts in report["stop_reasons"].items()}
    assert lines == {"(none)": 267, "tool_use": 179, "end_turn": 19, "stop_sequence": 1}
    blocks_counted = {name: each["count"] for name, each in report["blocks"].items()}
    assert blocks_counted == {"tool_use": 257, "tool_result": 257, "text": 466 - 257}
    assert report["tools"]["Read"]["count"] == 257


def test_tree_tells_what_started_a_compaction(path: Path, turnlog: Run) -> None:
    assert "── compacted (manual, 1,000 tokens before) ──" in turnlog("tree", SESSION).out
    stone = asked(turnlog, "tree", SESSION)[-1]
    assert (stone["trigger"], stone["pre_tokens"]) == ("manual", 1000)


def test_calls_as_json_names_entries_and_has_the_tools_own_result(path: Path, turnlog: Run) -> None:
    (found,) = asked(turnlog, "calls", SESSION)
    places = [found[name] for name in ("line", "uuid", "result_line", "result_uuid")]
    assert places == [2, nth(2), 3, nth(3)]
    assert found["tool_use_result"] == {"file": {"numLines": 1}}


def test_the_tools_own_result_is_masked_by_the_names_of_its_fields(
    project: Path, turnlog: Run
) -> None:
    held = {"api_key": "Zk3pQ9vT1xB7mN5cR8wL2sYd"}
    lines = user("q"), assistant(call("mcp__x", {}, "A")), result("A", tool_use_result=held)
    (project / f"{SESSION}.jsonl").write_bytes(session(*lines))
    for command in ("calls", "turns"):
        assert held["api_key"] not in turnlog(command, SESSION, "--json").out
        assert held["api_key"] in turnlog(command, SESSION, "--json", "--reveal").out


DEFAULT_ROUNDS = ["new_session", "new_round", "resume"]


def marked_round(row: str) -> str:
    """Return the round that a row of text is marked with; `new_round` is not marked."""
    marked = [mark for mark in ("new_session", "resume") if mark.replace("_", " ") in row]
    return marked[0] if marked else "new_round"


@pytest.mark.parametrize(
    ("threshold", "rounds"),
    [
        ((), DEFAULT_ROUNDS),
        (("--resumed-after", "90"), ["new_session", "new_round", "new_round"]),
        (("--resumed-after", "0.5"), ["new_session", "resume", "resume"]),
    ],
)
def test_the_silence_that_makes_a_turn_a_resume_can_be_set(
    project: Path, turnlog: Run, threshold: tuple[str, ...], rounds: list[str]
) -> None:
    after = [stamp(START + timedelta(minutes=minutes)) for minutes in (0, 1, 61)]
    lines = (user(f"at {time}", timestamp=time) for time in after)
    (project / f"{SESSION}.jsonl").write_bytes(session(*lines))
    turns = asked(turnlog, "turns", SESSION, *threshold)
    assert [turn["round"] for turn in turns] == rounds
    for _ in range(2):  # the second time from the node table
        _, *listed = turnlog("turns", SESSION, *threshold).out.splitlines()
        assert [marked_round(row) for row in listed] == rounds
    shown = turnlog("show", SESSION).out.splitlines()
    assert [marked_round(row) for row in shown if " ❯ " in row] == DEFAULT_ROUNDS


def test_a_turn_takes_the_same_time_everywhere(path: Path, turnlog: Run, tmp_path: Path) -> None:
    (turn,) = asked(turnlog, "turns", SESSION)
    assert (turn["working_ms"], turn["elapsed_ms"]) == (5200, 94_000)
    assert "── turn 1 · 5s working, 1m 34s elapsed · " in turnlog("show", SESSION).out
    rows = turnlog("trace", SESSION, "--dry-run").out.splitlines()
    assert next(row for row in rows if "Turn 1" in row).split()[-2:] == ["94.000s", "5s"]
    span = asked(turnlog, "trace", SESSION, "--dry-run")[0]
    assert (span["working_ms"], span["elapsed_ms"]) == (5200, 94_000)
    total = asked(turnlog, "stats", "session")["total"]
    assert (total["seconds"], total["elapsed_seconds"]) == (5.2, 94)
