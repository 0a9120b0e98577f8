"""Show the text around each value that a redaction would replace, so users can judge the match.

The context comes from the redacted text: it never contains another secret.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from turnlog.edit.redact.json_strings import decode_string, written_strings
from turnlog.edit.redact.replacement import (
    JSON,
    LINES,
    Find,
    RedactedPart,
    RedactionFinds,
    redact_part,
)
from turnlog.edit.redact.secret_finder import Finder
from turnlog.secrets import MASKED, placeholder_for

REACH = 60
"""Characters of context on either side."""


class Context(NamedTuple):
    """The text around a placeholder."""

    key: str = ""
    """The name of the JSON field; empty outside of JSON."""
    before: str = ""
    after: str = ""


class RedactionMatch(NamedTuple):
    """A value that would be replaced, and its context."""

    path: Path
    line: int
    kind: str
    placeholder: str
    length: int
    """Length of the value in characters."""
    context: Context
    times: int
    """Number of occurrences on the line with the same context."""


def matches_of(
    parts: Sequence[RedactedPart], finder: Finder, finds: Iterable[Find]
) -> Iterator[RedactionMatch]:
    """Yield the matches of a redaction, file by file, each with its context."""
    by_path: dict[Path, list[Find]] = {}
    for find in finds:
        by_path.setdefault(find.path, []).append(find)
    for part in parts:
        # A file may occur as several parts, such as lines of two sessions in the prompt history:
        # its finds are reported with the first.
        found = by_path.pop(part.path, [])
        if found:
            yield from _matches_in(part, finder, found)


def _matches_in(part: RedactedPart, finder: Finder, finds: list[Find]) -> Iterator[RedactionMatch]:
    by_line: dict[int, list[Find]] = {}
    for find in finds:
        by_line.setdefault(find.line, []).append(find)
    content = redact_part(part._replace(lines=None), finder, RedactionFinds())
    if part.path.suffix != LINES:
        # A replaced value may have spanned several lines: line numbers differ after redaction.
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
        # Equal values have equal placeholders: each find consumes one of its placeholders'
        # contexts.
        index = next((n for n, found in enumerate(contexts) if found[0] == placeholder), None)
        rows[find, Context() if index is None else contexts.pop(index)[1]] += 1
    for (find, context), count in rows.items():
        placeholder = placeholder_for(find.kind, find.value)
        length = len(find.value)
        yield RedactionMatch(find.path, find.line, find.kind, placeholder, length, context, count)


def _contexts(text: str, is_json: bool) -> Iterator[tuple[str, Context]]:
    """Yield every placeholder of a text with its context."""
    if not is_json:
        yield from _contexts_in(text, "")
        return
    for place, start, end in written_strings(text):
        unescaped = decode_string(text[start:end]).text
        yield from _contexts_in(unescaped, "" if place.is_name else place.name)


def _contexts_in(text: str, key: str) -> Iterator[tuple[str, Context]]:
    for mark in re.finditer(MASKED, text):
        before = text[max(0, mark.start() - REACH) : mark.start()]
        yield mark[0], Context(key, before, text[mark.end() : mark.end() + REACH])


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
