"""The drift report: kinds and fields in files, and those that turnlog does not know."""

from pathlib import Path

import pytest
from hypothesis import given

from data.nasty import CASES, PATH
from support.build import (
    Fields,
    assistant,
    attachment,
    call,
    line,
    nth,
    result,
    session,
    system,
    text,
    user,
)
from support.strategies import damaged_files
from turnlog.format.kinds import KINDS
from turnlog.format.survey import (
    Survey,
    is_known_block,
    is_known_kind,
    is_known_tool,
    survey_file,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def survey(path: Path, *lines: bytes) -> Survey:
    path.write_bytes(session(*lines))
    return survey_file(path)


def unknown_fields(found: Survey) -> dict[str, int]:
    return {name: count for (name, known), count in found.count_fields().items() if not known}


def test_lines_bytes_kinds_and_versions_are_counted(path: Path) -> None:
    found = survey(
        path, user("a"), user("b", version="2.0.0"), system("turn_duration"), attachment("date")
    )
    assert (found.files, found.lines, found.bytes) == (1, 4, path.stat().st_size)
    assert found.kinds == {"user": 2, "system/turn_duration": 1, "attachment/date": 1}
    assert found.versions == {"2.1.325": 3, "2.0.0": 1}
    assert (found.problems, found.misfits) == ([], {})
    assert unknown_fields(found) == {}


def test_blocks_inside_results_are_not_counted_but_checked(path: Path) -> None:
    inner = [text("a"), call("Bash"), {"type": "hologram", "z": 1}]
    found = survey(
        path,
        assistant(text("x"), call("Bash"), call("mcp__shop__order")),
        result("t1", inner, tool_use_result={"agentId": "a1", "content": inner}),
    )
    assert found.blocks == {"text": 1, "tool_use": 2, "tool_result": 1}
    assert found.tools == {"Bash": 1, "mcp__shop__order": 1}
    assert unknown_fields(found)["block/hologram.z"] >= 1


def test_an_invented_type_is_reported_as_unknown(path: Path) -> None:
    found = survey(path, line("sparkle", glitter=1), user("hi"))
    assert found.kinds == {"sparkle": 1, "user": 1}
    assert [name for name in found.kinds if not is_known_kind(name)] == ["sparkle"]


def test_an_invented_field_is_reported_at_its_place(path: Path) -> None:
    found = survey(
        path,
        user("hi", glitter=1),
        user("hi", glitter=2),
        assistant({"type": "text", "text": "x", "shine": 1}, message={"usage": {"karat": 24}}),
        line("progress", data={"type": "bash_progress", "speed": 9}),
    )
    assert unknown_fields(found) == {
        "user.glitter": 2,
        "block/text.shine": 1,
        "assistant.message.usage.karat": 1,
        "progress/bash_progress.speed": 1,
    }


def test_invented_fields_of_inputs_and_results_are_reported(path: Path) -> None:
    found = survey(
        path,
        assistant(call("Bash", {"command": "ls", "sudo": True}), call("Hologram", {"any": 1})),
        result("t1", tool_use_result={"stdout": "", "stderr": "", "smell": "none"}),
        result("t2", tool_use_result={"any": 1}),
        result("t3", tool_use_result="Error"),
    )
    assert unknown_fields(found) == {"input/Bash.sudo": 1, "result/Bash.smell": 1}


def test_fields_of_invented_parts_are_reported(path: Path) -> None:
    data = {"type": "warp_progress", "speed": 9}
    found = survey(path, line("progress", data=data), assistant({"type": "hologram", "z": 1}))
    assert unknown_fields(found) == {
        "progress/warp_progress.type": 1,
        "progress/warp_progress.speed": 1,
        "block/hologram.type": 1,
        "block/hologram.z": 1,
    }
    assert not is_known_kind("progress/warp_progress")


def test_misfits_are_counted(path: Path) -> None:
    found = survey(path, user("a", is_meta="yes"), user("b", is_meta="no", slug=1))
    assert found.misfits == {"isMeta": 2, "slug": 1}


def test_problems_have_a_place(path: Path) -> None:
    found = survey(path, user("a"), b"oops\n", b"[]\n")
    offset = len(session(user("a")))
    assert found.problems == [
        (path, 2, offset, "not JSON: Expecting value at column 1"),
        (path, 3, offset + 5, "JSON, but not an object"),
    ]


def test_adding_joins_two_surveys(path: Path) -> None:
    first = survey(path, user("a", glitter=1), b"oops\n")
    second = survey(path, user("b", glitter=1), assistant(call("Bash")), line("sparkle"))
    whole = Survey()
    whole.add(first)
    whole.add(second)
    assert (whole.files, whole.lines) == (2, 5)
    assert whole.bytes == first.bytes + second.bytes
    assert whole.kinds == {"user": 2, "assistant": 1, "sparkle": 1}
    assert whole.tools == {"Bash": 1}
    assert whole.problems == first.problems
    assert whole.count_fields()["user.glitter", False] == 2


def test_adding_leaves_the_other_survey_as_it_is(path: Path) -> None:
    first = survey(path, user("a"), b"oops\n")
    whole = Survey()
    whole.add(first)
    whole.add(first)
    assert (first.kinds["user"], len(first.problems)) == (1, 1)
    assert (whole.kinds["user"], len(whole.problems)) == (2, 2)


@pytest.mark.parametrize("name", [*KINDS, "attachment/date", "progress/bash_progress"])
def test_every_kind_of_the_tables_is_known(name: str) -> None:
    assert is_known_kind(name)


@pytest.mark.parametrize(
    "name", ["sparkle", "", "user/sparkle", "system/sparkle", "attachment/x", "progress/x"]
)
def test_other_kinds_are_unknown(name: str) -> None:
    assert not is_known_kind(name)


def test_blocks_and_tools_are_known_by_name() -> None:
    assert is_known_block("tool_use")
    assert not is_known_block("hologram")
    assert not is_known_block("")
    assert is_known_tool("Bash")
    assert is_known_tool("mcp__any__thing")
    assert not is_known_tool("Hologram")


def test_damage_does_not_stop_a_survey() -> None:
    found = survey_file(PATH)
    assert found.lines == len(CASES)
    assert sum(found.kinds.values()) == sum(case.entries for case in CASES.values())
    assert len(found.problems) == sum(len(case.problems) for case in CASES.values())


def test_values_that_nest_too_deeply_to_be_walked_are_a_problem(path: Path) -> None:
    nested = b'[{"type":"tool_result","content":' * 400 + b'"x"' + b"}]" * 400
    path.write_bytes(b'{"type":"user","content":' + nested + b"}\n")
    found = survey_file(path)
    assert (found.kinds, [problem.reason for problem in found.problems]) == (
        {"user": 1},
        ["nested too deeply"],
    )


def test_a_number_too_long_to_be_converted_does_not_stop_a_survey(path: Path) -> None:
    path.write_bytes(b'{"type":"user","newField":' + b"7" * 5000 + b"}\n")
    assert survey_file(path).kinds == {"user": 1}


@given(damaged_files())
def test_no_file_stops_a_survey(scratch: Path, content: bytes) -> None:
    scratch.write_bytes(content)
    found = survey_file(scratch)
    assert (found.files, found.bytes) == (1, len(content))


def test_fields_of_fresh_sessions_are_known(path: Path) -> None:
    """As 2.1.325 wrote them: `/context`, a sub-agent that finished, a compaction in mid-turn."""
    finished = {
        "status": "completed",
        "agentId": "a1",
        "toolsUsed": ["Read"],
        "harnessNoteCount": 1,
        "harnessTailCount": 0,
        "harnessSectionHash": "6726dc5279b5fad0",
    }
    metadata: Fields = {"trigger": "auto", "preTokens": 990035, "runningTurnPrompt": {}}
    found = survey(
        path,
        system("local_command", content="Context Usage", is_display_only=True),
        user("go"),
        assistant(call("Agent", call_id="A")),
        result("A", tool_use_result=finished),
        system("compact_boundary", parent=None, compact_metadata=metadata),
        user("So far.", is_compact_summary=True, summarized_turn_prompt_uuids=[nth(1)]),
    )
    assert unknown_fields(found) == {}
    assert found.misfits == {}
