"""Lines, contexts and compactions for the inspector."""

from pathlib import Path

import pytest

from conversation.conftest import Opened
from support.build import SESSION, assistant, call, compaction, image, nth, result, text, user
from turnlog.conversation.session import open_session
from turnlog.errors import NotFound
from turnlog.render.html.line_views import LONGEST_LINE, context_at_line, lost_at, raw_line

SECRET = "tr0ub4dor&3"


def test_a_line_is_shown_indented_and_masked(opened: Opened) -> None:
    whole = opened(user("q1"), assistant(call("Bash", {"env": {"password": SECRET}}, "A")))
    shown = raw_line(whole, 2)
    assert '  "type": "assistant"' in shown["text"]
    assert SECRET not in shown["text"]
    assert (shown["turn"], shown["kind"], shown["is_whole"]) == (1, "assistant", True)


def test_a_line_of_another_branch_names_the_end_of_that_branch(opened: Opened) -> None:
    whole = opened(
        user("q1"),
        assistant(text("a1")),
        user("old"),
        assistant(text("x")),
        user("new", parent=nth(2)),
    )
    assert (raw_line(whole, 3)["turn"], raw_line(whole, 3)["leaf"]) == (None, nth(4))
    assert (raw_line(whole, 5)["turn"], raw_line(whole, 5)["leaf"]) == (2, None)


def test_of_a_very_long_line_only_the_start_is_read(opened: Opened) -> None:
    told = f"password = '{SECRET}' "
    whole = opened(user("q1"), user(told + "x" * LONGEST_LINE))
    shown = raw_line(whole, 2)
    assert not shown["is_whole"]
    assert len(shown["text"]) < 50_000
    assert SECRET not in shown["text"]


def test_a_malformed_line_is_shown_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_bytes(b'{"type": "user"\n' + b'{"type":"summary","summary":"s"}\n')
    shown = raw_line(open_session(path), 1)
    assert (shown["kind"], shown["text"], shown["size"]) == ("malformed", '{"type": "user"', 15)


def test_a_line_that_is_not_there_is_not_found(opened: Opened) -> None:
    for line in (0, 2, 99):
        with pytest.raises(NotFound):
            raw_line(opened(user("q1")), line)


def test_the_context_of_an_answer_is_what_was_sent_for_it(opened: Opened) -> None:
    used = {"usage": {"input_tokens": 7, "output_tokens": 1}}
    whole = opened(
        user([text("q1"), image()]),
        assistant(text("a1"), message_id="m", message=used),
        assistant(call("Bash", {"command": "ls"}, "A"), message_id="m", message=used),
        result("A", "x"),
        assistant(text("a2")),
    )
    first = context_at_line(whole, 3)
    assert [message["role"] for message in first["messages"]] == ["user"]
    assert [block["text"] for block in first["messages"][0]["blocks"]] == ["q1", "(image)"]
    assert first["message"]["context"] == 7
    second = context_at_line(whole, 5)
    told = [[block["type"] for block in message["blocks"]] for message in second["messages"]]
    assert told == [["text", "image"], ["text", "tool_use"], ["tool_result"]]


def test_the_context_after_a_compaction_starts_with_its_summary(opened: Opened) -> None:
    whole = opened(user("q1"), assistant(text("a1")), *compaction("So far: q1."), user("q2"))
    (message,) = context_at_line(whole, 5)["messages"]
    assert [block["text"] for block in message["blocks"]] == ["So far: q1.\n", "q2"]


def test_secrets_in_a_context_are_masked(opened: Opened) -> None:
    whole = opened(user(f"password = '{SECRET}'"), assistant(text("a1")))
    assert SECRET not in str(context_at_line(whole, 2))


def test_a_compaction_shows_the_messages_before_and_the_summary_after(opened: Opened) -> None:
    whole = opened(
        user("q1"), assistant(text("a1")), *compaction(f"**So far**: password = '{SECRET}'")
    )
    for line in (3, 4):
        lost = lost_at(whole, line)
        assert [block["text"] for m in lost["before"] for block in m["blocks"]] == ["q1", "a1"]
        assert (lost["line"], lost["first_line"], lost["last_line"]) == (3, 1, 2)
        assert lost["html"].startswith("<p><strong>So far</strong>")
        assert SECRET not in str(lost)
        assert (lost["trigger"], lost["pre_tokens"]) == ("manual", 1000)
    with pytest.raises(NotFound):
        lost_at(whole, 1)


def test_a_compaction_at_the_start_of_a_file_has_nothing_before_it(opened: Opened) -> None:
    lost = lost_at(opened(*compaction("So far: q1."), user("q2")), 2)
    assert (lost["line"], lost["first_line"], lost["last_line"]) == (1, None, None)
    assert (lost["before"], lost["summary"]) == ([], "So far: q1.")
