"""Measure the picker in a terminal: its first paint, and the time from a key to its result."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from measure import Job

PATIENCE = 30.0
QUIET = 0.4
"""Seconds without output after which the picker has nothing left to draw."""
HELD = 40
"""Repeats of a held key."""
REPEAT = 1 / 30
"""Seconds between two repeats."""
SIZES = ((80, 24), (200, 50))
FIRST_PAINT = 0.3
KEYSTROKE = 0.05
"""Seconds that are aimed at."""
MARK = b"project-"
"""A part of every row."""
WORD = "commit"
"""A word that occurs in nearly every session: the slowest search."""
DOWN = b"\x1b[B"
SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[=>])")


class PickerScreen:
    """What a picker draws, and the keys it gets."""

    def __init__(self, master: int, pid: int) -> None:
        self._master = master
        self._pid = pid
        self.drawn = b""

    def cpu_seconds(self) -> float:
        """Return the processor time that the picker has used."""
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def wait(self, text: bytes, start: int = 0) -> float:
        """Wait until a text is drawn after a position; return the moment."""
        end = time.monotonic() + PATIENCE
        while text not in SEQUENCE.sub(b"", self.drawn[start:]):
            if not self._read(end - time.monotonic()):
                raise TimeoutError(f"{text!r} was never drawn")
        return time.perf_counter()

    def settle(self) -> float:
        """Wait until nothing is drawn any more; return when something was drawn last."""
        last = time.perf_counter()
        while self._read(QUIET):
            last = time.perf_counter()
        return last

    def press(self, keys: bytes) -> float:
        """Press keys; return the moment."""
        moment = time.perf_counter()
        os.write(self._master, keys)
        return moment

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], max(0, seconds))[0]:
            return False
        self.drawn += os.read(self._master, 1 << 16)
        return True


@contextmanager
def picker(
    command: Sequence[str | Path], environment: Mapping[str, str], size: tuple[int, int]
) -> Generator[tuple[float, PickerScreen]]:
    """Start a picker; yield the moment and its screen."""
    master, follower = pty.openpty()
    columns, rows = size
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    started = time.perf_counter()
    process = subprocess.Popen(
        list(map(str, command)),
        env={**environment, "TERM": "xterm-256color"},
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
    )
    os.close(follower)
    try:
        yield started, PickerScreen(master, process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        os.close(master)


def pick_jobs(
    turnlog: Path, environment: Mapping[str, str], rounds: int
) -> Iterator[tuple[Job, float]]:
    """Measure the first paint, typing a word, and a held key; yield jobs with their aims."""
    for columns, rows in SIZES:
        size = f"{columns}×{rows}"
        paint, key, held = (
            Job(f"turnlog pick {size}, {name}", (), dict(environment))
            for name in ("first paint", "key to result", "lag after a held key")
        )
        for _ in range(rounds):
            command = (turnlog, "pick", "--all")
            with picker(command, environment, (columns, rows)) as (start, screen):
                paint.times.append(screen.wait(MARK) - start)
                paint.busy.append(screen.cpu_seconds())
                screen.settle()
                for letter in WORD:
                    before = screen.cpu_seconds()
                    key.times.append(_answer(screen, letter.encode()))
                    key.busy.append(screen.cpu_seconds() - before)
                before = screen.cpu_seconds()
                held.times.append(_hold(screen, DOWN))
                held.busy.append((screen.cpu_seconds() - before) / HELD)
        yield from ((paint, FIRST_PAINT), (key, KEYSTROKE), (held, KEYSTROKE))


def _answer(screen: PickerScreen, key: bytes) -> float:
    """Return the seconds from a key to the last change that it makes on the screen."""
    pressed = screen.press(key)
    return screen.settle() - pressed


def _hold(screen: PickerScreen, key: bytes) -> float:
    """Return the seconds that the screen lags behind when a held key is released."""
    released = screen.press(key)
    for _ in range(HELD - 1):
        time.sleep(REPEAT)
        released = screen.press(key)
    return screen.settle() - released
