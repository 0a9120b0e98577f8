"""Menus in place of the prompt: rendering and key handling.

Lists do not wrap around: Up on the first item must not select the last, which may be far more
drastic.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from turnlog.agent.terminal.paging import Pager
from turnlog.agent.terminal.styled_text import Style, cells, cut, fold, one_line

EXPAND = "ctrl-e to show all"
MARK, NO_MARK = "❯ ", "  "
INDENT = 5
LOWEST = 6
FEWEST = 3
"""Minimum number of visible items."""


class Item(Struct, frozen=True):
    """An item of a menu."""

    label: str
    value: Any
    note: str = ""
    """Additional information."""


class Menu:
    """A list to choose from; typing filters it if `is_narrowed`."""

    is_numbered = False

    def __init__(
        self, head: Sequence[str], items: Sequence[Item], foot: str = "", is_narrowed: bool = False
    ) -> None:
        self.head = list(head)
        self.items = list(items)
        self.foot = foot
        self.typed = ""
        self.index = 0
        self.expand: Callable[[], None] | None = None
        """Prints folded rows, if any."""
        self._is_narrowed = is_narrowed
        self.chosen: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    @property
    def shown(self) -> list[Item]:
        """Items that match the filter."""
        words = self.typed.lower().split()
        if not words or not self._is_narrowed:
            return self.items
        return [
            item
            for item in self.items
            if all(word in f"{item.label} {item.note}".lower() for word in words)
        ]

    def press(self, key: str, text: str = "") -> None:
        """Handle a key: up, down, forward, back, enter, escape, erase, expand, mode, or text."""
        count = len(self.shown)
        if key in ("up", "down"):
            self.index += 1 if key == "down" else -1
        elif key == "expand" and self.expand:
            self.expand()
        elif key == "enter" and count:
            self.choose(self.shown[self.index].value)
        elif key == "escape":
            self.choose(None)
        elif key == "text":
            self._type(text)
        elif key == "erase":
            self.typed = self.typed[:-1]
        self.index = max(0, min(self.index, len(self.shown) - 1))

    def choose(self, value: Any) -> None:
        """Finish with a choice."""
        # Keys may be pressed faster than the menu closes.
        if not self.chosen.done():
            self.chosen.set_result(value)

    def _type(self, text: str) -> None:
        if self._is_narrowed:
            self.typed += one_line(text) if text.strip() else " "
            self.index = 0
        elif self.is_numbered and text.isdecimal() and 0 < int(text) <= len(self.items):
            self.choose(self.items[int(text) - 1].value)

    def rows(self, style: Style, columns: int, height: int) -> list[str]:
        """Return the rows of the menu."""
        head, foot = self._head_rows(style, columns), self._foot_rows(style, columns)
        room = max(FEWEST, height - len(head) - len(foot))
        items = self.shown
        # The selected item stays in the middle, except at both ends of the list.
        start = max(0, min(self.index - room // 2, len(items) - room))
        listed = [
            row
            for number in range(start, min(len(items), start + room))
            for row in self.row(number, items[number], style, columns).split("\n")
        ]
        return [*head, *(listed or [style("  nothing", "dim")]), *foot]

    def fit(self, style: Style, columns: int, rows: int) -> list[str]:
        """Return the menu fitted to a number of rows."""
        return self.rows(style, columns, max(LOWEST, rows // 2))

    def _head_rows(self, style: Style, columns: int) -> list[str]:
        head = [
            row
            for number, line in enumerate(self.head)
            for row in fold(style(line, "dim" if number else "bold"), columns - 1).split("\n")
        ]
        if self._is_narrowed:
            head.append(f"{style('search:', 'dim')} {style(self.typed, 'text')}▏")
        return head

    def _foot_rows(self, style: Style, columns: int) -> list[str]:
        text = " · ".join(filter(None, (self.foot, EXPAND if self.expand else "")))
        return fold(style(text, "dim"), columns - 1).split("\n") if text else []

    def row(self, number: int, item: Item, style: Style, columns: int) -> str:
        """Return an item as one line: its label, then additional information."""
        is_chosen = number == self.index
        mark = MARK if is_chosen else NO_MARK
        label = f"{number + 1}. {item.label}" if self.is_numbered else item.label
        room = max(10, columns - len(mark) - 1)
        note = cut(one_line(item.note), room // 2)
        label = cut(one_line(label), room - cells(note) - 2 * bool(note))
        gap = " " * max(2, room - cells(label) - cells(note)) if note else ""
        role = "chosen" if is_chosen else "text"
        return f"{style(mark, role)}{style(label, role)}{gap}{style(note, 'dim')}"


class Choices(Menu):
    """A short menu whose items also have number keys; labels are never truncated.

    Rows that do not fit on the screen can be paged through, and no item can be chosen while it is
    out of sight.
    """

    is_numbered = True
    preface: Sequence[str] = ()
    """Rows shown at the top of the menu if there is no room for them above it."""

    def __init__(self, head: Sequence[str], items: Sequence[Item], foot: str = "") -> None:
        super().__init__(head, items, foot)
        self._pager = Pager()
        self._ends: list[int] = []
        """Index of each item's last row."""

    def fit(self, style: Style, columns: int, rows: int) -> list[str]:
        head = [*self.preface, *self._head_rows(style, columns)]
        listed: list[str] = []
        self._ends = []
        for number, item in enumerate(self.items):
            listed += self.row(number, item, style, columns).split("\n")
            self._ends.append(len(head) + len(listed) - 1)
        found = [*head, *listed, *self._foot_rows(style, columns)]
        return self._pager.window(found, rows)

    def is_in_sight(self, index: int) -> bool:
        """Return whether an item is on the screen, down to its last row."""
        return not self._ends or self._pager.shows(self._ends[index])

    def press(self, key: str, text: str = "") -> None:
        is_seen = self.is_in_sight(self.index)
        if key in ("forward", "back"):
            self._pager.turn(1 if key == "forward" else -1)
        elif key == "up" and not self.index:
            self._pager.turn(-1)
        elif not is_seen and key in ("enter", "down", "up", "text"):
            # If the selected reply is out of sight, Enter only scrolls towards it.
            self._pager.turn(1)
        else:
            super().press(key, text)
            if key in ("up", "down") and self._ends:
                self._pager.show(self._ends[self.index])

    def row(self, number: int, item: Item, style: Style, columns: int) -> str:
        is_chosen = number == self.index
        role = "chosen" if is_chosen else "text"
        label = f"{MARK if is_chosen else NO_MARK}{number + 1}. {one_line(item.label)}"
        note = f"  {style(one_line(item.note), 'dim')}" if item.note else ""
        return fold(f"{style(label, role)}{note}", columns - 1, INDENT)


class TypingChoices(Choices):
    """Choices whose last item takes free text."""

    typed: str
    hint = ""
    """Shown after the last item until something is typed there."""

    @property
    def is_typing(self) -> bool:
        return self.index == len(self.items) - 1

    def press(self, key: str, text: str = "") -> None:
        if key == "text" and self.is_typing:
            self.typed += text
        # The number of the last item selects it without choosing it: text may follow.
        elif key == "text" and text == str(len(self.items)):
            self.index = len(self.items) - 1
        else:
            super().press(key, text)

    def row(self, number: int, item: Item, style: Style, columns: int) -> str:
        row = super().row(number, item, style, columns)
        if number < len(self.items) - 1 or not self.is_typing:
            return row
        room = columns - cells(row) - 10
        if self.hint and not self.typed:
            return f"{row}{style(cut(self.hint, room), 'dim')}"
        return f"{row}: {style(_end_of(one_line(self.typed), room), 'text')}▏"


def _end_of(text: str, room: int) -> str:
    """Return the visible end of a text being typed."""
    while text and cells(text) > max(5, room):
        text = text[1:]
    return text
