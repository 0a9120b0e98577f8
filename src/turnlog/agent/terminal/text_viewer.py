"""A full-height viewer for long text in place of the prompt, page by page.

Rows are wrapped once per width, and coloured when they become visible: a diff may have many
thousands.
"""

from collections.abc import Sequence

from turnlog.agent.terminal.menu import Menu
from turnlog.agent.terminal.paging import Pager
from turnlog.agent.terminal.styled_text import Style, cut, fold, one_line, printable

FOOT = "up, down, pgup, pgdn to move · esc to go back"
STEPS = {"up": -1, "down": 1}
PAGES = {"forward": 1, "back": -1, "enter": 1}
SPACE = " "

ViewedLine = tuple[str, str]
"""A role and a line of text."""


class TextViewer(Menu):
    """Shows lines until the user leaves; it has no items to choose."""

    def __init__(self, title: str, lines: Sequence[ViewedLine]) -> None:
        super().__init__([title], [], FOOT)
        self._lines = lines
        self._pager = Pager()
        self._columns = 0
        self._rows: list[ViewedLine] = []

    def press(self, key: str, text: str = "") -> None:
        if key in STEPS:
            self._pager.step(STEPS[key])
        elif key in PAGES:
            self._pager.turn(PAGES[key])
        elif key == "text" and text == SPACE:
            self._pager.turn(1)
        elif key == "escape" or (key == "text" and text == "q"):
            self.choose(None)

    def fit(self, style: Style, columns: int, rows: int) -> list[str]:
        if columns != self._columns:
            self._columns, self._rows = columns, self._folded(columns - 1)
        head = style(cut(one_line(self.head[0]), columns - 1), "bold")
        count = len(self._rows)
        seen = self._pager.visible(count, max(1, rows - 2))
        body = [style(text, role) for role, text in self._rows[seen.start : seen.stop]]
        place = (
            f"rows {seen.start + 1:,}-{seen.stop:,} of {count:,} · " if len(seen) < count else ""
        )
        foot = style(cut(f"{place}{FOOT}", columns - 1), "dim")
        return [head, *(body or [style("  nothing", "dim")]), foot]

    def _folded(self, room: int) -> list[ViewedLine]:
        return [
            (role, row)
            for role, line in self._lines
            for row in fold(printable(line), room, 2).split("\n")
        ]
