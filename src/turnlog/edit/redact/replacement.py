"""Replace secrets with placeholders in the content of a file; all other bytes stay the same."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from turnlog.edit.redact.json_strings import decode_string, written_strings
from turnlog.edit.redact.secret_finder import Finder, TextSpan
from turnlog.format.jsonl import read_lines

Note = Callable[[int, TextSpan], None]
"""Called for each find with its offset in the text and its span."""

LINES = ".jsonl"
JSON = (LINES, ".json")

_decode = msgspec.json.Decoder().decode


class RedactedPart(NamedTuple):
    """A file to redact, or some of its lines."""

    path: Path
    lines: frozenset[int] | None = None
    """Numbers of the lines that belong to the session; None for all lines."""
    is_shared: bool = False
    """True if only secrets that were found in other files are replaced."""


IN_NAME = -1
"""The line number of a find in a file's name."""


class Find(NamedTuple):
    """An occurrence of a value to replace."""

    path: Path
    line: int
    """The line number; 0 in a binary file, `IN_NAME` in a file's name."""
    kind: str
    value: str


@dataclass
class RedactionFinds:
    """The finds of one search."""

    finds: list[Find] = field(default_factory=list[Find])
    stuck: list[Find] = field(default_factory=list[Find])
    """Known secrets that cannot be replaced: in binary files, ids and encoded data."""


def redact_part(
    part: RedactedPart, finder: Finder, collected: RedactionFinds, suspects: set[int] | None = None
) -> Iterator[bytes]:
    """Yield the redacted content of a file, and add the finds to `collected`.

    `suspects` are the lines that had finds before: other lines are searched only for known values.
    None searches every line.
    """
    if part.is_shared:
        finder, suspects = finder.without_patterns(), set()
    if part.path.suffix == LINES:
        yield from _lines(part, finder, collected, suspects)
        return
    raw = part.path.read_bytes()
    if b"\0" not in raw and (suspects or suspects is None or finder.knows(raw)):
        raw = _whole(raw, part.path, finder, collected)
    yield raw
    collected.stuck += _values_in(raw, part.path, 0, finder)


def _lines(
    part: RedactedPart, finder: Finder, collected: RedactionFinds, suspects: set[int] | None
) -> Iterator[bytes]:
    for line in read_lines(part.path):
        if part.lines is not None and line.number not in part.lines:
            yield line.raw
            continue
        # Pre-filter: almost all lines contain nothing to redact, and scanning the text of a line is
        # slow. `knows` searches the bytes, and `suspects` uses the fast decoder.
        is_known = finder.knows(line.raw)
        raw = line.raw
        if is_known or (finder.suspects(raw) if suspects is None else line.number in suspects):
            note = _collector(collected, part.path, finder, lambda at, number=line.number: number)
            raw = _bytes(redact_json(_text(raw), finder, note))
        if is_known:
            collected.stuck += _values_in(raw, part.path, line.number, finder)
        if suspects is None:
            fixed = finder.fixed_secrets(raw)
            collected.stuck += [
                Find(part.path, line.number, span.kind, span.value) for span in fixed
            ]
        yield raw


def _whole(raw: bytes, path: Path, finder: Finder, collected: RedactionFinds) -> bytes:
    text = _text(raw)
    breaks = [match.start() for match in re.finditer("\n", text)]
    note = _collector(collected, path, finder, lambda at: bisect_left(breaks, at) + 1)
    redact = redact_json if path.suffix in JSON else redact_text
    return _bytes(redact(text, finder, note))


def _values_in(raw: bytes, path: Path, line: int, finder: Finder) -> Iterator[Find]:
    """Yield the known secrets in raw bytes, whatever the bytes encode."""
    is_text = b"\0" not in raw
    for value, offset in finder.values_in(raw).items():
        number = line or (raw.count(b"\n", 0, offset) + 1 if is_text else 0)
        yield Find(path, number, finder.kinds[value], value)


def redact_json(text: str, finder: Finder, note: Note) -> str:
    """Return a JSON text with placeholders in its strings; in invalid JSON, also outside them."""
    pieces: list[str] = []
    done = 0
    for place, start, end in written_strings(text):
        written = text[start:end]
        # Repeat until nothing is found: a replacement can uncover another match. Only the escaped
        # characters of a span are cut out, so the rest keeps its spelling (`\u00e4`).
        while spans := finder.spans((decoded := decode_string(written)).text, place):
            for span in spans:
                note(start, span)
            where = [(decoded.where(span.start), decoded.where(span.end)) for span in spans]
            written = _spliced(written, where, map(finder.placeholder, spans))
        pieces += text[done:start], written
        done = end
    result = "".join([*pieces, text[done:]])
    # In a truncated line, quotes may be paired wrongly, which leaves a secret outside of all
    # strings. The user's patterns are not applied there: they could match field names and ids.
    return result if _is_json(text) else redact_text(result, finder.without_patterns(), note)


def redact_text(text: str, finder: Finder, note: Note) -> str:
    """Return a text with placeholders."""
    while spans := finder.spans(text):
        for span in spans:
            note(span.start, span)
        where = [(span.start, span.end) for span in spans]
        text = _spliced(text, where, map(finder.placeholder, spans))
    return text


def _spliced(text: str, where: Iterable[tuple[int, int]], new: Iterable[str]) -> str:
    pieces: list[str] = []
    done = 0
    for (start, end), piece in zip(where, new, strict=True):
        pieces += text[done:start], piece
        done = end
    return "".join([*pieces, text[done:]])


def _collector(
    collected: RedactionFinds, path: Path, finder: Finder, line_at: Callable[[int], int]
) -> Note:
    def note(at: int, span: TextSpan) -> None:
        kind = finder.kinds.get(span.value, span.kind)
        collected.finds.append(Find(path, line_at(at), kind, span.value))

    return note


def _is_json(text: str) -> bool:
    try:
        _decode(_bytes(text))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
