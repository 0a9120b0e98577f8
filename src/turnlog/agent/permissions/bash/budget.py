"""Limits on the work for one verdict, however long the command is.

`decide` resets them. A command that exceeds a limit asks.
"""

from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic, sleep, thread_time

MOST_NAMES = 200_000
"""Maximum number of directory entries compared by name."""
MOST_COMPARISONS = 50_000
"""Maximum number of comparisons of a file with a rule."""
MOST_SECONDS = 1.0
"""Maximum CPU time of a verdict, which does not depend on how busy the machine is."""
LONGEST_WAIT = 10.0
"""Maximum elapsed seconds of a verdict, for example on a slow network drive."""
SLICE, PAUSE = 0.02, 0.001
"""Seconds of work after which a verdict pauses for other threads, and seconds of each pause.

A verdict makes many system calls, each of which releases the GIL for an instant. That wakes the
console's thread, which never gets the GIL in time: without pauses, the screen froze.
"""


class UnknownValue(ValueError):
    """A value that is only known when the command runs, or that takes too long to compute."""


class TooComplex(Exception):
    """A verdict takes too long.

    Not an `UnknownValue`: some callers skip a single unknown path, and none may skip this.
    """


class Clock:
    """The time left for the current verdict; outside of one, there is no limit."""

    def __init__(self) -> None:
        self._start: tuple[float, float] | None = None
        self._paused = 0.0

    def start(self) -> None:
        """Start a new verdict."""
        self._start = thread_time(), monotonic()

    def stop(self) -> None:
        """End the verdict."""
        self._start = None

    def check(self) -> None:
        """Raise `TooComplex` if the verdict takes too long; let other threads run now and then."""
        if self._start is None:
            return
        computed, started = self._start
        now = monotonic()
        # Two limits: CPU time, which does not depend on other processes, and elapsed time, which
        # includes waiting for a network drive.
        if thread_time() - computed > MOST_SECONDS or now - started > LONGEST_WAIT:
            raise TooComplex("too complex to decide about in time")
        if now - self._paused > SLICE:
            sleep(PAUSE)
            self._paused = monotonic()


class Budget:
    """The amount of work left for the current verdict."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.left = most

    def reset(self) -> None:
        """Start a new verdict."""
        self.left = self.most

    def spend(self, amount: int = 1) -> None:
        """Use up some of the budget; raise `UnknownValue` when there is none left."""
        CLOCK.check()
        self.left -= amount
        if self.left < 0:
            raise UnknownValue("too many files")


CLOCK = Clock()
NAMES = Budget(MOST_NAMES)
COMPARISONS = Budget(MOST_COMPARISONS)


@contextmanager
def fresh_budgets() -> Generator[None]:
    """Give a verdict full budgets for as long as the block runs."""
    for each in (NAMES, COMPARISONS):
        each.reset()
    CLOCK.start()
    try:
        yield
    finally:
        CLOCK.stop()
