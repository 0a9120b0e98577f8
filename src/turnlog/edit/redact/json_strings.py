"""Find the strings of a JSON text with their offsets, so that one can be changed in place.

Also works on invalid JSON: a truncated line, two objects on one line, an unterminated string.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from turnlog.format.json_values import is_array, is_object
from turnlog.secrets import LABELS, VALUES, flag_name, is_secret_name

TOKEN = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*+)(?:"(\s*:)?|\\?\Z)|[{}\[\]]', re.DOTALL)
"""A string (possibly unterminated, at the end of a truncated line) or a bracket."""
ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL
)
OPTIONAL_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|/)")
r"""An escape that JSON permits but does not require: `\/` for `/`, `\u00e4` for `ä`."""
NESTED = 3
"""Maximum depth at which JSON inside JSON strings is unescaped."""
CONTROL = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
SEARCHED_TYPES = (str, dict, list)
TOOL_FIELDS = frozenset({"input", "toolUseResult"})
"""Fields whose content belongs to a tool: field names below them have no meaning to the client."""


class StringPlace(NamedTuple):
    """The position of a string in a JSON value."""

    name: str
    """The field's name; for a string in an array, the array's name."""
    is_in_tool: bool = False
    """True if the string is part of a tool's input or output."""
    is_name: bool = False
    """True if the string is itself a field name."""


class WrittenString(NamedTuple):
    """The offsets of a string's characters in a JSON text, without the quotes."""

    place: StringPlace
    start: int
    end: int


class DecodedString(NamedTuple):
    """An unescaped string that maps its positions back to the escaped text."""

    text: str
    marks: list[tuple[int, int]]
    """The position after each escape: in the unescaped and in the escaped text."""

    def where(self, position: int) -> int:
        """Map a position in the unescaped text to one in the escaped text."""
        at = bisect_right(self.marks, position, key=lambda mark: mark[0])
        if not at:
            return position
        meant, written = self.marks[at - 1]
        return written + position - meant


class Reading(NamedTuple):
    """A text unescaped one or more times that maps its positions back to the original text."""

    text: str
    layers: tuple[DecodedString, ...]

    def where(self, position: int) -> int:
        """Map a position in this reading to one in the original text."""
        for layer in reversed(self.layers):
            position = layer.where(position)
        return position


class _Label:
    """Names strings by their neighbors rather than by their own field.

    Examples: the secret in `{"name": "API_KEY", "value": "…"}` and in `["--password", "…"]`.
    """

    def __init__(self, is_array: bool) -> None:
        self.is_array = is_array
        self.name = ""

    def of(self, field: str, text: str) -> str:
        """Return the name for a string; remember the string if it names the next one."""
        if self.is_array:
            name, self.name = self.name, flag_name(text)
            return name or field
        if field in LABELS:
            self.name = text if is_secret_name(text) else ""
        return self.name if self.name and field in VALUES else field


def written_strings(text: str) -> Iterator[WrittenString]:
    """Yield the strings of a JSON text, field names included."""
    above: list[tuple[str, bool, _Label]] = []
    name, is_in_tool, label = "", False, _Label(is_array=False)
    # A scan for quotes and brackets instead of a parser: it copes with invalid JSON, and the
    # offsets allow replacing one string while every other byte stays as it was.
    for token in TOKEN.finditer(text):
        mark = token[0][0]
        if mark in "{[":
            above.append((name, is_in_tool, label))
            is_in_tool = is_in_tool or name in TOOL_FIELDS
            label = _Label(mark == "[")
        elif mark in "}]":
            name, is_in_tool, label = above.pop() if above else ("", False, _Label(is_array=False))
        elif token[2]:
            name = decode_string(token[1]).text
            yield WrittenString(_name_place(name, is_in_tool), *token.span(1))
        else:
            named = label.of(name, token[1])
            yield WrittenString(_value_place(named, is_in_tool), *token.span(1))


def decode_string(written: str) -> DecodedString:
    r"""Unescape the characters between the quotes of a JSON string.

    >>> decode_string(r"a\nb\u0041").text, decode_string(r"a\nb").where(2)
    ('a\nbA', 3)
    """
    parts: list[str] = []
    marks: list[tuple[int, int]] = []
    length = end = 0
    for escape in ESCAPE.finditer(written):
        # Each escape becomes one character, so one mark per escape is enough to map positions.
        parts += written[end : escape.start()], _unescaped(escape[0])
        length += escape.start() - end + 1
        end = escape.end()
        marks.append((length, end))
    return DecodedString("".join([*parts, written[end:]]), marks)


def decoded_strings(
    value: Any, is_selected: Callable[[StringPlace], bool]
) -> list[tuple[StringPlace, str]]:
    """Return the selected strings of a decoded value, with the same places as `written_strings`."""
    found: list[tuple[StringPlace, str]] = []
    _collect(value, StringPlace(""), is_selected, found)
    return found


def hides_strings(raw: bytes, value: Any) -> bool:
    r"""Return whether a JSON text has strings that its decoded value lacks.

    Decoding keeps only the last of two fields with the same name.

    >>> hides_strings(b'{"a":"x","a":"y"}', {"a": "y"}), hides_strings(b'["x"]', ["x"])
    (True, False)
    """
    quotes = raw.count(b'"')
    if b"\\" in raw:
        # `\\"` ends a string, `\"` does not: once escaped backslashes are removed, each backslash
        # left before a quote escapes that quote.
        quotes -= raw.replace(b"\\\\", b"").count(b'\\"')
    return quotes != 2 * _count_strings(value)


def _count_strings(value: Any) -> int:
    count = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            count += 1
        elif is_object(item):
            count += len(item)
            waiting += item.values()
        elif is_array(item):
            waiting += item
    return count


def unescaped_readings(text: str) -> Iterator[Reading]:
    r"""Yield a text unescaped once, twice and so on, while it contains optional escapes.

    JSON writers differ in what they escape: Python writes `\u00e4`, PHP `\/`, Go `\u0026`.

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
    is_selected: Callable[[StringPlace], bool],
    found: list[tuple[StringPlace, str]],
) -> None:
    if isinstance(value, str):
        if is_selected(place):
            found.append((place, value))
    elif is_object(value):
        is_in_tool = place.is_in_tool or place.name in TOOL_FIELDS
        label = _Label(is_array=False)
        for name, item in value.items():
            if is_selected(own := _name_place(name, is_in_tool)):
                found.append((own, name))
            if isinstance(item, SEARCHED_TYPES):
                named = label.of(name, item) if isinstance(item, str) else name
                _collect(item, _value_place(named, is_in_tool), is_selected, found)
    elif is_array(value):
        is_in_tool, label = place.is_in_tool or place.name in TOOL_FIELDS, _Label(is_array=True)
        for item in value:
            named = label.of(place.name, item) if isinstance(item, str) else place.name
            _collect(item, _value_place(named, is_in_tool), is_selected, found)


@lru_cache(4096)
def _name_place(name: str, is_in_tool: bool) -> StringPlace:
    return StringPlace(name, is_in_tool, is_name=True)


@lru_cache(4096)
def _value_place(name: str, is_in_tool: bool) -> StringPlace:
    return StringPlace(name, is_in_tool)


def _unescaped(escape: str) -> str:
    r"""
    >>> _unescaped(r"\n"), _unescaped(r"\/"), _unescaped(r"\ud83d\ude00")
    ('\n', '/', '😀')
    """
    if escape[1] != "u" or len(escape) == 2:
        return CONTROL.get(escape[1], escape[1])
    units = bytes.fromhex(escape[2:].replace("\\u", ""))
    return units.decode("utf-16-be", "surrogatepass")
