"""The real client in a terminal, with a typing user."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

ESCAPE = b"\x1b"
RETURN = b"\r"
QUIET = 1.0
"""Seconds without output after which the client waits for something to be typed."""
PAUSE = 0.1
PATIENCE = 60.0
ROWS, COLUMNS = 50, 150


class Terminal:
    """The keyboard and the screen of a client."""

    def __init__(self, master: int) -> None:
        self._master = master
        self._last = time.monotonic() + PATIENCE  # it has yet to draw something

    def say(self, text: str) -> None:
        """Type a line, when the client is ready for it."""
        for keys in (text.encode(), RETURN):
            self._wait_until_quiet()
            self.press(keys)

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)
        self._last = time.monotonic()

    def watch(self) -> None:
        """Look at the screen until it is gone."""
        with suppress(OSError):
            while os.read(self._master, 1 << 16):
                self._last = time.monotonic()

    def _wait_until_quiet(self) -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < min(self._last + QUIET, end):
            time.sleep(PAUSE)


@contextmanager
def terminal(
    command: Sequence[str], work: Path, environment: Mapping[str, str]
) -> Generator[Terminal]:
    """Run a client that gets `/exit` at the end."""
    introduce(Path(environment["CLAUDE_CONFIG_DIR"]), work, environment["ANTHROPIC_API_KEY"])
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    client = subprocess.Popen(
        command,
        cwd=work,
        env={**environment, "TERM": "xterm-256color"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    held = Terminal(master)
    watching = Thread(target=held.watch)
    watching.start()
    try:
        yield held
        held.say("/exit")
        client.wait(PATIENCE)
    finally:
        client.kill()
        client.wait()
        watching.join()
        os.close(master)


def introduce(store: Path, work: Path, key: str) -> None:
    """Answer in advance what a client asks when it is started for the first time."""
    trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    answers = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [key], "rejected": []},
        "projects": {str(work): trusted},
    }
    (store / ".claude.json").write_text(json.dumps(answers))
