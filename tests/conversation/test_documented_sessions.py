"""Small sessions as public documents of the format describe them, and what they mean."""

from pathlib import Path
from typing import Any

import pytest

from conversation.conftest import Opened
from support.build import (
    assistant,
    call,
    compaction,
    encode,
    line,
    nth,
    result,
    result_block,
    system,
    text,
    thinking,
    user,
)
from turnlog.conversation.messages import add_usage
from turnlog.conversation.prompts import PromptKind, Round
from turnlog.conversation.session import Session, open_session
from turnlog.edit.check.checks import check_session

READ = call("Read", {"file_path": "/shop/README.md"}, "toolu_001")
DONE = {"stop_reason": "end_turn"}


def counts(*outputs: int) -> list[dict[str, Any]]:
    """The usage of each line of an answer; the last one is final."""
    lines = [{"usage": {"input_tokens": 9, "output_tokens": each}} for each in outputs]
    return [*lines[:-1], lines[-1] | {"stop_reason": "tool_use"}]


def told(whole: Session) -> list[Any]:
    """Return the facts about the only message."""
    (message,) = whole.messages
    return [message.id, message.stop_reason, message.usage.output_tokens, whole.context()]


def rounds(whole: Session) -> list[Round]:
    return [turn.round for turn in whole.turns]


def test_a_minimal_session_is_one_turn_that_resumes(opened: Opened) -> None:
    first = {"usage": {"input_tokens": 500, "output_tokens": 50}, "stop_reason": "tool_use"}
    last = {"usage": {"input_tokens": 600, "output_tokens": 20}} | DONE
    whole = opened(
        line("file-history-snapshot", messageId=nth(2), snapshot={"messageId": nth(2)}),
        user("What does this project do?"),
        assistant(READ, message_id="msg_001", message=first),
        result("toolu_001", "# Shop", tool_use_result={"type": "text"}),
        assistant(text("It sells widgets."), message_id="msg_002", message=last),
        system("turn_duration", duration_ms=5500),
    )
    (turn,) = whole.turns
    assert [message.id for message in turn.messages] == ["msg_001", "msg_002"]
    assert [(each.name, whole.detail(each).result) for each in turn.calls] == [("Read", "# Shop")]
    assert sum(add_usage(message.usage for message in turn.messages).values()) == 1170
    assert check_session(whole) == []


def test_lines_of_a_streamed_answer_are_one_message_with_its_final_count(opened: Opened) -> None:
    one, two, three = counts(2, 2, 480)
    whole = opened(
        user("q"),
        assistant(thinking("hm"), message_id="m", message=one),
        assistant(text("I look"), message_id="m", message=two),
        assistant(READ, message_id="m", message=three),
    )
    (message,) = whole.messages
    assert (message.usage.output_tokens, message.stop_reason) == (480, "tool_use")
    assert [node.uuid for node in message.nodes] == [nth(2), nth(3), nth(4)]


def test_clients_that_keep_only_the_final_line_give_the_same_message(opened: Opened) -> None:
    blocks = thinking("hm"), text("I look"), READ
    (final,) = counts(480)
    streamed = [
        assistant(block, message_id="m", message=each)
        for block, each in zip(blocks, counts(2, 2, 480), strict=True)
    ]
    whole = assistant(*blocks, message_id="m", message=final)
    assert told(opened(user("q"), *streamed)) == told(opened(user("q"), whole))


def test_a_joined_message_has_the_model_and_the_start_of_its_first_line(opened: Opened) -> None:
    (message,) = opened(
        assistant(text("a"), message_id="m", message={"model": "first"}, timestamp="2026-01-01"),
        assistant(text("b"), message_id="m", message={"model": "second"}, timestamp="2026-01-02"),
    ).messages
    assert (message.model, message.started) == ("first", "2026-01-01")


def test_an_expanded_command_is_one_turn_with_the_command(opened: Opened) -> None:
    whole = opened(
        user("<command-name>/implement</command-name><command-args>x</command-args>"),
        user([text("# Workflow\nDo all of it.")], is_meta=True),
        assistant(text("done")),
    )
    (turn,) = whole.turns
    assert (turn.kind, [node.line for node in turn.nodes]) == (PromptKind.COMMAND, [1, 2, 3])


def test_progress_without_ids_leaves_the_conversation_as_it_is(
    opened: Opened, tmp_path: Path
) -> None:
    plain = opened(user("q1"), assistant(text("a1")))
    path = tmp_path / "with progress.jsonl"
    news = encode({"type": "progress", "data": {"type": "query_update", "query": "x"}})
    path.write_bytes(plain.path.read_bytes() + news)
    assert open_session(path).context() == plain.context()


def test_lines_without_content_stay_in_the_chain(opened: Opened) -> None:
    whole = opened(
        user("q1"),
        assistant(text(""), message_id="m1"),
        assistant(READ, message_id="m2"),
        result("toolu_001", ""),
        user([]),
        assistant(text("done"), message_id="m3"),
    )
    assert whole.tree.active_leaf is not None
    assert [whole.tree.chain[rank].line for rank in whole.tree.path_to(whole.tree.active_leaf)] == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]
    assert whole.tree.orphans == []
    assert [each.id for each in whole.calls] == ["toolu_001"]


def test_ids_of_other_providers_are_paired_too(opened: Opened) -> None:
    whole = opened(
        user("q"), assistant(call("Read", {}, "call_1f")), result("call_1f", "no", is_error=True)
    )
    (only,) = whole.calls
    assert (only.id, only.is_error, whole.detail(only).result) == ("call_1f", True, "no")


@pytest.mark.parametrize("mode", [{}, {"permission_mode": "acceptEdits"}])
def test_every_prompt_starts_a_round_with_or_without_a_permission_mode(
    opened: Opened, mode: dict[str, str]
) -> None:
    whole = opened(
        user("q1", **mode),
        assistant(READ),
        user([result_block("toolu_001")]),
        assistant(text("a1")),
        user([text("q2")], **mode),
        assistant(text("a2")),
    )
    assert rounds(whole) == [Round.NEW_SESSION, Round.NEW_ROUND]


def test_a_later_root_is_the_first_round_of_its_own_branch(opened: Opened) -> None:
    whole = opened(user("q1"), assistant(text("a1")), user("q2", parent=None), assistant())
    assert rounds(whole) == [Round.NEW_SESSION]
    earlier = whole.turns_to(whole.tree.rank_of(nth(2)))
    assert [turn.round for turn in earlier] == [Round.NEW_SESSION]


def test_queue_lines_belong_to_no_turn(opened: Opened) -> None:
    queued = line("queue-operation", operation="enqueue", content="q2")
    taken = line("queue-operation", operation="dequeue")
    whole = opened(user("q1"), queued, assistant(text("a1")), taken, user("q2"))
    assert [[node.line for node in turn.nodes] for turn in whole.turns] == [[1, 3], [5]]
    assert {node.line for node in whole.nodes} == {1, 2, 3, 4, 5}


def test_after_a_compaction_the_conversation_goes_on_from_its_summary(opened: Opened) -> None:
    whole = opened(
        user("q1"),
        assistant(text("a1")),
        *compaction("All that was said.", logical_parent_uuid=nth(2)),
        user("q2"),
        assistant(text("a2")),
    )
    assert [block["text"] for each in whole.context() for block in each["content"]] == [
        "All that was said.\n",
        "q2",
        "a2",
    ]
    assert [turn.n for turn in whole.turns] == [1, 2]
