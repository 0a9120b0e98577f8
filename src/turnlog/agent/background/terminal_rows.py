"""A minimal terminal emulator: keeps the rows that a chat has printed, so they can be redrawn.

A chat prints rows and redraws the last ones with relative cursor movements. Everything else, such
as titles and queries, is dropped: another terminal gets only text, colours and the modes in
`KEPT_MODES`.
"""

import codecs
import re
from dataclasses import dataclass, field

from turnlog.agent.terminal.styled_text import width_of

TOKEN = re.compile(
    r"\x1b\[([0-9;:?<=>!]*)[ -/]*([@-~])"  # a control sequence
    r"|\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"  # a title, or another string
    r"|\x1b[ -/]*[0-~]"
    r"|([\x00-\x1f\x7f-\x9f])"
    r"|([^\x00-\x1f\x7f-\x9f]+)",
    re.S,
)
OPEN = re.compile(r"\x1b(?:\[[0-9;:?<=>! -/]{0,4096}|[\]PX^_][^\x07]{0,4096})?\Z", re.S)
"""An escape sequence that is still incomplete."""
PLAIN = re.compile(r"[0-9;:]*")
"""Parameters that set colours; with others, such as `>`, `m` changes which codes keys send."""
KEPT_MODES = ("2004", "25", "7", "1004")
"""Private modes: bracketed paste, visible cursor, wrapping, focus events."""
USUALLY_ON = ("25", "7")
MOST_ROWS = 2_000
Cell = tuple[str, str]
"""A character, and the colours that it is printed in."""
BLANK: Cell = (" ", "")


@dataclass
class TerminalRows:
    """The rows of a terminal, including those that were scrolled off."""

    columns: int = 80
    height: int = 24
    rows: list[list[Cell]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0
    top: int = 0
    """The first row that is on the screen: the cursor does not move above it."""
    style: str = ""
    modes: dict[str, bool] = field(default_factory=dict[str, bool])
    _rest: str = ""
    _decode: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    def feed(self, output: bytes) -> None:
        """Process output of the chat."""
        text = self._rest + self._decode.decode(output)
        # A read may end in the middle of a sequence, whose start is kept for the next read.
        cut = OPEN.search(text)
        self._rest = text[cut.start() :] if cut else ""
        for found in TOKEN.finditer(text[: cut.start()] if cut else text):
            if found[4]:
                self._write(found[4])
            elif found[3]:
                self._control(found[3])
            elif found[2]:
                self._sequence(found[1], found[2])
        self._forget()

    def resize(self, columns: int, height: int) -> None:
        """Change the size of the terminal; rows that are too wide are wrapped."""
        is_narrower = columns < self.columns
        self.columns, self.height = max(1, columns), max(1, height)
        if is_narrower:
            self._wrap()
        self.top = max(0, len(self.rows) - self.height)

    def _wrap(self) -> None:
        # A chat expects a terminal to wrap rows: it moves the cursor up by the wrapped rows.
        wrapped: list[list[Cell]] = []
        cursor = 0
        for place, row in enumerate(self.rows):
            while row and row[-1] == BLANK:
                row.pop()
            if place == self.row:
                cursor = len(wrapped) + self.column // self.columns
            width = max(1, len(row))
            wrapped += [row[at : at + self.columns] for at in range(0, width, self.columns)]
        self.rows, self.row = wrapped, min(cursor, len(wrapped) - 1)
        self.column %= self.columns

    def plain(self) -> bytes:
        """Return the rows as text, without colours."""
        lines = ["".join(char for char, _ in row).rstrip() for row in self.rows]
        return ("\n".join(lines).strip("\n") + "\n").encode("utf-8", "replace")

    def drawn(self) -> bytes:
        """Return output that draws the rows in a terminal, and puts the cursor where it was."""
        body = "\r\n".join(map(_coloured, self.rows))
        place = _moved(len(self.rows) - 1 - self.row, "A") + "\r" + _moved(self.column, "C")
        kept = "".join(_mode(name, is_on) for name, is_on in self.modes.items())
        return f"{body}{place}{kept}\x1b[0m{self.style}".encode()

    def undone(self) -> bytes:
        """Return output that moves below everything drawn and resets the modes the chat has set."""
        down = _moved(len(self.rows) - 1 - self.row, "B")
        resets = "".join(_mode(name, name in USUALLY_ON) for name in self.modes)
        return f"{down}\r\n\x1b[0m{resets}".encode()

    def _forget(self) -> None:
        """Drop the oldest rows, to bound the memory of a chat that runs for weeks."""
        more = min(len(self.rows) - MOST_ROWS, self.top)
        if more > 0:
            del self.rows[:more]
            self.row, self.top = self.row - more, self.top - more

    def _write(self, text: str) -> None:
        for char in text:
            width = width_of(char)
            if not width:
                self._combine(char)
                continue
            if self.column + width > self.columns:
                self.column = 0
                self._down()
            row = self.rows[self.row]
            row.extend([BLANK] * (self.column + width - len(row)))
            row[self.column] = (char, self.style)
            if width == 2:  # an empty second cell keeps columns equal to list indexes
                row[self.column + 1] = ("", self.style)
            self.column += width

    def _combine(self, char: str) -> None:
        row = self.rows[self.row]
        if 0 < self.column <= len(row):
            before, style = row[self.column - 1]
            # Limited to 8 code points per cell, as output may contain thousands of accents.
            row[self.column - 1] = ((before + char)[:8], style)

    def _control(self, char: str) -> None:
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self._down()
        elif char == "\b":
            self.column = max(0, self.column - 1)

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append([])
        self.top = max(self.top, self.row - self.height + 1)

    def _sequence(self, given: str, kind: str) -> None:
        if kind == "m" and PLAIN.fullmatch(given):
            self._colour(given)
        elif given.startswith("?"):
            for name in given[1:].split(";"):
                if name in KEPT_MODES and kind in "hl":
                    self.modes[name] = kind == "h"
        elif kind in "ABCD":
            self._move(kind, max(1, _number(given)))
        elif kind == "G":
            self.column = max(0, min(_number(given) - 1, self.columns - 1))
        elif kind == "H":
            self._go_to(given)
        elif kind == "K":
            self._erase_row(_number(given))
        elif kind == "J":
            self._erase_screen(_number(given))

    def _colour(self, given: str) -> None:
        is_reset = given in ("", "0") or given.startswith("0;")
        before = "" if is_reset else self.style
        more = "" if given in ("", "0") else f"\x1b[{given}m"
        # Colours add up until the next reset; a chat resets after each text.
        self.style = (before + more)[-200:] if len(before) < 200 else more

    def _move(self, kind: str, count: int) -> None:
        if kind == "A":
            self.row = max(self.top, self.row - count)
        elif kind == "B":
            for _ in range(min(count, self.top + self.height - 1 - self.row)):
                self._down()
        elif kind == "C":
            self.column = min(self.columns - 1, self.column + count)
        else:
            self.column = max(0, self.column - count)

    def _go_to(self, given: str) -> None:
        first, _, second = given.partition(";")
        wanted = self.top + min(max(1, _number(first)), self.height) - 1
        while len(self.rows) <= wanted:
            self.rows.append([])
        self.row = wanted
        self.column = min(max(1, _number(second)), self.columns) - 1

    def _erase_row(self, how: int) -> None:
        row = self.rows[self.row]
        if how == 0:
            del row[self.column :]
        elif how == 1:
            row[: self.column + 1] = [BLANK] * min(self.column + 1, len(row))
        else:
            row.clear()

    def _erase_screen(self, how: int) -> None:
        if how in (2, 3):
            for row in self.rows[self.top :]:
                row.clear()
        elif how == 0:
            self._erase_row(0)
            for row in self.rows[self.row + 1 :]:
                row.clear()


def _moved(count: int, kind: str) -> str:
    return f"\x1b[{count}{kind}" if count else ""


def _mode(name: str, is_on: bool) -> str:
    return f"\x1b[?{name}{'h' if is_on else 'l'}"


def _number(text: str) -> int:
    first = text.partition(";")[0]
    # Programs in the chat can print any number.
    return min(int(first), 100_000) if first.isdecimal() and len(first) < 7 else 0


def _coloured(row: list[Cell]) -> str:
    parts: list[str] = []
    now = ""
    for char, style in row:
        if style != now:
            parts.append(f"\x1b[0m{style}")
            now = style
        parts.append(char)
    return "".join(parts) + ("\x1b[0m" if now else "")
