"""Sessions as rows: what is shown, folded and left out."""

from pathlib import Path

import pytest

from conversation.conftest import Opened
from support.build import (
    SESSION,
    assistant,
    attachment,
    call,
    compaction,
    encode,
    nth,
    result,
    session,
    system,
    text,
    thinking,
    user,
)
from turnlog.render.rows import (
    AnswerRow,
    CallRow,
    NoteRow,
    PromptRow,
    Row,
    ThoughtRow,
    TurnEndRow,
    ViewOptions,
    rows_of,
)

SECRET = "tr0ub4dor&3"


def kinds(rows: list[Row]) -> list[str]:
    return [type(row).__name__ for row in rows]


def notes(rows: list[Row]) -> list[str]:
    return [row.text for row in rows if isinstance(row, NoteRow)]


def test_a_turn_is_told_in_the_order_of_its_lines(opened: Opened) -> None:
    whole = opened(
        user("q1"),
        assistant(thinking("hm"), message_id="m"),
        assistant(text("a1"), message_id="m"),
        assistant(call("Bash", {"command": "ls"}), message_id="m"),
        result("toolu_1", "x"),
    )
    assert list(rows_of(whole, ViewOptions())) == [
        PromptRow(1, "typed", "q1", "2026-11-15T06:00:01.000Z", round="new_session"),
        ThoughtRow("hm"),
        AnswerRow("a1"),
        CallRow("Bash", "ls", "", is_error=False, duration_ms=1000, style="text", body=["x"]),
        TurnEndRow(1, 4000, 4000, 30, 0.00044),
    ]


def test_thinking_is_left_out_on_demand(opened: Opened) -> None:
    whole = opened(user("q1"), assistant(thinking("hm"), text("a1")))
    assert kinds(list(rows_of(whole, ViewOptions(thinking=False)))) == [
        "PromptRow",
        "AnswerRow",
        "TurnEndRow",
    ]


def test_empty_texts_and_empty_thinking_are_not_told(opened: Opened) -> None:
    whole = opened(user("q1"), assistant(text(" \n"), thinking(""), text("a1")))
    assert kinds(list(rows_of(whole, ViewOptions()))) == ["PromptRow", "AnswerRow", "TurnEndRow"]


def test_an_answer_may_be_a_string(opened: Opened) -> None:
    rows = list(rows_of(opened(user("q1"), assistant(message={"content": "a1"})), ViewOptions()))
    assert rows[1] == AnswerRow("a1")


def test_only_one_turn_or_another_branch(opened: Opened) -> None:
    whole = opened(user("q1"), assistant(text("a1")), user("old"), user("new", parent=nth(2)))
    one = list(rows_of(whole, ViewOptions(turn=2)))
    other = list(rows_of(whole, ViewOptions(turn=2, leaf=whole.tree.rank_of(nth(3)))))
    assert [row.text for row in one + other if isinstance(row, PromptRow)] == ["new", "old"]


def test_what_happened_is_noted(opened: Opened) -> None:
    whole = opened(
        user("q1"),
        assistant(text("API Error: 529"), is_api_error_message=True),
        user("[Request interrupted by user]"),
        *compaction("So far: a lot."),
        user("<local-command-stdout>$1</local-command-stdout>"),
        user("q2"),
    )
    rows = list(rows_of(whole, ViewOptions()))
    assert [row for row in rows if isinstance(row, NoteRow)] == [
        NoteRow("API Error: 529", is_error=True),
        NoteRow("interrupted by the user"),
        NoteRow("the conversation was compacted here (manual, 1,000 tokens before)"),
        NoteRow("summary of what came before"),
        NoteRow("command output: $1"),
    ]


def test_a_message_that_was_cut_off_is_flagged_once_at_its_end(opened: Opened) -> None:
    cut = {"stop_reason": "max_tokens"}
    whole = opened(
        user("q1"),
        assistant(text("one"), message_id="m", message=cut),
        assistant(text("two"), message_id="m", message=cut),
        assistant(text("three"), message_id="n", message={"stop_reason": "end_turn"}),
    )
    rows = list(rows_of(whole, ViewOptions()))[1:-1]
    flag = NoteRow("the answer was cut off (max_tokens)", is_error=True)
    assert rows == [AnswerRow("one"), AnswerRow("two"), flag, AnswerRow("three")]


def test_what_the_client_put_in_the_place_of_an_answer_is_marked(opened: Opened) -> None:
    filler = assistant(text("No response requested."), message={"model": "<synthetic>"})
    rows = list(rows_of(opened(user("q1"), filler), ViewOptions()))
    assert rows[1] == NoteRow("No response requested. (written by the client)")
    assert not any(isinstance(row, AnswerRow) for row in rows)


def test_local_commands_are_told_without_their_tags(opened: Opened) -> None:
    whole = opened(
        user("q1"),
        system("local_command", content="<command-name>/usage</command-name>"),
        system("local_command", content="<local-command-stdout>10% used</local-command-stdout>"),
        system("local_command", content="<local-command-stdout></local-command-stdout>"),
        system("local_command", content=["odd"]),
    )
    told = notes(list(rows_of(whole, ViewOptions())))
    assert told == ["local command: /usage", "local command: 10% used"]


def test_what_the_editor_told_is_shown_in_full(opened: Opened) -> None:
    selected = "<ide_selection>The user selected lines 78 to 78</ide_selection>"
    whole = opened(user([text(selected), text("implement it")], permission_mode="acceptEdits"))
    asked = next(iter(rows_of(whole, ViewOptions())))
    assert isinstance(asked, PromptRow)
    assert asked.marks == ["new session", "ide selection", "acceptEdits"]
    assert notes(list(rows_of(whole, ViewOptions()))) == []
    full = "ide selection: The user selected lines 78 to 78"
    assert notes(list(rows_of(whole, ViewOptions(full=True)))) == [full]


def test_a_default_permission_mode_is_not_worth_a_word(opened: Opened) -> None:
    (asked, *_) = rows_of(opened(user("q1", permission_mode="default")), ViewOptions())
    assert isinstance(asked, PromptRow)
    assert asked.marks == ["new session"]


def test_a_turn_has_a_working_time_and_an_elapsed_time(opened: Opened) -> None:
    whole = opened(
        user("q1"),
        assistant(text("a1")),
        system("turn_duration", duration_ms=60_000),
        system("turn_duration", duration_ms=28_947.4),
        system("local_command", content="<command-name>/usage</command-name>"),
        assistant(text("No response requested."), message={"model": "<synthetic>"}),
        user("q2"),
        assistant(text("a2")),
    )
    ended = [row for row in rows_of(whole, ViewOptions()) if isinstance(row, TurnEndRow)]
    assert [(row.working_ms, row.elapsed_ms) for row in ended] == [(88_947, 1000), (1000, 1000)]


def test_what_was_injected_is_told_only_in_full(opened: Opened) -> None:
    whole = opened(
        user("q1"),
        user("injected", is_meta=True),
        attachment("date"),
        system("informational"),
        *compaction("So far: a lot."),
    )
    assert notes(list(rows_of(whole, ViewOptions()))) == [
        "the conversation was compacted here (manual, 1,000 tokens before)",
        "summary of what came before",
    ]
    assert notes(list(rows_of(whole, ViewOptions(full=True)))) == [
        "meta: injected",
        "attachment/date",
        "the conversation was compacted here (manual, 1,000 tokens before)",
        "summary of what came before: So far: a lot.",
    ]


def test_a_command_is_told_as_it_was_typed(opened: Opened) -> None:
    command = "<command-name>/review</command-name><command-args>it</command-args>"
    rows = list(rows_of(opened(user(command), assistant(text("a"))), ViewOptions()))
    assert rows[0] == PromptRow(
        1, "command", "/review it", "2026-11-15T06:00:01.000Z", round="new_session"
    )


def test_what_a_sub_agent_did_is_below_its_call(opened: Opened, tmp_path: Path) -> None:
    folder = tmp_path / SESSION / "subagents"
    folder.mkdir(parents=True)
    inner = session(user("look"), assistant(text("seen")), agent_id="a1")
    (folder / "agent-a1.jsonl").write_bytes(inner)
    (folder / "agent-a1.meta.json").write_bytes(encode({"toolUseId": "T"}))
    whole = opened(user("q1"), assistant(call("Agent", {"prompt": "look"}, "T")), result("T"))
    did = list(rows_of(whole, ViewOptions()))[1]
    assert isinstance(did, CallRow)
    assert kinds(did.rows) == ["PromptRow", "AnswerRow", "TurnEndRow"]


def test_sub_agents_that_seem_to_start_each_other_are_told_once(
    opened: Opened, tmp_path: Path
) -> None:
    folder = tmp_path / SESSION / "subagents"
    folder.mkdir(parents=True)
    both = assistant(call("Agent", {"prompt": "x"}, "A"), call("Agent", {"prompt": "y"}, "B"))
    for name in "AB":
        path = folder / f"agent-{name}.jsonl"
        path.write_bytes(session(user("q1"), both, assistant(text(name)), agent_id=name))
        path.with_suffix(".meta.json").write_bytes(encode({"toolUseId": name}))
    rows = list(rows_of(opened(user("q1"), both), ViewOptions()))
    assert kinds(rows) == ["PromptRow", "CallRow", "CallRow", "TurnEndRow"]


@pytest.mark.parametrize("reveal", [False, True])
def test_secrets_are_masked_wherever_they_stand(opened: Opened, reveal: bool) -> None:
    told = f"password = '{SECRET}'"
    whole = opened(
        user(told),
        assistant(thinking(told), text(told), call("Bash", {"command": f"echo {told}"}, "A")),
        result("A", f"1\n2\n{told}"),
        assistant(text(told), is_api_error_message=True),
        user(f"<bash-stdout>{told}</bash-stdout>"),
    )
    rows = list(rows_of(whole, ViewOptions(reveal=reveal)))
    shown = [SECRET in repr(row) for row in rows if not isinstance(row, TurnEndRow)]
    assert shown == [reveal] * 6


def test_a_turn_takes_what_its_messages_took(opened: Opened) -> None:
    used = {"usage": {"input_tokens": 1000, "output_tokens": 100}, "model": "claude-opus-5"}
    part = assistant(text("x"), message_id="m", message=used)
    ended = list(rows_of(opened(user("q1"), part, part), ViewOptions()))[-1]
    assert ended == TurnEndRow(1, 2000, 2000, 1100, 0.0075)


def test_a_turn_of_an_unknown_model_has_no_price(opened: Opened) -> None:
    whole = opened(user("q1"), assistant(text("x"), message={"model": "sage-9"}))
    ended = list(rows_of(whole, ViewOptions()))[-1]
    assert isinstance(ended, TurnEndRow)
    assert ended.cost_usd is None


def test_secrets_are_masked_unless_they_are_asked_for(opened: Opened) -> None:
    whole = opened(user(f"password={SECRET}"))
    masked, shown = (
        list(rows_of(whole, each)) for each in (ViewOptions(), ViewOptions(reveal=True))
    )
    assert SECRET not in str(masked)
    assert SECRET in str(shown)


def test_a_call_has_details_only_where_they_are_asked_for(opened: Opened) -> None:
    whole = opened(user("q"), assistant(call("Bash", {"command": "ls"})), result("toolu_1", "x"))
    for wanted in (False, True):
        rows = rows_of(whole, ViewOptions(details=wanted))
        (found,) = (row for row in rows if isinstance(row, CallRow))
        assert (found.details is not None) == wanted
