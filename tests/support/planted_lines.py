"""Lines of all kinds with something planted in each of their fields, one at a time."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from support.build import (
    COMMON,
    SESSION,
    assistant,
    call,
    encode,
    nth,
    result,
    text,
    thinking,
    user,
)
from support.planted_fields import ALNUM, Planter, _filled
from turnlog.format.json_values import is_array, is_object
from turnlog.format.kinds import KINDS
from turnlog.format.schema import schema_of_kinds

FRAMES = ("ghp_{}7aZ", "please look at {} before you go", "/srv/private/{}/deep/notes.txt")
"""A secret, a prompt and a path."""
Json = dict[str, Any]


class LinePlanter:
    """Makes values, each once, and knows where each was put."""

    def __init__(self, seed: int = 11) -> None:
        self._random = Random(seed)
        self.places: dict[str, str] = {}
        """What must not be found, and where it was put."""

    def values(self, place: str) -> list[str]:
        """Return a secret, a prompt and a path."""
        return [self.value(frame, place) for frame in FRAMES]

    def value(self, frame: str, place: str) -> str:
        """Return a value that contains something to look for."""
        body = "".join(self._random.choices(ALNUM, k=33))
        # A value may be cut at either end.
        self.places[body[:12]] = self.places[body[-12:]] = f"{place}: {frame}"
        return frame.format(body)

    def found_in(self, content: str | bytes) -> set[str]:
        """Return the places of what occurs in a content."""
        known = content if isinstance(content, str) else content.decode("latin-1")
        # Looking for each of several thousand bodies would take minutes: bodies are found by words.
        return {
            self.places[piece]
            for start in range(max(0, len(known) - 11))
            if (piece := known[start : start + 12]) in self.places
        }


def planted_files(planter: LinePlanter) -> Iterator[bytes]:
    """Yield a session for each field of each kind of entry, in which its value is replaced."""
    count = 0
    for base in _entries():
        for path in _leaves(base):
            place = f"{base['type']}.{'.'.join(map(str, path))}"
            lines = [encode(_replaced(base, path, value)) for value in planter.values(place)]
            # Some fields count only in the first line of a file.
            count += 1
            turn = count % len(lines)
            yield b"".join(lines[turn:] + lines[:turn])


def _entries() -> Iterator[Json]:
    shared = COMMON | {"sessionId": SESSION, "uuid": nth(1), "parentUuid": None}
    shared |= {"timestamp": "2026-11-15T06:00:01.000Z", "slug": "old-owl", "requestId": "req_1"}
    uses = [
        call("Bash", {"command": "ls", "description": "List"}, "toolu_1"),
        call("Edit", {"file_path": "/x/a.py", "old_string": "a", "new_string": "b"}, "toolu_2"),
    ]
    usage: Json = {"input_tokens": 1, "output_tokens": 2, "service_tier": "standard"}
    usage["cache_creation"] = {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 1}
    body = {"usage": usage, "stop_reason": "tool_use"}
    done = {"stdout": "x", "gitOperation": {"commit": {"sha": "abcd1234", "message": "m"}}}
    failed = result("toolu_2", "no", is_error=True, tool_use_result="Error: no")
    for line in (
        user("hello", permission_mode="default"),
        user([text("hello")]),
        assistant(thinking("hm"), text("ok"), *uses, message_id="msg_1", message=body),
        result("toolu_1", "ok", tool_use_result=done),
        failed,
    ):
        yield shared | json.loads(line)
    plain = _Plain()
    for kind in KINDS:
        schema = schema_of_kinds([kind])
        name, _, subtype = kind.partition("/")
        known = {"type": name} | ({"subtype": subtype} if subtype else {})
        yield shared | _filled(schema, schema["$defs"], kind, plain) | known


class _Plain(Planter):
    """Fills fields with values that are nothing to look for."""

    def token(self, place: str) -> str:
        return "plain"

    word = token


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values that are not containers."""
    items: Any = value.items() if is_object(value) else enumerate(value)
    for name, each in items:
        if each and (is_object(each) or is_array(each)):
            yield from _leaves(each, (*path, name))
        elif (*path, name) != ("type",):
            yield (*path, name)


def _replaced(value: Any, path: tuple[Any, ...], new: str) -> Any:
    first, *rest = path
    changed: Any = value.copy()
    changed[first] = _replaced(value[first], tuple(rest), new) if rest else new
    return changed
