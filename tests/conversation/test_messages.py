"""Messages: the lines of one answer joined, its tokens counted once."""

from typing import Any

import pytest

from conversation.conftest import Opened
from support.build import assistant, call, nth, result, text, thinking, user
from turnlog.conversation.messages import add_usage
from turnlog.conversation.session import Session


def lines_of(whole: Session) -> list[list[int]]:
    """The lines of each message."""
    return [[node.line for node in message.nodes] for message in whole.messages]


def counting(**counts: Any) -> dict[str, Any]:
    return {"usage": counts}


def test_lines_are_joined_by_the_id_of_their_message_wherever_they_stand(opened: Opened) -> None:
    whole = opened(
        assistant(thinking("hm"), message_id="m1"),
        assistant(call("Bash", call_id="A"), message_id="m1"),
        assistant(text("other"), message_id="m2"),
        result("A"),
        user("q"),
        assistant(text("late"), message_id="m1"),
    )
    assert lines_of(whole) == [[1, 2, 6], [3]]


def test_lines_that_stand_together_are_not_joined_if_their_ids_differ(opened: Opened) -> None:
    whole = opened(assistant(text("x"), message_id="m1"), assistant(text("y"), message_id="m2"))
    assert lines_of(whole) == [[1], [2]]


def test_lines_without_an_id_are_joined_only_if_they_stand_together(opened: Opened) -> None:
    none: dict[str, Any] = {"id": None}
    whole = opened(
        assistant(thinking("hm"), message=none),
        assistant(text("x"), message=none),
        user("q"),
        assistant(text("y"), message=none),
        assistant(text("z"), message_id="m"),
        assistant(text("w"), message=none),
    )
    assert lines_of(whole) == [[1, 2], [4], [5], [6]]


def test_each_line_holds_a_block_of_its_own_not_only_the_one_with_a_stop_reason(
    opened: Opened,
) -> None:
    whole = opened(
        assistant(thinking("hm"), message_id="m"),
        assistant(text("x"), message_id="m"),
        assistant(call("Bash"), message_id="m", message={"stop_reason": "tool_use"}),
    )
    (message,) = whole.messages
    blocks = [
        block for value in whole.values(message.nodes) for block in value["message"]["content"]
    ]
    assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use"]


def test_tokens_are_the_largest_count_of_each_field(opened: Opened) -> None:
    whole = opened(
        assistant(message_id="m", message=counting(input_tokens=10, output_tokens=1)),
        assistant(message_id="m", message=counting(input_tokens=4, output_tokens=90)),
        assistant(message_id="m", message=counting(cache_read_input_tokens=7, output_tokens=None)),
    )
    (message,) = whole.messages
    assert message.usage.input_tokens == 10
    assert message.usage.output_tokens == 90
    assert message.usage.cache_read_input_tokens == 7


def test_so_are_those_of_the_parts_of_a_count(opened: Opened) -> None:
    short = {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 0}
    long = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 8}
    whole = opened(
        assistant(message_id="m", message=counting(cache_creation=short)),
        assistant(message_id="m", message=counting(cache_creation=long)),
    )
    split = whole.messages[0].usage.cache_creation
    assert split
    assert (split.ephemeral_5m_input_tokens, split.ephemeral_1h_input_tokens) == (5, 8)


def test_a_message_without_usage_counts_nothing(opened: Opened) -> None:
    whole = opened(assistant(text("x"), message={"usage": None}))
    assert set(add_usage(message.usage for message in whole.messages).values()) == {0}


def test_repeated_usage_is_summed_once_for_each_message(opened: Opened) -> None:
    same = counting(input_tokens=10, output_tokens=20, cache_creation_input_tokens=3)
    whole = opened(
        *(assistant(text(each), message_id="m1", message=same) for each in "abc"),
        assistant(text("d"), message_id="m2", message=same),
    )
    assert add_usage(message.usage for message in whole.messages) == {
        "input_tokens": 20,
        "output_tokens": 40,
        "cache_creation_input_tokens": 6,
        "cache_read_input_tokens": 0,
    }


@pytest.mark.parametrize(
    ("reasons", "last"),
    [
        ([None, "tool_use"], "tool_use"),
        (["tool_use", None], "tool_use"),
        (["max_tokens", "end_turn"], "end_turn"),
        ([None, None], None),
    ],
)
def test_the_stop_reason_is_the_last_one_known(
    opened: Opened, reasons: list[str | None], last: str | None
) -> None:
    parts = [assistant(text("x"), message_id="m", message={"stop_reason": one}) for one in reasons]
    assert [message.stop_reason for message in opened(*parts).messages] == [last]


@pytest.mark.parametrize(
    ("line", "is_synthetic"),
    [
        (assistant(text("hi")), False),
        (assistant(text("No response"), message={"model": "<synthetic>"}), True),
        (assistant(text("API Error"), is_api_error_message=True), True),
    ],
)
def test_what_the_client_wrote_itself_is_marked(
    opened: Opened, line: bytes, is_synthetic: bool
) -> None:
    assert [message.is_synthetic for message in opened(line).messages] == [is_synthetic]


def test_a_message_lasts_from_its_first_line_to_its_last(opened: Opened) -> None:
    parts = [
        assistant(text(each), message_id="m", timestamp=f"2026-11-15T0{each}") for each in "12"
    ]
    (message,) = opened(*parts).messages
    assert (message.started, message.ended) == ("2026-11-15T01", "2026-11-15T02")


def test_a_message_whose_line_was_written_twice_is_one_and_belongs_to_its_turn(
    opened: Opened,
) -> None:
    said = assistant(call("Bash"), uuid=nth(2), parent=nth(1), message_id="m")
    whole = opened(user("q"), said, said, result("toolu_1", parent=nth(2)))
    assert len(whole.messages) == 1
    assert whole.turns[0].messages == whole.messages
