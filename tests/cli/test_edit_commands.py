"""The commands that change sessions: previewed, done, undone."""

import json
import os
from pathlib import Path

import pytest

from build import SESSION, assistant, call, result, session, text, user
from cli.conftest import Run

CONTENT = session(
    user("first"),
    assistant(call("Bash", {"command": "ls"}, "A"), message_id="m1"),
    result("A", "out"),
    assistant(text("done"), message_id="m2"),
)


@pytest.fixture
def path(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session that no client has touched lately, and a journal of its own."""
    monkeypatch.setenv("TURNLOG_HOME", str(project.parent.parent / "turnlog"))
    path = project / f"{SESSION}.jsonl"
    path.write_bytes(CONTENT)
    os.utime(path, (0, 0))
    return path


def test_edit_changes_a_session_and_undo_brings_it_back(path: Path, turnlog: Run) -> None:
    done = turnlog("edit", SESSION, "--strip-tools")
    assert done.code == 0
    assert "4 → 2 entries" in done.out
    assert b"tool_use" not in path.read_bytes()
    assert turnlog("history").out.count(SESSION) == 1
    assert turnlog("undo").code == 0
    assert path.read_bytes() == CONTENT
    assert "undone" in turnlog("history").out


def test_a_dry_run_touches_nothing(path: Path, turnlog: Run) -> None:
    told = turnlog("edit", SESSION, "--strip-tools", "--dry-run")
    assert told.out.startswith("Would edit")
    assert turnlog("clone", SESSION, "--dry-run").out.startswith("Would clone")
    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]
    assert json.loads(turnlog("history", "--json").out) == []


def test_clone_makes_a_session_that_undo_removes(path: Path, turnlog: Run) -> None:
    made = json.loads(turnlog("clone", SESSION, "--strip-tools", "--json").out)
    clone = Path(made["path"])
    assert clone.is_file()
    assert clone.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == CONTENT
    assert turnlog("undo").code == 0
    assert not clone.exists()


def test_edit_without_a_wish_is_a_wrong_command_line(path: Path, turnlog: Run) -> None:
    assert turnlog("edit", SESSION).code == 2


def test_a_session_in_use_is_refused_and_left_alone(path: Path, turnlog: Run) -> None:
    os.utime(path)
    refused = turnlog("edit", SESSION, "--strip-tools")
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert path.read_bytes() == CONTENT


def test_undo_with_nothing_to_undo_says_so(path: Path, turnlog: Run) -> None:
    assert turnlog("undo").code == 1
    assert turnlog("undo", "nosuch").code == 1
