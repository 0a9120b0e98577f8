"""Edit JSON as text: insert or remove one value, leaving every other byte unchanged."""

import json
import re
from typing import Any, NamedTuple

SPACE = re.compile(r"\s*")
INDENT = re.compile(r'\n([ \t]+)"')
_decode = json.JSONDecoder().raw_decode

Keys = list[str | int]
"""The path to a value: member names and list positions."""


class Member(NamedTuple):
    """A member of an object or a list, with its offsets in the text."""

    key: str | int
    start: int
    value: int
    """Offset of its value."""
    end: int


def put_last(text: str, keys: Keys, name: str | None, value: Any) -> str:
    r"""Append a value to a list, or a named member to an object.

    >>> put_last('{"a": [1,  2]}', ["a"], None, 3)
    '{"a": [1,  2, 3]}'
    """
    start = find(text, keys)
    found = members(text, start)
    # Follow the layout of the object or list itself: a list on one line stays on one line, even in
    # an indented file.
    newline, unit = _layout(text, text[start : found[0].start] if found else text)
    outer, inner = newline + unit * len(keys), newline + unit * (len(keys) + 1)
    shown = json.dumps(value, indent=unit if newline else None, ensure_ascii=False)
    label = "" if name is None else f"{json.dumps(name, ensure_ascii=False)}: "
    body = label + shown.replace("\n", inner)
    if found:
        end = found[-1].end
        return f"{text[:end]},{inner or ' '}{body}{text[end:]}"
    return f"{text[: start + 1]}{inner}{body}{outer}{text[_skip(text, start + 1) :]}"


def take_out(text: str, keys: Keys) -> str:
    """Remove the value at a path, and its comma.

    >>> take_out('{"a": [1, 2,  3]}', ["a", 1])
    '{"a": [1,  3]}'
    """
    start = find(text, keys[:-1])
    found = members(text, start)
    rank = next(rank for rank, member in enumerate(found) if member.key == keys[-1])
    # Remove the comma before the value; the first value has none, so remove the one after it.
    if rank:
        return text[: found[rank - 1].end] + text[found[rank].end :]
    if len(found) > 1:
        return text[: found[0].start] + text[found[1].start :]
    return text[: start + 1] + text[_skip(text, found[0].end) :]


def find(text: str, keys: Keys) -> int:
    """Return the offset of the value at a path."""
    start = _skip(text, 0)
    for key in keys:
        # Reversed, because the last of several members with the same name is the one that counts.
        start = next(m.value for m in reversed(members(text, start)) if m.key == key)
    return start


def members(text: str, start: int) -> list[Member]:
    """Return the members of the object or list at an offset; the text must be valid JSON."""
    found: list[Member] = []
    position = _skip(text, start + 1)
    while text[position] not in "}]":
        begin = position = _skip(text, position + 1) if found else position
        key: str | int = len(found)
        if text[start] == "{":
            key, position = _decode(text, position)
            position = _skip(text, _skip(text, position) + 1)
        _, end = _decode(text, position)
        found.append(Member(key, begin, position, end))
        position = _skip(text, end)
    return found


def _skip(text: str, position: int) -> int:
    """Return the offset of the next character that is not white space."""
    found = SPACE.match(text, position)
    assert found
    return found.end()


def _layout(text: str, sample: str) -> tuple[str, str]:
    """Return the newline and indent of a text; empty strings if the sample is on one line."""
    if "\n" not in sample:
        return "", ""
    indent = INDENT.search(text)
    return "\r\n" if "\r\n" in text else "\n", indent[1] if indent else "  "
