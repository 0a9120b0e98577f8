"""Uncommitted changes and those of each turn, page by page in a real terminal."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from support.scripted_api import ScriptedApi, called, said
from support.tmux import Pane, isolate_terminal, needs_tmux, terminal
from turnlog.agent.terminal.diff_command import MOST_LINES, diffs_of_turns
from turnlog.agent.terminal.styled_text import make_style
from turnlog.agent.terminal.text_viewer import TextViewer
from turnlog.store.paths import Store

CHAT = [sys.executable, "-m", "turnlog", "chat", "--permission-mode", "acceptEdits"]


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


@pytest.fixture
def repository(
    project: Path, api: ScriptedApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A project with a commit, and a terminal of its own."""
    isolate_terminal(monkeypatch, tmp_path)
    git(project, "init", "-q")
    (project / "cart.py").write_text("total = 1\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "Start")
    return project


def leave(pane: Pane) -> None:
    """Leave a menu or a viewer."""
    pane.keys("Escape")


@needs_tmux
def test_changes_are_shown_by_turn_and_as_not_committed(repository: Path, api: ScriptedApi) -> None:
    write = {"file_path": str(repository / "cart.py"), "content": "total = 2\n"}
    read = {"file_path": str(repository / "cart.py")}
    new = {"file_path": str(repository / "new.py"), "content": "-- x\n"}
    api.replies[:] = [
        called(("t1", "Read", read)),
        called(("t2", "Write", write)),
        said("First."),
        called(("t3", "Write", new)),
        said("Second."),
    ]
    with terminal(CHAT, repository, 100, 30) as pane:
        pane.see("% of 1M")
        pane.say("double it")
        pane.see("First.")
        pane.say("write another")
        pane.see("Second.")
        pane.say("/diff")
        pane.see("Not committed", "1 file · +1 -1 · 1 file not tracked")
        pane.see("Turn 2: write another", "1 file · +1 -0", "Turn 1: double it")
        pane.keys("Enter")
        pane.see("not tracked by git: new.py", "-total = 1", "+total = 2")
        leave(pane)
        pane.see("❯ Not committed")
        pane.keys("Down", "Enter")
        pane.see("Turn 2: write another", "+-- x")
        pane.keys("q")
        pane.see("❯ Turn 2")
        leave(pane)
        pane.wait(lambda screen: "Show which changes?" not in screen)
        pane.say("go on")
        pane.wait(lambda screen: screen.count("Second.") == 2)


@needs_tmux
def test_a_huge_diff_is_paged_and_cut(repository: Path) -> None:
    (repository / "cart.py").write_text("".join(f"row {n}\n" for n in range(3 * MOST_LINES)))
    with terminal(CHAT, repository, 100, 30) as pane:
        pane.see("% of 1M")
        pane.say("/diff")
        pane.see("1 file · +60,000 -1")
        pane.keys("Enter")
        pane.see("rows 1-", "+row 1")
        pane.keys("PageDown")
        pane.see("+row 40")
        leave(pane)
        pane.see("❯ Not committed")
        leave(pane)
        pane.wait(lambda screen: "Show which changes?" not in screen)


@needs_tmux
def test_without_git_only_turns_are_shown(
    project: Path, api: ScriptedApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate_terminal(monkeypatch, tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    with terminal(CHAT, project, 100, 30) as pane:
        pane.see("% of 1M")
        pane.say("/diff")
        pane.see("Not committed", "this directory is not in a git repository")
        leave(pane)
        pane.see("% of 1M")


@needs_tmux
def test_a_rule_that_denies_git_denies_the_diff(repository: Path, store: Store) -> None:
    with terminal([*CHAT, "--disallowed-tools", "Bash(git:*)"], repository, 100, 30) as pane:
        pane.see("% of 1M")
        pane.say("/diff")
        pane.see("Not committed")
        pane.keys("Enter")
        pane.see("may not run: Bash(git:*) denies it")


@needs_tmux
def test_programs_that_a_repository_names_do_not_run(repository: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    (repository / ".gitattributes").write_text("*.py diff=evil filter=evil\n")
    for key in ("diff.evil.textconv", "diff.evil.command", "filter.evil.clean", "core.fsmonitor"):
        git(repository, "config", key, f"touch {mark}; cat")
    (repository / "cart.py").write_text("total = 3\n")
    mark.unlink(missing_ok=True)
    with terminal(CHAT, repository, 100, 30) as pane:
        pane.see("% of 1M")
        pane.say("/diff")
        pane.see("Not committed")
    assert not mark.exists()


def test_no_session_has_no_turns(tmp_path: Path) -> None:
    assert diffs_of_turns(tmp_path / "nosuch.jsonl") == []


def test_a_viewer_lets_no_line_control_the_terminal() -> None:
    async def rows() -> list[str]:
        viewer = TextViewer("a\x1b[2J", [("added", "+x\x1b]0;owned\x07\r")])
        return viewer.fit(make_style(is_coloured=False), 60, 10)

    shown = "".join(asyncio.run(rows()))
    assert shown.isprintable() or "\x1b[2m" in shown
    assert "\x1b]" not in shown
    assert "\x1b[2J" not in shown
