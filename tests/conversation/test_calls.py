"""Calls: each tool_use with its result, and the contents of their lines."""

from pathlib import Path
from typing import Any

import pytest

from conversation.conftest import Opened
from support.build import SESSION, assistant, call, image, nth, result, result_block, text, user
from turnlog.conversation.calls import Detail
from turnlog.conversation.session import Session

PREVIEW = "<persisted-output>\nOutput too large (9.9MB). Full output saved to: {path}\n\nPreview"
REFUSAL = "The user doesn't want to proceed with this tool use. The tool use was rejected."


def use(call_id: str, **fields: Any) -> bytes:
    return assistant(call("Bash", {"command": "ls"}, call_id), **fields)


def paired(whole: Session) -> dict[str, int | None]:
    """The line of each call's result."""
    return {each.id: each.result.line if each.result else None for each in whole.calls}


def detail_of(whole: Session) -> Detail:
    (only,) = whole.calls
    return whole.detail(only)


def test_a_call_is_paired_with_its_result_wherever_that_hangs(opened: Opened) -> None:
    whole = opened(
        use("A", message_id="m"),
        use("B", message_id="m"),
        result("B", parent=nth(2)),
        result("A", parent=nth(1)),
        assistant(text("x")),
    )
    assert paired(whole) == {"A": 4, "B": 3}


def test_results_in_one_line_are_those_of_several_calls(opened: Opened) -> None:
    whole = opened(
        assistant(call("Bash", call_id="A"), call("Read", call_id="B")),
        user([result_block("A"), result_block("B", is_error=True)]),
    )
    assert [(each.name, each.is_error) for each in whole.calls] == [("Bash", False), ("Read", True)]


def test_a_call_without_a_result_is_a_call(opened: Opened) -> None:
    whole = opened(use("A"), user("never mind"))
    assert paired(whole) == {"A": None}
    assert detail_of(whole) == Detail({"command": "ls"})


def test_results_without_a_call_are_kept(opened: Opened) -> None:
    whole = opened(use("A"), result("A"), result("Z"))
    assert [(each.call_id, each.result.line) for each in whole.orphans] == [("Z", 3)]


def test_calls_that_share_an_id_have_their_results_in_turn(opened: Opened) -> None:
    whole = opened(use("A"), result("A", "one"), use("A"), result("A", "two"), result("A", "three"))
    assert [whole.detail(each).result for each in whole.calls] == ["one", "two"]
    assert [each.result.line for each in whole.orphans] == [5]


def test_a_result_may_stand_before_its_call(opened: Opened) -> None:
    assert paired(opened(result("A"), use("A"))) == {"A": 1}


def test_lines_that_stand_twice_make_one_call_with_one_result(opened: Opened) -> None:
    asked, answered = use("A", uuid="use"), result("A", uuid="answer", parent="use")
    whole = opened(asked, answered, asked, answered)
    assert len(whole.calls) == 1
    assert whole.orphans == []
    assert detail_of(whole).result == "ok"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("plain", "plain"),
        ([text("one"), text("two")], "one\ntwo"),
        ([text("see"), image()], "see\n(image)"),
        ([], ""),
        (None, ""),
    ],
)
def test_a_result_is_told_as_text(opened: Opened, content: Any, told: str) -> None:
    assert detail_of(opened(use("A"), result("A", content))).result == told


@pytest.mark.parametrize(
    ("structured", "milliseconds"),
    [
        (None, 1000),
        ({"stdout": "x"}, 1000),
        ({"durationMs": 40}, 40),
        ({"totalDurationMs": 12.9, "durationMs": 40}, 12),
        ("Error: no", 1000),
    ],
)
def test_a_call_lasts_by_the_clock_of_the_tool_or_from_line_to_line(
    opened: Opened, structured: Any, milliseconds: int
) -> None:
    whole = opened(use("A"), result("A", tool_use_result=structured))
    assert detail_of(whole).duration_ms == milliseconds


def test_without_times_nobody_knows_how_long_a_call_took(opened: Opened) -> None:
    assert detail_of(opened(use("A", timestamp=None), result("A"))).duration_ms is None


def test_no_call_takes_less_than_no_time(opened: Opened) -> None:
    whole = opened(use("A", timestamp="2027-01-01T00:00:00.000Z"), result("A"))
    assert detail_of(whole).duration_ms == 0


@pytest.mark.parametrize(
    ("answer", "denial"),
    [
        (result("A", REFUSAL, is_error=True), "user-rejected"),
        (result("A", "No.", is_error=True, tool_denial_kind="hook-blocked"), "hook-blocked"),
        (result("A", "Exit code 1", is_error=True), None),
        (result("A", f"grep found: {'x' * 80}{REFUSAL}"), None),
    ],
)
def test_a_call_that_was_not_allowed_tells_why(
    opened: Opened, answer: bytes, denial: str | None
) -> None:
    assert detail_of(opened(use("A"), answer)).denial == denial


@pytest.mark.parametrize(
    ("answer", "is_interrupted"),
    [
        (result("A", "[Request interrupted by user for tool use]"), True),
        (result("A", "[Tool call interrupted: the session ended]"), True),
        (result("A", "partial", tool_use_result={"interrupted": True}), True),
        (result("A", "whole", tool_use_result={"interrupted": False}), False),
        (result("A", "It says [Request interrupted by user]"), False),
    ],
)
def test_a_call_that_was_interrupted_is_told(
    opened: Opened, answer: bytes, is_interrupted: bool
) -> None:
    assert detail_of(opened(use("A"), answer)).is_interrupted is is_interrupted


def test_an_output_too_large_for_the_session_is_read_from_beside_it(
    opened: Opened, tmp_path: Path
) -> None:
    told = PREVIEW.format(path=f"/elsewhere/{SESSION}/tool-results/b4x.txt")
    detail = detail_of(opened(use("A"), result("A", told)))
    assert detail.output == told
    kept = tmp_path / SESSION / "tool-results" / "b4x.txt"
    kept.parent.mkdir(parents=True)
    kept.write_text("all of it")
    assert (detail.output, detail.result) == ("all of it", told)


def test_a_name_in_a_result_leads_to_no_file_elsewhere(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    told = PREVIEW.format(path="../../secret.txt")
    assert detail_of(opened(use("A"), result("A", told))).output == told


def test_a_call_names_the_sub_agent_that_it_started(opened: Opened) -> None:
    whole = opened(
        assistant(call("Task", {"prompt": "go"}, "A")),
        result("A", tool_use_result={"agentId": "a1", "status": "completed"}),
    )
    assert [each.agent_id for each in whole.calls] == ["a1"]


def test_the_result_as_the_tool_gave_it_is_kept(opened: Opened) -> None:
    whole = opened(use("A"), result("A", tool_use_result={"stdout": "x", "later": [1]}))
    assert detail_of(whole).structured == {"stdout": "x", "later": [1]}


def test_the_input_of_each_call_in_a_line_is_its_own(opened: Opened) -> None:
    whole = opened(assistant(call("Bash", {"n": 1}, "A"), call("Bash", {"n": 2}, "B")))
    assert [whole.detail(each).input for each in whole.calls] == [{"n": 1}, {"n": 2}]
