"""A session that is open while its file grows, tears, or is replaced."""

from pathlib import Path
from typing import Any

import pytest

from support.build import assistant, call, result, session, text, user
from turnlog.conversation.session import Session, open_session
from turnlog.errors import Ambiguous, NotFound
from turnlog.format.entries import Unknown

LINES = (
    user("q1"),
    assistant(call("Bash", {"command": "ls"}), message_id="m1"),
    result("toolu_1", "a\nb"),
    assistant(text("äöü 日本 done"), message_id="m2"),
    b"{not json\n",
    user("q2"),
    assistant(text("a2"), message_id="m3"),
)
WHOLE = session(*LINES)


def state_of(whole: Session) -> dict[str, Any]:
    """Return everything that a session computes, to compare two of them."""
    return {
        "nodes": whole.nodes,
        "problems": whole.problems,
        "parents": whole.tree.parents,
        "messages": whole.messages,
        "calls": whole.calls,
        "orphans": whole.orphans,
        "turns": whole.turns,
        "context": whole.context(),
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "grows.jsonl"


def test_after_each_append_all_is_as_if_opened_anew(path: Path) -> None:
    path.touch()
    growing = open_session(path)
    for raw in WHOLE.splitlines(keepends=True):
        with path.open("ab") as file:
            file.write(raw)
        assert growing.refresh()
        assert state_of(growing) == state_of(open_session(path))


@pytest.mark.parametrize("step", [7, 100, 333])
def test_so_it_is_wherever_the_file_is_torn(path: Path, step: int) -> None:
    path.touch()
    growing = open_session(path)
    for end in [*range(step, len(WHOLE), step), len(WHOLE)]:
        path.write_bytes(WHOLE[:end])
        growing.refresh()
        assert state_of(growing) == state_of(open_session(path))


def test_a_file_that_has_not_changed_is_not_read_again(path: Path) -> None:
    path.write_bytes(WHOLE)
    whole = open_session(path)
    before = whole.nodes[0]
    assert not whole.refresh()
    assert whole.nodes[0] is before


@pytest.mark.parametrize(
    "replaced",
    [
        session(*LINES[:2]),
        session(user("other"), *LINES[1:]),
        session(user("shorter")),
        b"",
        WHOLE.replace(b"q1", b"Q1"),
    ],
    ids=["cut", "longer", "shorter", "empty", "as long"],
)
def test_a_file_that_was_replaced_is_read_from_its_start(path: Path, replaced: bytes) -> None:
    path.write_bytes(WHOLE)
    whole = open_session(path)
    path.unlink()
    path.write_bytes(replaced)
    whole.refresh()
    assert state_of(whole) == state_of(open_session(path))


def test_what_cannot_be_read_is_told_with_its_place(path: Path) -> None:
    path.write_bytes(WHOLE)
    (problem,) = open_session(path).problems
    assert (problem.path, problem.line) == (path, 5)
    assert WHOLE[problem.offset :].startswith(b"{not json")


def test_entries_and_values_are_read_from_their_lines(path: Path) -> None:
    path.write_bytes(WHOLE)
    whole = open_session(path)
    assert [entry.when for entry in whole.entries(whole.nodes)] == [n.time for n in whole.nodes]
    (value,) = whole.values(whole.nodes[:1])
    assert value["message"]["content"] == "q1"


def test_several_entries_on_one_line_are_entries_of_their_own(path: Path) -> None:
    path.write_bytes(WHOLE.replace(b"\n", b"", 1))
    whole = open_session(path)
    assert [(node.line, node.position) for node in whole.nodes[:3]] == [(1, 0), (1, 1), (2, 0)]
    assert [value["type"] for value in whole.values(whole.nodes[:2])] == ["user", "assistant"]


def test_a_line_that_was_overwritten_has_no_values(path: Path) -> None:
    path.write_bytes(WHOLE)
    whole = open_session(path)
    path.write_bytes(b" " * len(WHOLE))
    assert list(whole.values(whole.nodes[:1])) == [{}]
    assert list(whole.entries(whole.nodes[:1])) == [Unknown()]


def test_a_node_that_is_not_there_is_not_found(path: Path) -> None:
    path.write_bytes(WHOLE)
    with pytest.raises(NotFound, match="no entry 'ffff'"):
        open_session(path).node("ffff")


def test_the_start_of_several_uuids_is_ambiguous(path: Path) -> None:
    path.write_bytes(WHOLE)
    with pytest.raises(Ambiguous) as raised:
        open_session(path).node("00000000-")
    assert len(raised.value.candidates) > 1


def test_a_file_that_is_not_there_cannot_be_opened(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_session(path)
