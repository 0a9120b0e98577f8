"""Turns: a prompt, and everything up to the next one."""

from pathlib import Path
from typing import Any

import pytest

from conversation.conftest import Opened
from support.build import (
    assistant,
    attachment,
    call,
    compaction,
    encode,
    line,
    nth,
    result,
    system,
    text,
    thinking,
    user,
)
from turnlog.conversation.prompts import PromptKind, Round
from turnlog.conversation.session import Session, open_session
from turnlog.conversation.turn_figures import figures_of

CAVEAT = "<local-command-caveat>Ran by itself</local-command-caveat>"
COMMAND = "<command-name>/cost</command-name>"
OUTPUT = "<local-command-stdout>$1</local-command-stdout>"


def lines_of(whole: Session) -> list[list[int]]:
    """The lines of each turn."""
    return [[node.line for node in turn.nodes] for turn in whole.turns]


def test_a_prompt_starts_a_turn_and_results_go_on_with_it(opened: Opened) -> None:
    whole = opened(
        user("q1"),
        assistant(thinking("hm"), message_id="m1"),
        assistant(call("Bash"), message_id="m1"),
        result("toolu_1"),
        assistant(text("a1"), message_id="m2"),
        user("q2"),
        assistant(text("a2"), message_id="m3"),
    )
    assert lines_of(whole) == [[1, 2, 3, 4, 5], [6, 7]]
    assert [[message.id for message in turn.messages] for turn in whole.turns] == [
        ["m1", "m2"],
        ["m3"],
    ]
    assert [[each.id for each in turn.calls] for turn in whole.turns] == [["toolu_1"], []]


def test_meta_lines_attachments_and_notes_start_no_turn(opened: Opened) -> None:
    whole = opened(
        user("q1"),
        attachment("date"),
        assistant(text("a1")),
        user("look", is_meta=True),
        system("turn_duration", duration_ms=5),
        user([text("[Request interrupted by user]")]),
    )
    assert lines_of(whole) == [[1, 2, 3, 4, 5, 6]]


def test_a_notification_starts_a_turn(opened: Opened) -> None:
    whole = opened(user("q1"), assistant(text("a1")), user("<task-notification>x"))
    assert [turn.kind for turn in whole.turns] == [PromptKind.TYPED, PromptKind.TASK_NOTIFICATION]


def test_a_command_that_the_client_ran_by_itself_starts_no_turn(opened: Opened) -> None:
    whole = opened(
        user("q1"),
        assistant(text("a1")),
        user(CAVEAT, is_meta=True),
        user(COMMAND),
        user(OUTPUT),
        user("q2"),
        assistant(text("a2")),
    )
    assert lines_of(whole) == [[1, 2, 3, 4, 5], [6, 7]]


def test_a_command_that_the_model_answered_starts_one(opened: Opened) -> None:
    whole = opened(user("q1"), assistant(text("a1")), user(COMMAND), assistant(text("a2")))
    assert lines_of(whole) == [[1, 2], [3, 4]]
    assert whole.turns[1].kind is PromptKind.COMMAND


def test_of_commands_in_a_row_the_answered_one_starts_a_turn(opened: Opened) -> None:
    whole = opened(user("q1"), user(COMMAND), user(OUTPUT), user(COMMAND), assistant(text("a")))
    assert lines_of(whole) == [[1, 2, 3], [4, 5]]


def test_what_stands_before_the_first_prompt_belongs_to_the_first_turn(opened: Opened) -> None:
    whole = opened(system("informational"), user(CAVEAT, is_meta=True), user("q1"))
    assert lines_of(whole) == [[1, 2, 3]]
    assert whole.turns[0].prompt is whole.nodes[2]


def test_a_branch_may_have_no_prompt_at_all(opened: Opened) -> None:
    (turn,) = opened(assistant(text("a1")), assistant(text("a2"))).turns
    assert (turn.prompt, turn.kind, len(turn.nodes)) == (None, None, 2)
    assert turn.is_complete


def test_a_turn_without_an_answer_is_not_complete(opened: Opened) -> None:
    whole = opened(user("q1"), assistant(text("a1")), user("q2"))
    assert [turn.is_complete for turn in whole.turns] == [True, False]


def test_an_error_in_the_place_of_an_answer_completes_no_turn(opened: Opened) -> None:
    failed = assistant(
        text("API Error"), message={"model": "<synthetic>"}, is_api_error_message=True
    )
    assert [turn.is_complete for turn in opened(user("q1"), failed).turns] == [False]


def test_only_an_api_error_of_the_client_counts_as_an_error(opened: Opened) -> None:
    silent = assistant(text("No response requested."), message={"model": "<synthetic>"})
    failed = assistant(
        text("API Error"), message={"model": "<synthetic>"}, is_api_error_message=True
    )
    turns = opened(user("q1"), silent, user("q2"), failed).turns
    assert [figures_of(turn).errors for turn in turns] == [0, 1]


def test_turns_are_those_of_the_active_branch_or_of_another(opened: Opened) -> None:
    whole = opened(user("q1"), assistant(text("a1")), user("old"), user("new", parent=nth(2)))
    assert lines_of(whole) == [[1, 2], [4]]
    other = whole.turns_to(whole.tree.rank_of(nth(3)))
    assert [[node.line for node in turn.nodes] for turn in other] == [[1, 2], [3]]


def test_turns_go_on_across_a_compaction(opened: Opened) -> None:
    whole = opened(user("q1"), assistant(text("a1")), *compaction("so far"), user("q2"))
    assert lines_of(whole) == [[1, 2, 3, 4], [5]]


def test_parallel_results_off_the_path_belong_to_the_turn(opened: Opened) -> None:
    whole = opened(
        user("q1"),
        assistant(call("Bash", call_id="A"), message_id="m"),
        assistant(call("Bash", call_id="B"), message_id="m"),
        result("A", parent=nth(2)),
        result("B", parent=nth(3)),
        assistant(text("done"), parent=nth(4)),
    )
    (turn,) = whole.turns
    assert sorted(node.line for node in turn.nodes) == [1, 2, 3, 4, 5, 6]
    assert [(each.id, each.result is not None) for each in turn.calls] == [("A", True), ("B", True)]


def test_a_turn_lasts_to_the_latest_time_in_it(opened: Opened) -> None:
    (turn,) = opened(
        user("q1", timestamp="2026-11-15T06:00:00.000Z"),
        assistant(text("a"), timestamp="2026-11-15T06:00:09.000Z"),
        system("turn_duration", timestamp="2026-11-15T06:00:05.000Z"),
    ).turns
    assert (turn.started, turn.ended) == ("2026-11-15T06:00:00.000Z", "2026-11-15T06:00:09.000Z")


def test_rounds_of_turns(opened: Opened) -> None:
    later = "2026-11-15T07:00:00.000Z"
    whole = opened(user("q1"), assistant(text("a")), user("q2"), user("q3", timestamp=later))
    assert [turn.round for turn in whole.turns] == [
        Round.NEW_SESSION,
        Round.NEW_ROUND,
        Round.RESUME,
    ]


@pytest.mark.parametrize(
    ("before", "after", "idle_ms"),
    [
        ("2026-11-15T06:00:00Z", "2026-11-15T06:05:01Z", 301_000),
        ("2026-11-15T06:05:01Z", "2026-11-15T06:00:00Z", 0),
        ("soon", "2026-11-15T06:05:01Z", None),
    ],
)
def test_the_silence_before_a_turn(
    opened: Opened, before: str, after: str, idle_ms: int | None
) -> None:
    first, second = opened(user("q1", timestamp=before), user("q2", timestamp=after)).turns
    assert (first.idle_ms, second.idle_ms) == (None, idle_ms)


FLAT: list[dict[str, Any]] = [
    {"sessionId": "sess1", "type": "user", "content": "read a file"},
    {
        "message": {
            "id": "m1",
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "/"}}],
        }
    },
    {
        "type": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "file data"}],
    },
    {"message": {"id": "m2", "role": "assistant", "content": [{"type": "text", "text": "done"}]}},
]


def test_a_log_of_flat_lines_without_ids_has_turns(tmp_path: Path) -> None:
    path = tmp_path / "flat.jsonl"
    path.write_bytes(b"".join(map(encode, [*FLAT, {"type": "user", "content": "and then?"}])))
    whole = open_session(path)
    first, second = whole.turns
    assert [message.id for message in first.messages] == ["m1", "m2"]
    assert [(each.name, whole.detail(each).result) for each in first.calls] == [
        ("Read", "file data")
    ]
    assert (first.is_complete, second.is_complete) == (True, False)


def test_lines_of_unknown_types_are_in_the_turn_that_they_stand_in(opened: Opened) -> None:
    whole = opened(user("q1"), line("sparkle", uuid="s", parent=nth(1)), user("q2", parent="s"))
    assert lines_of(whole) == [[1, 2], [3]]


def test_an_answer_behind_a_missing_parent_does_not_complete_the_prompt_before(
    opened: Opened,
) -> None:
    late = assistant(text("a9"), parent="gone", timestamp="2026-11-15T09:00:00.000Z")
    whole = opened(user("q1"), assistant(text("a1")), user("q2"), late, user("q3"))
    assert lines_of(whole) == [[1, 2], [3], [4], [5]]
    assert [turn.is_complete for turn in whole.turns] == [True, False, True, False]
    near = assistant(text("a2"), parent="gone")
    assert lines_of(opened(user("q1"), assistant(text("a1")), user("q2"), near)) == [[1, 2], [3, 4]]


def test_figures_have_the_measured_time_or_else_the_elapsed_one(opened: Opened) -> None:
    whole = opened(
        user("q1"),
        assistant(text("a1")),
        system("turn_duration", duration_ms=60_000),
        user("q2"),
        assistant(text("a2")),
    )
    figures = list(map(figures_of, whole.turns))
    assert [(each.working_ms, each.elapsed_ms) for each in figures] == [
        (60_000, 1000),
        (1000, 1000),
    ]
