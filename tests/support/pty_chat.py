"""An interactive `turnlog chat` on a real pseudo-terminal, which can be taken away from it."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from uuid import uuid4

from support.chat_process import ChatProcess

PATIENCE = 40.0
STEP = 0.02
MARK = "TURNLOG_TEST_MARK"
CONTROLS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\].*?(?:\x07|\x1b\\)|[@-Z\\-_])")


class PtyChat:
    """A chat, its output so far, and all processes that it started."""

    def __init__(self, chat: ChatProcess, arguments: Sequence[str], typed: bytes) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        if typed:
            os.write(self._master, typed)
        self._mark = str(uuid4())
        self.process = subprocess.Popen(
            ["setsid", "--ctty", sys.executable, "-m", "turnlog", *arguments],
            cwd=chat.work,
            env=chat.environment | {MARK: self._mark, "TERM": "xterm-256color"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self._printed = bytearray()
        self._is_open = True
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def screen(self) -> str:
        """All that was printed, without what controls the terminal."""
        return CONTROLS.sub("", self._printed.decode("utf-8", "replace"))

    def see(self, *texts: str) -> None:
        """Wait until texts were printed."""
        wait_for(lambda: all(text in self.screen for text in texts), lambda: self.screen)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def hang_up(self) -> None:
        """Take the terminal away, as closing its window does."""
        # A read that is under way would keep the terminal open.
        self._is_open = False
        self._reader.join()
        os.close(self._master)

    def survivors(self) -> list[str]:
        """The command lines of processes that the chat started, itself included."""
        return list(self._started().values())

    def _started(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if self._mark.encode() in (place / "environ").read_bytes():
                    line = (place / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(place.name)] = line.decode()
        return found

    def close(self) -> None:
        for number in self._started():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self.process.wait()
        if self._is_open:
            self.hang_up()

    def _read(self) -> None:
        with suppress(OSError):  # nobody has the other end open any more
            while self._is_open:
                if select.select([self._master], [], [], STEP)[0]:
                    self._printed += os.read(self._master, 65536)


def wait_for(is_so: Callable[[], bool], told: Callable[[], object] = lambda: "") -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, f"it stayed so:\n{told()}"
        time.sleep(STEP)


@contextmanager
def pty_chat(chat: ChatProcess, *arguments: str, typed: bytes = b"") -> Generator[PtyChat]:
    """Start a chat; `typed` is in its terminal before it starts."""
    with pty_command(chat, "chat", *arguments, typed=typed) as running:
        yield running


@contextmanager
def pty_command(chat: ChatProcess, *arguments: str, typed: bytes = b"") -> Generator[PtyChat]:
    """Start a command of turnlog where a chat would run."""
    running = PtyChat(chat, arguments, typed)
    try:
        yield running
    finally:
        running.close()
