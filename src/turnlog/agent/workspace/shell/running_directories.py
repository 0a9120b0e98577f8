"""Track the directories of running commands: where they run, and what they move or remove.

Permission for a command was decided for the directories that it runs in. While it runs, no other
command may move one of them without asking: `..` would lead somewhere else.
"""

from collections.abc import Generator
from contextlib import contextmanager

from turnlog.agent.workspace.access import DirectoryUse


class Activity:
    """Running commands of a conversation and its sub-agents."""

    def __init__(self) -> None:
        self._running: dict[int, DirectoryUse] = {}
        self._last = 0

    @property
    def running(self) -> tuple[DirectoryUse, ...]:
        """The footprints of all commands that have not ended."""
        return tuple(self._running.values())

    def begin(self, footprint: DirectoryUse) -> int:
        """Register a starting command; return the number to pass to `end`."""
        self._last += 1
        self._running[self._last] = footprint
        return self._last

    def end(self, number: int) -> None:
        """Unregister a command."""
        self._running.pop(number, None)

    @contextmanager
    def during(self, footprint: DirectoryUse) -> Generator[None]:
        """Register a command for the duration of the block."""
        number = self.begin(footprint)
        try:
            yield
        finally:
            self.end(number)
