"""The task list above the prompt: its order, Ctrl-T, resumed sessions and hostile texts."""

import sys
from pathlib import Path

import pytest

from support.scripted_api import ScriptedApi, called, said
from support.tmux import isolate_terminal, needs_tmux, terminal
from turnlog.agent.terminal.checklist import Checklist
from turnlog.agent.terminal.styled_text import COLOUR, cells, make_style
from turnlog.format.json_values import Fields

STYLE = make_style(is_coloured=False)


def task(number: int, status: str = "pending", **more: object) -> Fields:
    return {"id": str(number), "subject": f"Do {number}", "status": status, **more}


def test_what_is_in_progress_comes_first_and_what_is_done_last() -> None:
    tasks = Checklist()
    done, blocked = task(1, "completed"), task(2, blockedBy=["4"])
    tasks.take([done, blocked, task(3), task(4, "in_progress"), *map(task, range(5, 8))])
    rows = [COLOUR.sub("", row) for row in tasks.rows(STYLE, 40, is_running=False)]
    assert rows == [
        "◐ Do 4",
        "☐ Do 3",
        "☐ Do 5",
        "☐ Do 6",
        "☐ Do 7",
        "  … +1 pending, 1 completed",
    ]


def test_a_list_that_is_done_is_shown_only_during_the_turn_or_on_request() -> None:
    tasks = Checklist()
    tasks.take([task(1, "completed")])
    assert tasks.rows(STYLE, 40, is_running=True)
    assert not tasks.rows(STYLE, 40, is_running=False)
    tasks.toggle(is_running=False)
    assert tasks.rows(STYLE, 40, is_running=False)


def test_a_hostile_subject_stays_in_its_row() -> None:
    tasks = Checklist()
    subject = "a\nb\x1b[2J\u202e\r" + "日" * 100_000
    tasks.take([task(1) | {"subject": subject, "status": 7, "blockedBy": "x"}] * 5_000)
    rows = tasks.rows(STYLE, 40, is_running=True)
    assert all(cells(row) <= 40 for row in rows)
    assert not set("\n\x1b\r\u202e") & set("".join(rows))


@needs_tmux
def test_the_list_is_hidden_shown_and_there_again_in_a_resumed_session(
    api: ScriptedApi, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate_terminal(monkeypatch, tmp_path)
    monkeypatch.setenv("CLAUDE_CODE_ENABLE_TODO_TOOLS", "1")
    calls = [(f"t{n}", "TaskCreate", {"subject": f"Do {n}", "description": "d"}) for n in "12"]
    api.replies[:] = [called(*calls), said("Noted.")]
    command = [sys.executable, "-m", "turnlog", "chat"]
    with terminal(command, project) as pane:
        pane.see("% of")
        pane.say("plan")
        pane.see("Noted.", "☐ Do 1\n☐ Do 2")
        pane.keys("C-t")
        pane.wait(lambda screen: "☐ Do 1" not in screen)
        pane.keys("C-t")
        pane.see("☐ Do 1\n☐ Do 2")
    with terminal([*command, "-c"], project) as pane:
        pane.see("Noted.", "☐ Do 1\n☐ Do 2")
