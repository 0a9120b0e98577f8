"""JSON changed as text: a value put in or taken out, every other byte as it was."""

import json
import re
from typing import Any, NamedTuple

SPACE = re.compile(r"\s*")
INDENT = re.compile(r'\n([ \t]+)"')
_decode = json.JSONDecoder().raw_decode

Keys = list[str | int]
"""The way to a value: names of members, and places in lists."""


class Member(NamedTuple):
    """A member of an object or a list, and where it stands."""

    key: str | int
    start: int
    value: int
    """Where its value starts."""
    end: int


def put_last(text: str, keys: Keys, name: str | None, value: Any) -> str:
    r"""Put a value at the end of a list, or with a name at the end of an object.

    >>> put_last('{"a": [1,  2]}', ["a"], None, 3)
    '{"a": [1,  2, 3]}'
    """
    start = find(text, keys)
    held = members(text, start)
    newline, unit = _layout(text, text[start : held[0].start] if held else text)
    outer, inner = newline + unit * len(keys), newline + unit * (len(keys) + 1)
    shown = json.dumps(value, indent=unit if newline else None, ensure_ascii=False)
    label = "" if name is None else f"{json.dumps(name, ensure_ascii=False)}: "
    body = label + shown.replace("\n", inner)
    if held:
        end = held[-1].end
        return f"{text[:end]},{inner or ' '}{body}{text[end:]}"
    return f"{text[: start + 1]}{inner}{body}{outer}{text[_skip(text, start + 1) :]}"


def take_out(text: str, keys: Keys) -> str:
    """Take out the value that keys lead to, and the comma that it had.

    >>> take_out('{"a": [1, 2,  3]}', ["a", 1])
    '{"a": [1,  3]}'
    """
    start = find(text, keys[:-1])
    held = members(text, start)
    rank = next(rank for rank, member in enumerate(held) if member.key == keys[-1])
    if rank:
        return text[: held[rank - 1].end] + text[held[rank].end :]
    if len(held) > 1:
        return text[: held[0].start] + text[held[1].start :]
    return text[: start + 1] + text[_skip(text, held[0].end) :]


def find(text: str, keys: Keys) -> int:
    """Where the value starts that keys lead to."""
    start = _skip(text, 0)
    for key in keys:
        start = next(m.value for m in reversed(members(text, start)) if m.key == key)
    return start


def members(text: str, start: int) -> list[Member]:
    """The members of the object or list that starts there; the text is valid."""
    found: list[Member] = []
    place = _skip(text, start + 1)
    while text[place] not in "}]":
        begin = place = _skip(text, place + 1) if found else place
        key: str | int = len(found)
        if text[start] == "{":
            key, place = _decode(text, place)
            place = _skip(text, _skip(text, place) + 1)
        _, end = _decode(text, place)
        found.append(Member(key, begin, place, end))
        place = _skip(text, end)
    return found


def _skip(text: str, place: int) -> int:
    """The place of what follows, spaces left out."""
    found = SPACE.match(text, place)
    assert found
    return found.end()


def _layout(text: str, sample: str) -> tuple[str, str]:
    """How lines end and are indented; nothing where a sample of the text has but one."""
    if "\n" not in sample:
        return "", ""
    indent = INDENT.search(text)
    return "\r\n" if "\r\n" in text else "\n", indent[1] if indent else "  "
