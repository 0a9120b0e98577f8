"""A window onto rows that are more than the screen has; it starts at the first row.

What a question asks about must not scroll out of reach, and its replies must be seen before one of
them is taken.
"""

from collections.abc import Sequence

MORE = "· rows {first}-{last} of {count} · pgdn, pgup"
LEAST = 3


class Pager:
    """The visible part of a list of rows."""

    def __init__(self) -> None:
        self._top = 0
        self._room = 0
        self._count = 0

    def window(self, rows: Sequence[str], height: int) -> list[str]:
        """Return the visible rows, followed by a row with the number of further ones, if any."""
        self._count = len(rows)
        is_whole = len(rows) <= height
        self._room = len(rows) if is_whole else max(LEAST, height) - 1
        self._top = max(0, min(self._top, self._count - self._room))
        if is_whole:
            return list(rows)
        last = self._top + self._room
        note = MORE.format(first=self._top + 1, last=last, count=self._count)
        return [*rows[self._top : last], note]

    def shows(self, row: int) -> bool:
        """Return whether a row is in sight."""
        return not self._room or self._top <= row < self._top + self._room

    def turn(self, pages: int) -> None:
        """Move by pages, which overlap in a row."""
        self._move(self._top + pages * max(1, self._room - 1))

    def show(self, row: int) -> None:
        """Move as little as brings a row in sight."""
        if row < self._top:
            self._move(row)
        elif not self.shows(row):
            self._move(row - self._room + 1)

    def _move(self, top: int) -> None:
        self._top = max(0, min(top, self._count - self._room))
