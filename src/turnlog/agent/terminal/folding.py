"""Long text, folded to fit the screen; a key prints all of it into the scrollback.

Both ends stay visible, so that padding cannot hide how a command ends.
"""

from collections.abc import Sequence

from msgspec import Struct

PAGE = 1_000
"""Rows printed at once: the scrollback of terminals is limited."""
LEAST = 4
"""Minimum number of rows per part, even if the terminal has too few."""
RESET = "\x1b[0m"
"""Resets colours: the row that would have reset them may be folded."""
NOTE = "    … {count:,} more lines · ctrl-e shows all"
NEXT = "    … {count:,} more lines · ctrl-e shows more"


class FoldedText(Struct, frozen=True):
    """A text that the scrollback shows only in part, or as a single line."""

    title: str
    text: str


def fold_rows(parts: Sequence[list[str]], room: int) -> list[list[str]]:
    """Fold parts so that together they fit into `room` rows; the first part gets most of them.

    >>> fold_rows([["a", "b", "c", "d", "e", "f"]], 4)
    [['a', 'b', '\\x1b[0m    … 3 more lines · ctrl-e shows all', 'f']]
    """
    first, others = len(parts[0]), sum(map(len, parts[1:]))
    if first + others <= room:
        return list(parts)
    # The first part is the call itself and gets most of the room; reasons keep at least a third if
    # they need it.
    left = min(others, max(room // 3, room - first))
    each = left // max(1, len(parts) - 1)
    return [_folded(parts[0], room - left), *(_folded(part, each) for part in parts[1:])]


def _folded(rows: list[str], room: int) -> list[str]:
    room = max(LEAST, room)
    if len(rows) <= room:
        return rows
    end = (room - 1) // 3
    start = room - 1 - end
    note = NOTE.format(count=len(rows) - start - end)
    return [*rows[:start], f"{RESET}{note}", *rows[len(rows) - end :]]


class Unfolding:
    """Pages through rows, one page per key press."""

    def __init__(self, rows: Sequence[str]) -> None:
        self._rows = rows
        self._place = 0

    def turn(self) -> list[str]:
        """Return the next page; after the last one, the first again."""
        page = self._rows[self._place : self._place + PAGE]
        self._place += PAGE
        left = len(self._rows) - self._place
        if left <= 0:
            self._place = 0
        return [*page, f"{RESET}{NEXT.format(count=left)}" if left > 0 else RESET]
