"""What surrounds each value that a redaction would replace, so that a user can judge the match.

Context comes from the redacted text: secrets next to a match are placeholders there as well.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from turnlog.edit.redact.json_strings import decode_string, spelled_strings
from turnlog.edit.redact.replacement import JSON, LINES, Find, FoundValue, RedactedPart, redacted
from turnlog.edit.redact.secret_finder import Finder
from turnlog.secrets import MASKED, placeholder_for

REACH = 60
"""Characters of context on either side."""


class Context(NamedTuple):
    """Where a placeholder stands."""

    key: str = ""
    """The name of the JSON field; empty outside of JSON."""
    before: str = ""
    after: str = ""


class RedactionMatch(NamedTuple):
    """A value that would be replaced, and its surroundings."""

    path: Path
    line: int
    kind: str
    placeholder: str
    length: int
    """Characters of the value."""
    context: Context
    times: int
    """How often it occurs on the line in the same surroundings."""


def matches_of(
    parts: Sequence[RedactedPart], finder: Finder, finds: Iterable[Find]
) -> Iterator[RedactionMatch]:
    """Yield what would be replaced, file by file, each with its context."""
    by_path: dict[Path, list[Find]] = {}
    for find in finds:
        by_path.setdefault(find.path, []).append(find)
    for part in parts:
        # A file may be several parts; its finds belong to all of them.
        found = by_path.pop(part.path, [])
        if found:
            yield from _matches_in(part, finder, found)


def _matches_in(part: RedactedPart, finder: Finder, finds: list[Find]) -> Iterator[RedactionMatch]:
    by_line: dict[int, list[Find]] = {}
    for find in finds:
        by_line.setdefault(find.line, []).append(find)
    content = redacted(part._replace(lines=None), finder, FoundValue())
    if part.path.suffix != LINES:
        # A replaced value may have had several lines, so line numbers no longer tell where it was.
        yield from _located(_text(b"".join(content)), finds, part.path.suffix in JSON)
        return
    for number, raw in enumerate(content, 1):
        if number in by_line:
            yield from _located(_text(raw), by_line[number], is_json=True)


def _located(text: str, finds: list[Find], is_json: bool) -> Iterator[RedactionMatch]:
    contexts = list(_contexts(text, is_json))
    rows: Counter[tuple[Find, Context]] = Counter()
    for find in finds:
        placeholder = placeholder_for(find.kind, find.value)
        place = next((n for n, each in enumerate(contexts) if each[0] == placeholder), None)
        rows[find, Context() if place is None else contexts.pop(place)[1]] += 1
    for (find, context), count in rows.items():
        placeholder = placeholder_for(find.kind, find.value)
        length = len(find.value)
        yield RedactionMatch(find.path, find.line, find.kind, placeholder, length, context, count)


def _contexts(text: str, is_json: bool) -> Iterator[tuple[str, Context]]:
    """Yield every placeholder of a text with its context."""
    if not is_json:
        yield from _contexts_in(text, "")
        return
    for place, start, end in spelled_strings(text):
        meant = decode_string(text[start:end]).text
        yield from _contexts_in(meant, "" if place.is_name else place.name)


def _contexts_in(text: str, key: str) -> Iterator[tuple[str, Context]]:
    for mark in re.finditer(MASKED, text):
        before = text[max(0, mark.start() - REACH) : mark.start()]
        yield mark[0], Context(key, before, text[mark.end() : mark.end() + REACH])


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
