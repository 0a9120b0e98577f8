"""The strings of a JSON text, where they stand: to change a part of one and no other byte.

Works on what is no JSON as well: a torn line, two objects on a line, a string without its end.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from turnlog.format.json_values import is_array, is_object
from turnlog.secrets import LABELS, VALUES, flag_name, is_secret_name

TOKEN = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*+)(?:"(\s*:)?|\\?\Z)|[{}\[\]]', re.DOTALL)
"""A string, which in a torn line may lack its end, or a bracket."""
ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL
)
OPTIONAL_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|/)")
"""An escape that a writer of JSON may use or not."""
NESTED = 3
"""How deep JSON in texts of JSON is read."""
CONTROL = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
HOLDERS = (str, dict, list)
OWN = frozenset({"input", "toolUseResult"})
"""What lies below these is a tool's: its names mean nothing to the client."""


class StringPlace(NamedTuple):
    """Where a string stands."""

    name: str
    """Its name; for a string in an array that of the array."""
    is_tools: bool = False
    """Whether it is part of what a tool was given, or gave."""
    is_name: bool = False
    """Whether it is itself the name of something."""


class Spelled(NamedTuple):
    """A string as it is written."""

    place: StringPlace
    start: int
    end: int


class DecodedString(NamedTuple):
    """What a string means, and where each part of that is written."""

    text: str
    marks: list[tuple[int, int]]
    """Behind each escape: the place in the text, and in what is written."""

    def where(self, position: int) -> int:
        """The place in what is written of a place in the text."""
        at = bisect_right(self.marks, position, key=lambda mark: mark[0])
        if not at:
            return position
        meant, written = self.marks[at - 1]
        return written + position - meant


class Reading(NamedTuple):
    """A text with escapes undone, and how to find each part of it in the text as it is."""

    text: str
    layers: tuple[DecodedString, ...]

    def where(self, position: int) -> int:
        """Return the place in the text as it is of a place in this reading."""
        for layer in reversed(self.layers):
            position = layer.where(position)
        return position


class _Label:
    """What names a string besides its field: a `name` next to a `value`, a flag before it."""

    def __init__(self, is_array: bool) -> None:
        self.is_array = is_array
        self.name = ""

    def of(self, field: str, text: str) -> str:
        """Return the name of a string in a field, and take note of what it says of the next one."""
        if self.is_array:
            name, self.name = self.name, flag_name(text)
            return name or field
        if field in LABELS:
            self.name = text if is_secret_name(text) else ""
        return self.name if self.name and field in VALUES else field


def spelled_strings(text: str) -> Iterator[Spelled]:
    """The strings of a JSON text, without their quotes."""
    above: list[tuple[str, bool, _Label]] = []
    name, is_tools, label = "", False, _Label(is_array=False)
    for token in TOKEN.finditer(text):
        mark = token[0][0]
        if mark in "{[":
            above.append((name, is_tools, label))
            is_tools = is_tools or name in OWN
            label = _Label(mark == "[")
        elif mark in "}]":
            name, is_tools, label = above.pop() if above else ("", False, _Label(is_array=False))
        elif token[2]:
            name = decode_string(token[1]).text
            yield Spelled(_name(name, is_tools), *token.span(1))
        else:
            named = label.of(name, token[1])
            yield Spelled(_named(named, is_tools), *token.span(1))


def decode_string(written: str) -> DecodedString:
    r"""What a string means that is written so.

    >>> decode_string(r"a\nb\u0041").text, decode_string(r"a\nb").where(2)
    ('a\nbA', 3)
    """
    parts: list[str] = []
    marks: list[tuple[int, int]] = []
    length = end = 0
    for escape in ESCAPE.finditer(written):
        parts += written[end : escape.start()], _unescaped(escape[0])
        length += escape.start() - end + 1
        end = escape.end()
        marks.append((length, end))
    return DecodedString("".join([*parts, written[end:]]), marks)


def decoded_strings(
    value: Any, is_wanted: Callable[[StringPlace], bool]
) -> list[tuple[StringPlace, str]]:
    """The strings of a decoded value that are wanted, with the same places."""
    found: list[tuple[StringPlace, str]] = []
    _collect(value, StringPlace(""), is_wanted, found)
    return found


def hides_strings(raw: bytes, value: Any) -> bool:
    r"""Return whether a JSON text has strings that its decoded value lacks.

    Of two fields with the same name in an object, decoding keeps the last one alone.

    >>> hides_strings(b'{"a":"x","a":"y"}', {"a": "y"}), hides_strings(b'["x"]', ["x"])
    (True, False)
    """
    quotes = raw.count(b'"')
    if b"\\" in raw:
        # Without escaped backslashes, every backslash before a quote escapes that quote.
        quotes -= raw.replace(b"\\\\", b"").count(b'\\"')
    return quotes != 2 * _count_strings(value)


def _count_strings(value: Any) -> int:
    count = 0
    waiting = [value]
    while waiting:
        held = waiting.pop()
        if isinstance(held, str):
            count += 1
        elif is_object(held):
            count += len(held)
            waiting += held.values()
        elif is_array(held):
            waiting += held
    return count


def unescaped_readings(text: str) -> Iterator[Reading]:
    r"""Yield a text with JSON's escapes undone, once for each level at which some are optional.

    Writers of JSON differ in what they escape: Python writes `\u00e4`, PHP `\/`, Go `\u0026`.

    >>> [reading.text for reading in unescaped_readings(r"s3cr\/et \\u00e4")]
    ['s3cr/et \\u00e4', 's3cr/et ä']
    """
    layers: tuple[DecodedString, ...] = ()
    while len(layers) < NESTED and OPTIONAL_ESCAPE.search(text):
        layers += (decode_string(text),)
        text = layers[-1].text
        yield Reading(text, layers)


def _collect(
    value: Any,
    place: StringPlace,
    is_wanted: Callable[[StringPlace], bool],
    found: list[tuple[StringPlace, str]],
) -> None:
    if isinstance(value, str):
        if is_wanted(place):
            found.append((place, value))
    elif is_object(value):
        is_tools = place.is_tools or place.name in OWN
        label = _Label(is_array=False)
        for name, held in value.items():
            if is_wanted(own := _name(name, is_tools)):
                found.append((own, name))
            if isinstance(held, HOLDERS):
                named = label.of(name, held) if isinstance(held, str) else name
                _collect(held, _named(named, is_tools), is_wanted, found)
    elif is_array(value):
        is_tools, label = place.is_tools or place.name in OWN, _Label(is_array=True)
        for held in value:
            named = label.of(place.name, held) if isinstance(held, str) else place.name
            _collect(held, _named(named, is_tools), is_wanted, found)


@lru_cache(4096)
def _name(name: str, is_tools: bool) -> StringPlace:
    return StringPlace(name, is_tools, is_name=True)


@lru_cache(4096)
def _named(name: str, is_tools: bool) -> StringPlace:
    return StringPlace(name, is_tools)


def _unescaped(escape: str) -> str:
    r"""
    >>> _unescaped(r"\n"), _unescaped(r"\/"), _unescaped(r"\ud83d\ude00")
    ('\n', '/', '😀')
    """
    if escape[1] != "u" or len(escape) == 2:
        return CONTROL.get(escape[1], escape[1])
    units = bytes.fromhex(escape[2:].replace("\\u", ""))
    return units.decode("utf-16-be", "surrogatepass")
