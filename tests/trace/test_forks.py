"""Forks in the middle of a turn: two sessions never meet in one trace."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.build import assistant, call, encode, result, session, system, text, user
from support.otlp_receiver import Receiver, attributes
from support.traces import spans
from turnlog.conversation.session import Session, open_session
from turnlog.trace.content import ContentPolicy
from turnlog.trace.otlp import Exporter
from turnlog.trace.send import send_session
from turnlog.trace.sent_state import open_state
from turnlog.trace.span import Span, WorkKind
from turnlog.trace.spans import SpanOptions, first_trace
from turnlog.trace.targets import Target, target_of
from turnlog.trace.trace_settings import TraceSettings

ORIGINAL = "00000000-0000-4000-8000-0000000000aa"
FORK = "00000000-0000-4000-8000-0000000000bb"
SHARED = (
    user("before"),
    assistant(text("old"), message_id="m0"),
    user("do it"),
    assistant(call("Bash", {"command": "a"}, "t1"), message_id="m1"),
    result("t1", "one"),
    assistant(call("Bash", {"command": "b"}, "t2"), message_id="m2"),
)
REST = (result("t2", "in the original"), assistant(text("first end"), message_id="m3"))
OTHER_REST = (result("t2", "in the fork"), assistant(text("other end"), message_id="m4"))


def original(folder: Path) -> Session:
    path = folder / f"{ORIGINAL}.jsonl"
    path.write_bytes(session(*SHARED, *REST, session_id=ORIGINAL))
    return open_session(path)


def fork(folder: Path, mark: str, rest: tuple[bytes, ...] = OTHER_REST) -> Session:
    """A session that continues a copy of the shared lines."""
    lines = [json.loads(raw) for raw in session(*SHARED, *rest, session_id=FORK).splitlines()]
    for rank, each in enumerate(lines):
        if rank < len(SHARED):
            each.update(copy_fields(mark, each["uuid"], rank))
        else:
            each["uuid"] = each["uuid"].replace("00000000", "f0000000", 1)
            each["timestamp"] = each["timestamp"].replace("2026-", "2027-")
            if rank > len(SHARED):
                each["parentUuid"] = each["parentUuid"].replace("00000000", "f0000000", 1)
    path = folder / f"{FORK}.jsonl"
    path.write_bytes(b"".join(map(encode, lines)))
    return open_session(path)


def copy_fields(mark: str, uuid: str, rank: int) -> dict[str, Any]:
    """Return the fields of a copied line that name its origin."""
    if mark == "forkedFrom":
        return {"forkedFrom": {"sessionId": ORIGINAL, "messageUuid": uuid}}
    is_marked = mark == "sessionId" or (mark == "first line" and rank == 0)
    return {"sessionId": ORIGINAL} if is_marked else {}


def sessions_by_trace(found: list[Span]) -> dict[str, set[str]]:
    by_trace: dict[str, set[str]] = {}
    for span in found:
        by_trace.setdefault(span.trace.id, set()).add(span.trace.session_id)
    return by_trace


MARKS = ("forkedFrom", "sessionId", "first line", "none")


@pytest.mark.parametrize("mark", MARKS)
def test_no_trace_holds_two_continuations_of_a_prompt(tmp_path: Path, mark: str) -> None:
    first = spans(original(tmp_path))
    other = spans(fork(tmp_path, mark))
    known = {span.id for span in first}
    new = [span for span in other if span.id not in known]
    assert {span.trace.id for span in new}.isdisjoint(span.trace.id for span in first)
    assert {span.trace.session_id for span in new} == {FORK}
    assert [span.name for span in new] == ["Turn 2", "Bash", "claude-opus-5-5"]


@pytest.mark.parametrize("mark", MARKS)
def test_what_a_fork_added_is_a_turn_with_its_own_times_and_answer(
    tmp_path: Path, mark: str
) -> None:
    original(tmp_path)
    root = [span for span in spans(fork(tmp_path, mark)) if span.parent_id is None][-1]
    assert root.input == {"role": "user", "content": "do it"}
    assert root.output == {"role": "assistant", "content": "other end"}
    assert root.trace.forked_from == ORIGINAL
    inside = [
        span
        for span in spans(open_session(tmp_path / f"{FORK}.jsonl"))
        if span.parent_id == root.id
    ]
    assert root.ends == max(span.ends for span in inside)
    (tool,) = [span for span in inside if span.kind is WorkKind.TOOL]
    assert tool.output == "in the fork"


@pytest.mark.parametrize("mark", MARKS)
def test_the_original_is_told_as_before(tmp_path: Path, mark: str) -> None:
    before = spans(original(tmp_path))
    fork(tmp_path, mark)
    assert spans(open_session(tmp_path / f"{ORIGINAL}.jsonl")) == before


@pytest.mark.parametrize("mark", MARKS)
def test_a_fork_between_turns_keeps_its_ids(tmp_path: Path, mark: str) -> None:
    known = {span.id for span in spans(original(tmp_path))}
    path = tmp_path / f"{FORK}.jsonl"
    lines = [json.loads(raw) for raw in (tmp_path / f"{ORIGINAL}.jsonl").read_bytes().splitlines()]
    copied = [
        each | {"sessionId": FORK} | copy_fields(mark, each["uuid"], rank)
        for rank, each in enumerate(lines)
    ]
    path.write_bytes(b"".join(map(encode, copied)))
    assert {span.id for span in spans(open_session(path))} == known


@pytest.mark.parametrize("mark", ["forkedFrom", "sessionId"])
def test_without_the_original_its_part_is_told_under_its_own_name(
    tmp_path: Path, mark: str
) -> None:
    found = spans(fork(tmp_path, mark))
    traces = sessions_by_trace(found)
    assert sorted(map(sorted, traces.values())) == [[ORIGINAL], [FORK], [FORK]]
    messages = [span.message_id for span in found if span.kind is WorkKind.GENERATION]
    assert messages == ["m0", "m1", "m2", "m4"]


def test_a_clone_with_uuids_of_its_own_is_no_fork(tmp_path: Path) -> None:
    original(tmp_path)
    lines = session(*SHARED, *OTHER_REST, session_id=FORK).replace(
        b"00000000-0000-4000-8000-0000000000", b"c0000000-0000-4000-8000-0000000000"
    )
    entries = [json.loads(raw) for raw in lines.splitlines()]
    for each in entries[: len(SHARED)]:
        uuid = each["uuid"].replace("c0000000", "00000000", 1)
        each["forkedFrom"] = {"sessionId": ORIGINAL, "messageUuid": uuid}
    path = tmp_path / f"{FORK}.jsonl"
    path.write_bytes(b"".join(map(encode, entries)))
    found = spans(open_session(path))
    assert len({span.trace.id for span in found}) == 2
    assert not any(span.trace.forked_from for span in found)


@pytest.mark.parametrize("mark", MARKS)
def test_a_command_with_which_a_fork_begins_takes_nothing_from_the_turn_before(
    tmp_path: Path, mark: str
) -> None:
    known = {span.id for span in spans(original(tmp_path))}
    path = tmp_path / f"{FORK}.jsonl"
    lines = [json.loads(raw) for raw in (tmp_path / f"{ORIGINAL}.jsonl").read_bytes().splitlines()]
    copied = [
        each | {"sessionId": FORK} | copy_fields(mark, each["uuid"], rank)
        for rank, each in enumerate(lines)
    ]
    own = {"uuid": "f0000000-0000-4000-8000-000000000001", "parentUuid": lines[-1]["uuid"]}
    command = json.loads(system("local_command", content="/branch")) | own
    later = {"timestamp": "2027-01-01T00:00:00.000Z", "sessionId": FORK}
    path.write_bytes(b"".join(map(encode, [*copied, command | later])))
    assert {span.id for span in spans(open_session(path))} == known


def test_unrelated_files_that_number_their_lines_alike_are_no_forks(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    alone = spans(fork(tmp_path / "other", "none"))
    original(tmp_path)
    moved = (tmp_path / "other" / f"{FORK}.jsonl").read_bytes().replace(b"2026-", b"2025-")
    (tmp_path / f"{FORK}.jsonl").write_bytes(moved)
    found = spans(open_session(tmp_path / f"{FORK}.jsonl"))
    assert [span.id for span in found] == [span.id for span in alone]


def test_a_fork_whose_original_is_gone_and_left_no_marks_is_one_turn(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    unmarked = spans(fork(tmp_path / "other", "none"))
    found = spans(fork(tmp_path, "first line"))
    assert [span.id for span in found] == [span.id for span in unmarked]


@pytest.mark.parametrize("names", [(ORIGINAL, FORK), (FORK, ORIGINAL)])
@pytest.mark.parametrize("mark", MARKS)
def test_at_a_backend_each_trace_has_one_session_whichever_is_sent_first(
    tmp_path: Path, receiver: Receiver, mark: str, names: tuple[str, str]
) -> None:
    original(tmp_path)
    fork(tmp_path, mark)
    to = target_of(TraceSettings(to=receiver.url))
    assert isinstance(to, Target)
    for name in names:
        whole = open_session(tmp_path / f"{name}.jsonl")
        state_name = first_trace(whole) or ""
        with Exporter(to) as exporter, open_state(tmp_path / "s", to.name, state_name) as state:
            send_session(
                whole, exporter, state, SpanOptions(ended=True), ContentPolicy(), state.sent
            )
    arrived = [span for request in receiver.requests for span in request.spans]
    assert len(arrived) == len({span.span_id for span in arrived}) == 11
    by_trace: dict[bytes, set[str]] = {}
    for span in arrived:
        by_trace.setdefault(span.trace_id, set()).add(attributes(span)["session.id"])
    assert [len(ids) for ids in by_trace.values()] == [1, 1, 1]
