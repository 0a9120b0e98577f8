"""Session files that are being written, each line of which is read once.

A large file starts with its tail, which is enough to know its state; the rest, which is needed for
its cost, is read in slices between two looks.
"""

from pathlib import Path

from turnlog.conversation.live_figures import LiveFigures
from turnlog.format.jsonl import FileState
from turnlog.store.watch import Follower

TAIL = 1 << 18
"""Bytes of a large file that are read first."""
SLICE = 4 << 20
"""Bytes read per look while the rest of a large file is caught up."""


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
        """Whether every line was read."""
        return self._tail is None

    def refresh(self, most: int | None = SLICE) -> bool:
        """Read what is new, at most so many bytes; return whether there was anything."""
        try:
            state = FileState.of(self.path)
            if state == self._state and self.is_complete:
                return False
            self._read(state, most)
        except OSError:
            return False
        return True

    def _read(self, state: FileState, most: int | None) -> None:
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
        if _read_lines(self._follower, self._whole, self.path, most):
            self._tail = None


def _read_lines(follower: Follower, figures: LiveFigures, path: Path, most: int | None) -> bool:
    """Add new lines to figures until `most` bytes are read; return whether that was all."""
    lines, size = follower.read_new(path), 0
    for line in lines:
        figures.add(line)
        size += len(line.raw)
        if most is not None and size >= most:
            lines.close()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
            return False
    return True
