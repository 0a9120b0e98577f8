"""The tail of a session yields the same spans as the whole file."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given

from conversation.conftest import Opened
from support.build import (
    SESSION,
    assistant,
    call,
    compaction,
    moment,
    nth,
    result,
    session,
    system,
    text,
    user,
)
from support.session_strategies import Files, damaged_sessions, sessions
from support.traces import write_agent
from turnlog.conversation.session import Session, open_session
from turnlog.trace.progress import SendPosition
from turnlog.trace.span import Span
from turnlog.trace.spans import SpanOptions, spans_of
from turnlog.trace.unsent_tail import is_tail_sufficient, mark_at, open_tail, sizes_of
from turnlog.trace.work import NOTHING, turns_of

ENDED = SpanOptions(ended=True)


def marks(opened: Session) -> list[SendPosition]:
    """A mark before each turn but the first, where there can be one."""
    sizes = sizes_of(opened)
    numbers = [turn.n for turn in turns_of(opened)][1:]
    found = (mark_at(opened, ENDED, {number}, sizes) for number in numbers)
    return [mark for mark in found if mark]


def told_from(path: Path, mark: SendPosition) -> list[Span] | None:
    """The spans of the turns from a mark on; None where the whole file has to be read."""
    end, past = open_tail(path, mark)
    if past is NOTHING or not is_tail_sufficient(end, past, mark):
        return None
    return list(spans_of(end, SpanOptions(ended=True, past=past)))


def check(path: Path) -> int:
    """Compare the tail with the whole at every turn; return how often the tail was sufficient."""
    opened = open_session(path)
    whole = list(spans_of(opened, ENDED))
    enough = 0
    for mark in marks(opened):
        told = told_from(path, mark)
        if told is not None:
            enough += 1
            assert told == [span for span in whole if span.trace.turn_number > mark.turns]
    return enough


def test_the_end_of_every_session_tells_what_the_whole_does(session_file: Path) -> None:
    check(session_file)


@given(sessions() | damaged_sessions())
def test_so_does_that_of_sessions_of_any_kind(files: Files) -> None:
    with TemporaryDirectory() as folder:
        check(files.write(Path(folder)))


CONVERSATION = (
    user("q1"),
    assistant(call("Bash"), message_id="m1"),
    result("toolu_1"),
    assistant(text("a1"), message_id="m2"),
    system("turn_duration", duration_ms=9000),
    user("q2"),
    assistant(text("a2"), message_id="m3"),
    user("q3"),
    assistant(text("a3"), message_id="m4"),
)


def test_the_end_is_enough_of_what_just_goes_on(opened: Opened) -> None:
    assert check(opened(*CONVERSATION).path) == 2


def test_so_it_is_after_a_compaction_and_a_rewind(opened: Opened) -> None:
    boundary = compaction("told", logical_parent_uuid=nth(9))
    more = (*boundary, user("q4"), assistant(text("a4")), user("instead", parent=nth(6)))
    assert check(opened(*CONVERSATION, *more, assistant(text("a5"))).path) == 4


def test_so_it_is_with_subagents_that_are_done(opened: Opened, tmp_path: Path) -> None:
    folder = tmp_path / SESSION / "subagents"
    for name in ("one", "two"):
        lines = (user("go", timestamp=moment(20)), assistant(text("found"), timestamp=moment(21)))
        write_agent(folder, name, *lines, toolUseId=f"toolu_{name}")
    calls = [
        (user(name), assistant(call("Agent", {}, f"toolu_{name}")), result(f"toolu_{name}"))
        for name in ("one", "two", "none")
    ]
    path = opened(*CONVERSATION, *calls[0], *calls[2], *calls[2]).path
    assert check(path) == 5


@pytest.mark.parametrize(
    "late",
    [
        assistant(text("more"), parent=nth(4)),
        result("toolu_1", parent=nth(8)),
        user("q1", uuid=nth(1), parent=None, timestamp=moment(1)),
        assistant(text("a1"), message_id="m2", parent=nth(8), timestamp=moment(4)),
        user("no id", uuid=None),
        user("inside", parent=None, is_sidechain=True),
        system("compact_boundary", parent=None, logical_parent_uuid=nth(4)),
    ],
)
def test_what_goes_on_before_the_end_takes_the_whole(opened: Opened, late: bytes) -> None:
    path = opened(*CONVERSATION).path
    mark = marks(open_session(path))[-1]
    assert told_from(path, mark) is not None
    opened(*CONVERSATION, late)
    assert told_from(path, mark) is None
    check(path)


def test_a_file_that_was_written_anew_is_read_whole(opened: Opened) -> None:
    path = opened(*CONVERSATION).path
    mark = marks(open_session(path))[-1]
    assert open_tail(path, mark)[1].turns == 2
    opened(*CONVERSATION[:4], user("another"), *CONVERSATION[5:])
    assert open_tail(path, mark)[1] is NOTHING
    path.write_bytes(b"")
    assert open_tail(path, mark)[1] is NOTHING


def test_a_subagent_that_goes_on_later_takes_the_whole(opened: Opened, tmp_path: Path) -> None:
    agent = write_agent(
        tmp_path / SESSION / "subagents", "one", user("go"), assistant(text("x")), toolUseId="T"
    )
    lines = (user("q"), assistant(call("Agent", {}, "T")), result("T"), assistant(text("a")))
    path = opened(*lines, user("next"), assistant(text("b"))).path
    (mark,) = marks(open_session(path))
    assert told_from(path, mark) is not None
    with agent.open("ab") as file:
        file.write(session(assistant(text("y"), uuid="y"), agent_id="one"))
    assert told_from(path, mark) is None


def test_a_session_without_a_prompt_or_its_time_has_no_mark(opened: Opened) -> None:
    for lines in ([], [assistant(text("so"))], [user("hi", timestamp=""), assistant(text("so"))]):
        assert mark_at(opened(*lines), ENDED, set(), {}) is None
