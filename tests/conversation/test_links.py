"""Sessions that continue another one."""

from pathlib import Path

from support.build import line, session, user
from turnlog.conversation.continuations import Links, links_of


def write(folder: Path, name: str, *lines: bytes, session_id: str | None = None) -> Path:
    path = folder / f"{name}.jsonl"
    path.write_bytes(session(*lines, session_id=session_id or name))
    return path


def test_a_session_that_starts_with_lines_of_another_goes_on_with_it(tmp_path: Path) -> None:
    first = write(tmp_path, "first", user("q1"))
    second = write(tmp_path, "second", user("q1"), session_id="first")
    assert links_of(first) == Links(None, ["second"])
    assert links_of(second) == Links("first", [])


def test_a_fork_names_what_it_was_forked_from(tmp_path: Path) -> None:
    origin = {"sessionId": "gone", "messageUuid": "u1"}
    fork = write(tmp_path, "fork", user("q1", forked_from=origin))
    assert links_of(fork) == Links("gone", [])


def test_a_session_may_tell_where_it_is_continued(tmp_path: Path) -> None:
    note = line("continued-in", continued_in_session_id="later")
    first = write(tmp_path, "first", user("q1"), note)
    assert links_of(first) == Links(None, ["later"])


def test_a_follower_that_is_told_and_found_is_named_once(tmp_path: Path) -> None:
    note = line("continued-in", continued_in_session_id="later")
    first = write(tmp_path, "first", user("q1"), note)
    write(tmp_path, "later", user("q1"), session_id="first")
    assert links_of(first) == Links(None, ["later"])


def test_a_sub_agent_beside_a_session_does_not_go_on_with_it(tmp_path: Path) -> None:
    first = write(tmp_path, "first", user("q1"))
    write(tmp_path, "agent-a1", user("go"), session_id="first")
    assert links_of(first) == Links(None, [])
