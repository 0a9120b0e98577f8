"""Session files that are being written; each poll reads only new lines.

Of a large file, the tail is read first, which is enough to know the session's state. Its cost needs
the whole file, which is read in slices, one per poll.
"""

from pathlib import Path

from turnlog.conversation.live_figures import LiveFigures
from turnlog.format.jsonl import FileState
from turnlog.store.watch import Follower

TAIL = 1 << 17
"""Bytes of a large file that are read first."""
SLICE = 4 << 20
"""Maximum number of bytes to read per poll, from all files together."""
LEAST = 1 << 16
"""Bytes that may be read from each file per poll, even if the others have used up the budget."""


class ReadBudget:
    """The number of bytes that one poll may still read; None is no limit."""

    def __init__(self, left: int | None = SLICE) -> None:
        self._left = left

    def refresh(self, file: "LiveFile") -> None:
        """Read the new lines of a file, as far as the budget allows."""
        # Fifty large sessions would otherwise take fifty slices before the first row is shown.
        most = None if self._left is None else max(self._left, LEAST)
        size = file.refresh(most)
        if self._left is not None:
            self._left = max(0, self._left - size)


class LiveFile:
    """One growing file and its figures."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._state: FileState | None = None
        self._follower = Follower()
        self._whole = LiveFigures()
        self._tail: tuple[Follower, LiveFigures] | None = None

    @property
    def figures(self) -> LiveFigures:
        """The newest figures; their cost is that of the tail until `is_complete`."""
        return self._tail[1] if self._tail else self._whole

    @property
    def is_complete(self) -> bool:
        """True if every line was read."""
        return self._tail is None

    def refresh(self, most: int | None = SLICE) -> int:
        """Read at most `most` bytes of new lines; return how many were read."""
        try:
            state = FileState.of(self.path)
            if state == self._state and self.is_complete:
                return 0
            return self._read(state, most)
        except OSError:
            return 0

    def _read(self, state: FileState, most: int | None) -> int:
        if self._state is not None and not self._follower.position(self.path):
            # The file was replaced: what was counted is no longer in it.
            self._whole, self._tail = LiveFigures(), None
        is_far = state.size - self._follower.position(self.path) > (most or state.size)
        if is_far and self._tail is None:
            follower = Follower()
            follower.skip_to_tail(self.path, TAIL)
            self._tail = follower, LiveFigures()
        self._state = state
        if self._tail:
            _read_lines(*self._tail, self.path, None)
        size = _read_lines(self._follower, self._whole, self.path, most)
        if most is None or size < most:
            self._tail = None
        return size


def _read_lines(follower: Follower, figures: LiveFigures, path: Path, most: int | None) -> int:
    """Add new lines to figures until `most` bytes are read; return how many were read."""
    lines, size = follower.read_new(path), 0
    for line in lines:
        figures.add(line)
        size += len(line.raw)
        if most is not None and size >= most:
            lines.close()
            break
    return size
