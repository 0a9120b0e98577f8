"""Edited sessions: every edition arrives on every machine."""

from pathlib import Path

import pytest

from support.build import SESSION, assistant, session, text, user
from support.machines import SyncedMachine, all_sync, machines

START = session(user("hi"), assistant(text("hello")))
SUBAGENT = session(user("task"), assistant(text("done")))


@pytest.fixture
def three(tmp_path: Path) -> list[SyncedMachine]:
    return machines(tmp_path)


def lines(*contents: bytes) -> set[bytes]:
    return {line for content in contents for line in content.splitlines(keepends=True)}


def require_everywhere(these: list[SyncedMachine], *contents: bytes) -> None:
    """Let all machines sync twice: all have all lines, and nothing changes any more."""
    all_sync(these, rounds=2)
    assert [machine.lines() for machine in these] == [lines(*contents)] * len(these)
    reports = all_sync(these)
    assert not any(report.problems or report.changes or report.sent for report in reports)


@pytest.mark.parametrize("is_known", [True, False], ids=["state kept", "state lost"])
def test_an_edit_of_nothing_but_a_subagent_is_an_edition(
    three: list[SyncedMachine], is_known: bool
) -> None:
    a, _, _ = three
    subagent = a.write(START).parent / SESSION / "subagents" / "agent-a1.jsonl"
    subagent.parent.mkdir(parents=True, exist_ok=True)
    subagent.write_bytes(SUBAGENT)
    all_sync(three, rounds=2)
    edited = SUBAGENT.replace(b"done", b"DONE")
    subagent.write_bytes(edited)
    if not is_known:
        a.lose_state()
    require_everywhere(three, START, SUBAGENT, edited)
    assert subagent.read_bytes() == edited
