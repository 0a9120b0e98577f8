"""A window onto more rows than fit on the screen; it starts at the first row.

Everything that a question is about must stay within reach, and a reply must be visible before it
can be chosen.
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
        """Return the visible rows; if there are more, append a row with their position."""
        is_whole = len(rows) <= height
        seen = self._fit(len(rows), len(rows) if is_whole else max(LEAST, height) - 1)
        if is_whole:
            return list(rows)
        note = MORE.format(first=seen.start + 1, last=seen.stop, count=self._count)
        return [*rows[seen.start : seen.stop], note]

    def visible(self, count: int, height: int) -> range:
        """Return the indexes of the visible rows, given the total."""
        return self._fit(count, min(count, height))

    def _fit(self, count: int, room: int) -> range:
        self._count, self._room = count, room
        self._top = max(0, min(self._top, count - room))
        return range(self._top, self._top + room)

    def shows(self, row: int) -> bool:
        """Return whether a row is visible."""
        return not self._room or self._top <= row < self._top + self._room

    def turn(self, pages: int) -> None:
        """Scroll by pages, which overlap by one row."""
        self._move(self._top + pages * max(1, self._room - 1))

    def step(self, rows: int) -> None:
        """Scroll by rows."""
        self._move(self._top + rows)

    def show(self, row: int) -> None:
        """Scroll as little as possible to make a row visible."""
        if row < self._top:
            self._move(row)
        elif not self.shows(row):
            self._move(row - self._room + 1)

    def _move(self, top: int) -> None:
        self._top = max(0, min(top, self._count - self._room))
