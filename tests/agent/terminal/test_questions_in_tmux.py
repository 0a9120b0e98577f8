"""Questions in a real terminal: everything that a call would do is visible, or one key away."""

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from support.scripted_api import ScriptedApi, called, said
from support.tmux import Pane, isolate_terminal, needs_tmux, terminal
from turnlog.store.paths import Store

pytestmark = needs_tmux

Start = Callable[..., AbstractContextManager[Pane]]
SIZES = pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40)])
RUN = "Run this command?"


@pytest.fixture
def ask(
    api: ScriptedApi, store: Store, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Start:
    """Starts a chat whose model makes one call, in a terminal of some size."""
    isolate_terminal(monkeypatch, tmp_path)

    def start(
        tool: str, columns: int = 80, rows: int = 24, **given: object
    ) -> AbstractContextManager[Pane]:
        api.replies[:] = [called(("t1", tool, given)), said("Done.")]
        command = [sys.executable, "-m", "turnlog", "chat", "do it"]
        return terminal(command, project, columns, rows)

    return start


def joined(screen: str) -> str:
    """Return the screen, without line breaks and indents of wrapped lines."""
    return "".join(line.strip() for line in screen.split("\n"))


def unfolded(pane: Pane, end: str) -> str:
    """All that is shown once the key was pressed; `end` is among the last of it."""
    before = pane.scrollback().count(end)
    pane.keys("C-e")
    return pane.wait(lambda seen: seen.count(end) > before, "-S", "-")


@SIZES
@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("a1; a2; a3; ls \r; touch pwned", "ls <CR>; touch pwned"),
        ("ls \x1b]0;; touch pwned", "ls <ESC>]0;; touch pwned"),
        ("ls \x1b[8m; touch pwned\x1b[2J", "ls <ESC>[8m; touch pwned<ESC>[2J"),
        ("ls \x9b2J; touch pwned", "ls <U+009B>2J; touch pwned"),
        ("ls \u202e dewp \u2066; touch pwned", "ls <U+202E> dewp <U+2066>; touch pwned"),
        ("ls\u200b\u00a0; touch pwned\b\b", "ls<U+200B><U+00A0>; touch pwned<BS><BS>"),
        ("ls" + " " * 5_000 + "; touch pwned", "ls<5,000 spaces>; touch pwned"),
    ],
)
def test_a_hostile_command_is_shown_as_it_is(
    ask: Start, project: Path, columns: int, rows: int, command: str, shown: str
) -> None:
    with ask("Bash", columns, rows, command=command) as pane:
        screen = pane.see(RUN, "❯ 1. Yes", "enter to choose")
        assert f"● Bash {command[:2]}" in screen
        assert shown.replace(" ", "") in joined(screen).replace(" ", "")
        pane.keys("Escape")
        pane.wait(lambda screen: RUN not in screen)
    assert not (project / "pwned").exists()


@SIZES
def test_a_long_line_is_wrapped_and_can_be_unfolded(ask: Start, columns: int, rows: int) -> None:
    command = "echo " + "".join(f"<{number:04}>" for number in range(850)) + "; touch pwned"
    with ask("Bash", columns, rows, command=command) as pane:
        screen = pane.see(RUN, "more lines · ctrl-e shows all", "ctrl-e to show all")
        assert "touch pwned" in screen
        assert all(len(line) <= columns for line in screen.split("\n"))
        whole = joined(unfolded(pane, "; touch pwned"))
        assert command.replace(" ", "") in whole.replace(" ", "")


def test_a_line_of_a_megabyte_does_not_stop_the_screen(ask: Start, project: Path) -> None:
    file = project / "long.txt"
    file.write_text("x" * 1_000_000 + "old\n")
    given = {"file_path": str(file), "old_string": "old", "new_string": "new"}
    with ask("Edit", **given) as pane:
        pane.see("Make this change?", "more lines · ctrl-e shows all", "xnew")
        pane.keys("C-e")
        pane.see("more lines · ctrl-e shows more")
        started = time.monotonic()
        pane.keys("Down", "Down", "Down")
        pane.see("❯ 3. No")
        assert time.monotonic() - started < 5


@SIZES
def test_a_written_line_with_a_carriage_return_is_shown_whole(
    ask: Start, project: Path, columns: int, rows: int
) -> None:
    lines = ["import os", "os.system('evil')\r# a comment", *map(str, range(300)), "last \t"]
    content = "\n".join(lines)
    with ask("Write", columns, rows, file_path=str(project / "a.py"), content=content) as pane:
        screen = pane.see("Write this file?", "more lines · ctrl-e shows all")
        assert "+os.system('evil')<CR># a comment" in screen
        assert "+last<U+0020><TAB>" in screen
        assert "\\ No newline at end of file" in screen
        whole = unfolded(pane, "+last<U+0020>")
        assert all(f"    +{number}\n" in whole for number in range(300))


def test_a_narrow_terminal_wraps_and_hides_nothing(ask: Start) -> None:
    with ask("Bash", 32, 24, command="one two three four; touch pwned-with-a-long-name") as pane:
        screen = joined(pane.see("Run this", "1. Yes", "3. No")).replace(" ", "")
        assert "onetwothreefour;touchpwned-with-a-long-name" in screen
        assert "Bash(touchpwned-with-a-long-name)" in screen
        assert "esctorefuseandstop" in screen


def test_what_is_typed_as_a_refusal_is_not_taken_for_the_key(ask: Start, api: ScriptedApi) -> None:
    with ask("Bash", command="touch x") as pane:
        pane.see(RUN, "3. No")
        pane.keys("3")
        pane.type("expand e")
        pane.see("3. No: expand e")
        pane.keys("Enter")
        pane.see("Done.")
