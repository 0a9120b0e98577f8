"""Text for the screen: coloured by role, measured in cells, unable to control the terminal."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from turnlog.agent.terminal.themes import ATTRIBUTES, DARK, THEMES, Theme
from turnlog.text import SGR, harmless

Style = Callable[[str, str], str]
"""Colours a text by its role and spells out control characters: (text, role)."""

COLOUR = re.compile(f"({SGR})")
TAB = 4
LONG = 5_000
"""Lines longer than this are broken anywhere, not at spaces."""


def has_colour(environment: Mapping[str, str]) -> bool:
    """Return whether to use colours: follows no-color.org; never on a dumb terminal."""
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def printable(text: str) -> str:
    """Return a text with control characters spelled out and tabs expanded."""
    return harmless(text).expandtabs(TAB)


def one_line(text: str) -> str:
    """Return a text on one line, with control characters spelled out."""
    return " ".join(harmless(text, keep=r"\s").split())


class Palette:
    """Colours a text by its role in the current theme, and spells out control characters."""

    def __init__(self, is_coloured: bool) -> None:
        self._is_coloured = is_coloured
        self.use(THEMES[DARK])

    def use(self, theme: Theme) -> None:
        """Switch to a theme, for everything drawn from now on."""
        self.theme = theme
        colours: Mapping[str, str] = theme.colours if self._is_coloured else {}
        self._codes = {
            role: ";".join(filter(None, (ATTRIBUTES.get(role), colours.get(role))))
            for role in ATTRIBUTES.keys() | colours.keys()
        }

    def __call__(self, text: str, role: str) -> str:
        shown, code = printable(text), self._codes.get(role, "")
        return f"\x1b[{code}m{shown}\x1b[0m" if code and shown else shown


def make_style(is_coloured: bool) -> Palette:
    """Return the function that colours a text by its role and spells out control characters."""
    return Palette(is_coloured)


@lru_cache(maxsize=4096)
def width_of(character: str) -> int:
    """Return the width of a character in cells."""
    from prompt_toolkit.utils import get_cwidth

    return get_cwidth(character)


def cells(text: str) -> int:
    """Return the width of a text in cells, ignoring colours.

    >>> cells("日本"), cells(make_style(True)("ab", "bold"))
    (4, 2)
    """
    plain = COLOUR.sub("", text)
    # A fast path: every printable ASCII character takes one cell.
    return len(plain) if plain.isascii() else sum(map(width_of, plain))


def cut(text: str, room: int) -> str:
    """Cut a text, which must have no colours, to a number of cells.

    >>> cut("日本語", 5), cut("ab", 5), cut("abc", 0)
    ('日本…', 'ab', '')
    """
    if cells(text) <= room:
        return text
    start, used = "", 1
    for character in text:
        used += width_of(character)
        if used > room:
            break
        start += character
    return f"{start}…" if room > 0 else ""


def fold(line: str, room: int, indent: int = 0) -> str:
    """Break a line that does not fit, at a space if one is near; colours continue.

    >>> fold("abcdef", 4, 1), fold("abc def ghi", 9)
    ('abcd\\n ef', 'abc def\\nghi')
    """
    if cells(line) <= room or room <= indent + 1:
        return line
    # Finding spaces character by character would take seconds for a minified file.
    if len(line) > LONG:
        return _chop(line, room, indent)
    folder = _Folder(room, indent)
    for number, piece in enumerate(COLOUR.split(line)):
        if number % 2:
            folder.written.append(piece)
        else:
            for character in piece:
                folder.add(character, width_of(character))
    return "".join(folder.written)


def _chop(line: str, room: int, indent: int) -> str:
    """Break a very long line at exactly `room` cells, in linear time."""
    rows, left = [""], room
    for number, piece in enumerate(COLOUR.split(line)):
        if number % 2:
            rows[-1] += piece
            continue
        place = 0
        while place < len(piece):
            taken = _taken(piece[place : place + left], left)
            if not taken and left == room - indent:
                break  # not even one character fits
            rows[-1] += taken
            place += len(taken)
            left -= cells(taken)
            if place < len(piece):
                rows.append(" " * indent)
                left = room - indent
    return "\n".join(rows)


def _taken(text: str, room: int) -> str:
    """Return the start of a text that fits into `room` cells."""
    if text.isascii():
        return text
    used = 0
    for place, character in enumerate(text):
        used += width_of(character)
        if used > room:
            return text[:place]
    return text


class _Folder:
    """Breaks a line into rows while its characters are added."""

    def __init__(self, room: int, indent: int) -> None:
        self.written: list[str] = []
        self._room = room
        self._indent = indent
        self._used = 0
        self._space = 0
        """Index of the last space in the row."""
        self._after = 0
        """Cells used after that space."""

    def add(self, character: str, wide: int) -> None:
        if self._used + wide > self._room:
            self._break(character)
            if character == " ":
                return
        self.written.append(character)
        self._used += wide
        self._after += wide
        if character == " " and self._used > self._room // 2:
            self._space, self._after = len(self.written) - 1, 0

    def _break(self, character: str) -> None:
        if self._space and character != " ":
            self.written[self._space] = f"\n{' ' * self._indent}"
            self._used = self._indent + self._after
        else:
            self.written.append(f"\n{' ' * self._indent}")
            self._used = self._indent
        self._space = self._after = 0
