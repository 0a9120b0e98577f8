"""Text for the screen: colours by role, cells instead of characters, nothing that could harm it."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

Style = Callable[[str, str], str]
"""Colours a text, and takes from it what could harm the terminal: (text, role)."""

SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # colours, movements
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links
    r"|[PX^_][^\x1b]*(?:\x1b\\)?"  # strings for devices
    r"|[ -/]*[0-~])"
)
UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
OVERWRITTEN = re.compile(r"[^\n]*\r(?=[^\n\r])")
COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
TAB = 4

ROLES = {
    "prompt": "1;32",
    "thought": "2;3",
    "note": "33",
    "error": "31",
    "ok": "36",
    "tool": "1",
    "added": "32",
    "removed": "31",
    "output": "2",
    "dim": "2",
    "code": "36",
    "heading": "1;4",
    "bold": "1",
    "chosen": "1;36",
    "mode": "35",
}
"""How each kind of text looks, as the parameters of an escape sequence."""


def has_colour(environment: Mapping[str, str]) -> bool:
    """Whether colours are wanted: by the convention of no-color.org, and not on a dumb terminal."""
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def harmless(text: str) -> str:
    """A text without what would move the cursor or change the screen; overwritten parts go, too.

    >>> harmless(chr(27) + "[31mred" + chr(27) + "[0m" + chr(7)), harmless("10%" + chr(13) + "20%")
    ('red', '20%')
    """
    plain = SEQUENCE.sub("", text).replace("\r\n", "\n")
    return UNSAFE.sub("", OVERWRITTEN.sub("", plain)).expandtabs(TAB)


def one_line(text: str) -> str:
    """A text on one line."""
    return " ".join(harmless(text).split())


def make_style(is_coloured: bool) -> Style:
    """The function that colours a text by its role, and makes it harmless."""
    codes = {role: _codes(text, is_coloured) for role, text in ROLES.items()}

    def style(text: str, role: str) -> str:
        shown, code = harmless(text), codes.get(role, "")
        return f"\x1b[{code}m{shown}\x1b[0m" if code and shown else shown

    return style


def _codes(text: str, is_coloured: bool) -> str:
    """Without colours, what is bold or dim stays so."""
    kept = [code for code in text.split(";") if is_coloured or len(code) == 1]
    return ";".join(kept)


@lru_cache(maxsize=4096)
def width_of(character: str) -> int:
    """How many cells a character takes."""
    from prompt_toolkit.utils import get_cwidth

    return get_cwidth(character)


def cells(text: str) -> int:
    """How many cells a text takes; colours take none.

    >>> cells("日本"), cells(make_style(True)("ab", "bold"))
    (4, 2)
    """
    plain = COLOUR.sub("", text)
    return len(plain) if plain.isascii() else sum(map(width_of, plain))


def cut(text: str, room: int) -> str:
    """A text without colours, cut to a number of cells.

    >>> cut("日本語", 5), cut("ab", 5), cut("abc", 0)
    ('日本…', 'ab', '')
    """
    if cells(text) <= room:
        return text
    kept, used = "", 1
    for character in text:
        used += width_of(character)
        if used > room:
            break
        kept += character
    return f"{kept}…" if room > 0 else ""


def fold(line: str, room: int, indent: int = 0) -> str:
    """A line broken where it does not fit, at a space if one is near; colours go on.

    >>> fold("abcdef", 4, 1), fold("abc def ghi", 9)
    ('abcd\\n ef', 'abc def\\nghi')
    """
    if cells(line) <= room or room <= indent + 1:
        return line
    folder = _Folder(room, indent)
    for number, piece in enumerate(COLOUR.split(line)):
        if number % 2:
            folder.written.append(piece)
        else:
            for character in piece:
                folder.add(character, width_of(character))
    return "".join(folder.written)


class _Folder:
    """Breaks a line as it is written."""

    def __init__(self, room: int, indent: int) -> None:
        self.written: list[str] = []
        self._room = room
        self._indent = indent
        self._used = 0
        self._space = 0
        """Where the last space of the row stands."""
        self._after = 0
        """Cells that were used after it."""

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
