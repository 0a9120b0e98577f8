r"""Find known values in base64 and hexadecimal, however their lines are broken and marked.

Nothing is decoded: the encoding of a known value is known, too, apart from its ends. It is looked
for in what is left of a text without everything else: line breaks, line numbers, marks of a diff,
quotes, spaces. Texts are raw: in JSON, a line break is `\n` or, in JSON inside JSON, `\\n`.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import compress, count

from turnlog.edit.redact.encoded_columns import columns
from turnlog.edit.redact.known_values import KnownValues

SHORTEST = 10
"""Minimum length of what is looked for in base64: no text has 60 given bits by chance."""
SHORTEST_HEX = 16
LONGEST = 1 << 12
"""Maximum length of a value; the lines of a private key are values of their own."""
BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
HEX = b"0123456789abcdefABCDEF"

# Every alternative starts with a literal character: only then, `re` skips what cannot match.
COLOUR = r"\x1b\[[\d;?]*[A-Za-z]|\\\\{0,15}(?:u001[bB]|x1[bB]|033|e)\[[\d;?]*[A-Za-z]"
NUMBER = (
    r"[ \t+-]*+(?:[\w./@][\w./@-]{0,80}?[:-](?=\d))?"
    r"\d{1,7} *\\{0,16}(?:[ \t:|-]|u2192|→|│)"
)
"""A line number of `cat -n`, of `grep -n` with or without a file name, or of the Read tool."""
JOINED = r"\" *\+(?= *[\r\n])|' *\+(?= *[\r\n])"
"""The end of a literal that continues on the next line."""


def _starting(line: str) -> str:
    """Return a regex for the start of a line; in a list of lines, for that of a string."""
    return rf'\n ?(?:{COLOUR})*{line}|"(?:{COLOUR})*{line}'


NUMBERED = _starting(NUMBER)
MARK = rf"(?:{COLOUR})*[ \t]*[+-]"
MARKED = _starting(rf"(?:{NUMBER}(?:{MARK})?|{MARK})")
OFFSET = _starting(
    rf"(?:{NUMBER})?[+-]?(?:{COLOUR})*[^\w\n]{{0,12}}[0-9a-fA-F]{{4,16}}[: \t][ \t]*"
)
LINE_END = r'[\r\n"]'
ROW_END = r'[\r\n]|"(?=[\s,:}\])\\])'
COLUMN = rf"  +(?!(?:[0-9a-fA-F]{{2}} ){{2}})(?:(?!{ROW_END})[^\n]){{0,80}}"
"""The text of a dump, after the digits; `hexdump -C` has two spaces between digits as well."""
ROW = re.compile(rb"(?:[0-9a-fA-F]{2,8} ){3}")
"""What each dump contains; few other texts do."""
PREFIX = rf"{COLOUR}|0[xX]|\\\\{{0,15}}u00"


def with_line_breaks(raw: bytes) -> bytes:
    r"""Return a text with real line breaks and tabs for escaped ones; offsets stay the same.

    >>> with_line_breaks(rb"a\\nb\tc")
    b'a\\\n b\t c'
    """
    return raw.replace(rb"\n", b"\n ").replace(rb"\r", b"  ").replace(rb"\t", b"\t ")


class _View:
    """A way to read a text: what is skipped, apart from characters that encode nothing."""

    def __init__(self, skipped: str, kept: bytes, meant: bytes, is_dump: bool = False) -> None:
        self._skipped = re.compile(skipped.encode())
        self._kept = kept
        self._meant = bytes.maketrans(kept, meant)
        self._others = bytes(set(range(256)).difference(kept))
        self._flags = bytes(code in kept for code in range(256))
        self._is_dump = is_dump
        self._line_end = re.compile((ROW_END if is_dump else LINE_END).encode())

    def folded(self, lines: bytes) -> bytes:
        """Return the characters of a text that may encode something."""
        if self._is_dump and not ROW.search(lines):
            return b""
        return self._skipped.sub(b"", lines).translate(self._meant, self._others)

    def pieces(
        self, raw: bytes, lines: bytes, places: Iterable[tuple[int, int]]
    ) -> Iterator[bytes]:
        """Yield what to replace in each line of a text, given offsets in the folded text."""
        # Blanked instead of removed, so that offsets stay what they are.
        blank = self._skipped.sub(lambda found: b" " * len(found[0]), lines)
        where = list(compress(count(), blank.translate(self._flags)))
        done = 0
        for start, end in sorted(places):
            first, last = where[start], where[end - 1] + 1
            if last <= done:  # a long text may have the value a thousand times
                continue
            first, last = self._extended(lines, blank, first, last)
            done = last
            for begin, stop in self._lines(lines, first, last):
                flags = blank[begin:stop].translate(self._flags)
                if 1 in flags:
                    digits_end = stop if self._is_dump else begin + flags.rindex(1) + 1
                    yield raw[begin + flags.index(1) : digits_end].rstrip(b" \\")

    def _extended(self, lines: bytes, blank: bytes, first: int, last: int) -> tuple[int, int]:
        """Return the offsets of all that is encoded together with a value, on its lines."""
        while first and blank[first - 1] in self._kept:
            first -= 1
        while last < len(blank) and blank[last] in self._kept:
            last += 1
        if self._is_dump:
            row_end = self._line_end.search(lines, last)
            last = row_end.start() if row_end else len(lines)
        return first, last

    def _lines(self, lines: bytes, first: int, last: int) -> Iterator[tuple[int, int]]:
        for found in self._line_end.finditer(lines, first, last):
            yield first, found.start()
            first = found.end()
        yield first, last


_PLAIN = BASE64.replace(b"-_", b"+/")
_TO_PLAIN = bytes.maketrans(BASE64, _PLAIN)
_IN_BASE64 = [
    _View(f"{JOINED}|{COLOUR}", BASE64, _PLAIN),
    _View(f"{NUMBERED}|{JOINED}|{COLOUR}", BASE64, _PLAIN),
    # The mark of a diff is a digit of base64 as well.
    _View(f"{MARKED}|{JOINED}|{COLOUR}", BASE64, _PLAIN),
]
_IN_HEX = [
    _View(PREFIX, HEX, HEX.lower()),
    _View(f"{NUMBERED}|{PREFIX}", HEX, HEX.lower()),
    _View(f"{OFFSET}|{COLUMN}|{PREFIX}", HEX, HEX.lower(), is_dump=True),
]


class EncodedValues:
    """Finds the encodings of values in raw texts."""

    def __init__(self, values: Iterable[str]) -> None:
        raws = [
            value.encode(code, "surrogatepass")
            for value in values
            if len(value) <= LONGEST
            for code in ("utf-8", "utf-16-le")
        ]
        in_base64 = {core: "" for raw in raws for core in _cores(raw) if len(core) >= SHORTEST}
        in_hex = {raw.hex().encode(): "" for raw in raws if len(raw) * 2 >= SHORTEST_HEX}
        searches = (in_base64, _IN_BASE64), (in_hex, _IN_HEX)
        self._searches = [(KnownValues(cores), views) for cores, views in searches if cores]

    def find(self, raw: bytes) -> Iterator[str]:
        """Yield the texts that have to be replaced: what encodes a value, line by line."""
        lines = with_line_breaks(raw)
        yield from self._in_columns(lines)
        for known, views in self._searches:
            before: bytes | None = None
            for view in views:
                folded = view.folded(lines)
                if folded == before:
                    continue
                before = folded
                places = [(at, at + len(core)) for at, core, _ in known.find(folded)]
                if places:
                    for piece in view.pieces(raw, lines, places):
                        yield from _readings(piece)

    def _in_columns(self, lines: bytes) -> Iterator[str]:
        """Yield the lines that encode a value together, behind prefixes of any kind."""
        if not self._searches:
            return
        for column in columns(lines):
            plain = column.joined.translate(_TO_PLAIN)
            digits = plain.lower()
            texts = (
                (known, digits if views is _IN_HEX else plain) for known, views in self._searches
            )
            if any(any(known.find(text)) for known, text in texts):
                yield from (piece.decode() for piece in column.replaced())


def _cores(raw: bytes) -> Iterator[bytes]:
    """Yield the base64 of some bytes without the ends, which depend on the bytes around them."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + raw)
        # Each character stands for six bits: skip those with a bit of other bytes.
        yield encoded[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]


def _readings(piece: bytes) -> Iterator[str]:
    """Yield a piece as it is, and as a part of a JSON string."""
    text = piece.decode("utf-8", "surrogateescape")
    yield text
    if "\\" in text:
        with suppress(ValueError):
            yield json.loads(f'"{text}"')
