"""A terminal to test in: tmux without a window, whose screen can be read."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

NO_TMUX = "tmux is not installed"
needs_tmux = pytest.mark.skipif(not shutil.which("tmux"), reason=NO_TMUX)
PATIENCE = 30.0
STEP = 0.05


class Pane:
    """A program in a terminal."""

    def __init__(self, socket: Path) -> None:
        self._tmux = ["tmux", "-u", "-S", str(socket), "-f", os.devnull]

    def run(self, *command: str) -> str:
        done = subprocess.run(
            [*self._tmux, *command], capture_output=True, text=True, check=True, encoding="utf-8"
        )
        return done.stdout

    def start(self, command: Sequence[str], cwd: Path, columns: int, rows: int) -> None:
        size = ["-x", str(columns), "-y", str(rows)]
        self.run("new-session", "-d", *size, "-c", str(cwd), *command)
        self.run("set-option", "remain-on-exit", "on")

    def keys(self, *names: str) -> None:
        """Press keys, by tmux's names for them."""
        self.run("send-keys", *names)

    def type(self, text: str) -> None:
        """Type a text."""
        self.run("send-keys", "-l", text)

    def say(self, text: str) -> None:
        """Type a text and send it."""
        self.type(text)
        self.keys("Enter")

    def paste(self, text: str) -> None:
        """Paste a text, as terminals do."""
        self.run("set-buffer", text)
        self.run("paste-buffer", "-p")

    def resize(self, columns: int, rows: int) -> None:
        self.run("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self, *options: str) -> str:
        """Return the screen, without empty lines at the end."""
        lines = self.run("capture-pane", "-p", *options).split("\n")
        return "\n".join(line.rstrip() for line in lines).rstrip("\n")

    def scrollback(self) -> str:
        """Return everything that was ever shown and is not redrawn, and the screen."""
        return self.screen("-S", "-")

    def wait(self, is_there: Callable[[str], bool], *options: str) -> str:
        """Wait until the screen is as wanted."""
        end = time.monotonic() + PATIENCE
        while True:
            screen = self.screen(*options)
            if is_there(screen):
                return screen
            assert time.monotonic() < end, f"the screen stayed so:\n{screen}"
            time.sleep(STEP)

    def see(self, *texts: str) -> str:
        """Wait until texts are on the screen."""
        return self.wait(lambda screen: all(text in screen for text in texts))

    def is_dead(self) -> bool:
        """Return whether the program has ended."""
        return self.run("display-message", "-p", "#{pane_dead}").strip() == "1"


@contextmanager
def terminal(
    command: Sequence[str], cwd: Path, columns: int = 80, rows: int = 30
) -> Generator[Pane]:
    """A terminal that runs a program, which gets the environment of the test."""
    with tempfile.TemporaryDirectory() as folder:
        pane = Pane(Path(folder, "s"))
        pane.start(command, cwd, columns, rows)
        try:
            yield pane
        finally:
            subprocess.run([*pane._tmux, "kill-server"], capture_output=True, check=False)


Start = Callable[..., AbstractContextManager[Pane]]
"""Starts a chat in a terminal, with options and the size of the window."""


def isolate_terminal(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Keep variables of the developer's own terminal and home from programs in a pane."""
    monkeypatch.setenv("TURNLOG_HOME", str(folder / "own"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("TMUX", raising=False)
