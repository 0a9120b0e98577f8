"""Questions on a terminal of ten rows: everything can be read before answering."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from support.scripted_api import ScriptedApi, called, said
from support.tmux import Pane, needs_tmux, terminal
from turnlog.store.paths import Store

pytestmark = needs_tmux

Start = Callable[..., AbstractContextManager[Pane]]
PARTS = [f"part{number:03}" for number in range(150)]
COMMAND = f"touch pwned; {'; '.join(PARTS)}"
SIZES = pytest.mark.parametrize(("columns", "rows"), [(40, 10), (30, 7), (100, 9)])


@pytest.fixture
def ask(
    api: ScriptedApi, store: Store, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Start:
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    monkeypatch.delenv("TMUX", raising=False)

    def start(columns: int, rows: int, **given: object) -> AbstractContextManager[Pane]:
        api.replies[:] = [called(("t1", "Bash", given)), said("Done.")]
        asking = '{"permissions": {"ask": ["Bash"]}}'
        command = [sys.executable, "-m", "turnlog", "chat", "--settings", asking, "do it"]
        return terminal(command, project, columns, rows)

    return start


def pages(pane: Pane) -> list[str]:
    """Return the content of each page, from the first to the last."""
    found = [pane.see("pgdn")]
    while "enter to" not in found[-1]:
        pane.keys("PageDown")
        found.append(pane.wait(lambda screen: screen != found[-1]))
        assert len(found) < 60, found[-1]
    return found


@SIZES
def test_a_long_question_starts_at_its_beginning_and_can_be_read_to_its_end(
    ask: Start, project: Path, columns: int, rows: int
) -> None:
    with ask(columns, rows, command=COMMAND) as pane:
        first, *rest = pages(pane)
        assert "● Bash" in first
        assert "of " in first.split("\n")[-2]
        assert rest
        everything = "".join("".join(page.split()) for page in (first, *rest))
        for part in ("touchpwned", *PARTS, "Runthiscommand?", "1.Yes", "No", "entertochoose"):
            assert part in everything
        assert not (project / "pwned").exists()


def test_enter_takes_no_reply_that_is_out_of_sight(ask: Start, project: Path) -> None:
    with ask(40, 10, command=COMMAND) as pane:
        pane.see("pgdn")
        seen = ""
        while "1. Yes" not in seen:
            pane.keys("Enter")
            seen = pane.wait(lambda screen, before=seen: screen != before)
            assert not (project / "pwned").exists()
        pane.keys("Enter")
        pane.see("Done.")
    assert (project / "pwned").exists()


def test_every_reply_can_be_reached(ask: Start, project: Path) -> None:
    with ask(40, 10, command=COMMAND) as pane:
        screen = pane.see("pgdn")
        for _ in range(40):
            if ". No" in screen and "❯ 1." not in screen:
                break
            pane.keys("Down")
            screen = pane.wait(lambda seen, before=screen: seen != before)
        pane.keys("Enter")
        pane.see("refused")
    assert not (project / "pwned").exists()


def test_a_short_question_has_no_pages(ask: Start, project: Path) -> None:
    with ask(80, 24, command="touch pwned") as pane:
        screen = pane.see("Run this command?", "❯ 1. Yes", "enter to choose")
        assert "pgdn" not in screen
        pane.keys("Enter")
        pane.see("Done.")
    assert (project / "pwned").exists()
