"""The content of a file with placeholders: only the characters of what is replaced change."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from turnlog.edit.redact.json_strings import decode_string, spelled_strings
from turnlog.edit.redact.secret_finder import REDACTED, Finder, TextSpan
from turnlog.format.jsonl import read_lines

Note = Callable[[int, TextSpan], None]
"""Takes the place in a text near which something was found."""

LINES = ".jsonl"
JSON = (LINES, ".json")

_decode = msgspec.json.Decoder().decode


class RedactedPart(NamedTuple):
    """A file of what is to be redacted, or lines of it."""

    path: Path
    lines: frozenset[int] | None = None
    """The numbers of the lines that belong to the session; None for all."""
    is_shared: bool = False
    """Whether it is looked through only for secrets that were found elsewhere."""


IN_NAME = -1
"""The line of what is in the name of a file."""


class Find(NamedTuple):
    """A place of something that is to be replaced."""

    path: Path
    line: int
    """0 in a file that is no text, IN_NAME in its name."""
    kind: str
    value: str


@dataclass
class FoundValue:
    """What was found."""

    finds: list[Find] = field(default_factory=list[Find])
    stuck: list[Find] = field(default_factory=list[Find])
    """Known secrets in what is left alone: files that are no text, ids and encoded data."""


def redacted(
    part: RedactedPart, finder: Finder, noted: FoundValue, suspects: set[int] | None = None
) -> Iterator[bytes]:
    """The content of a file with placeholders; what they stand for is noted.

    Anything but a known value is only in the lines that are suspects; None if that is to be seen.
    """
    if part.is_shared:
        finder, suspects = finder.without_patterns(), set()
    if part.path.suffix == LINES:
        yield from _lines(part, finder, noted, suspects)
        return
    raw = part.path.read_bytes()
    if b"\0" not in raw and (suspects or suspects is None or finder.knows(raw)):
        raw = _whole(raw, part.path, finder, noted)
    yield raw
    noted.stuck += _values_in(raw, part.path, 0, finder)


def _lines(
    part: RedactedPart, finder: Finder, noted: FoundValue, suspects: set[int] | None
) -> Iterator[bytes]:
    for line in read_lines(part.path):
        if part.lines is not None and line.number not in part.lines:
            yield line.raw
            continue
        is_known = finder.knows(line.raw)
        raw = line.raw
        if is_known or (finder.suspects(raw) if suspects is None else line.number in suspects):
            note = _noting(noted, part.path, finder, lambda at, number=line.number: number)
            raw = _bytes(redacted_json(_text(raw), finder, note))
        if is_known:
            noted.stuck += _values_in(raw, part.path, line.number, finder)
        if suspects is None:
            fixed = finder.fixed_secrets(raw)
            noted.stuck += [Find(part.path, line.number, each.kind, each.value) for each in fixed]
        yield raw


def _whole(raw: bytes, path: Path, finder: Finder, noted: FoundValue) -> bytes:
    text = _text(raw)
    breaks = [match.start() for match in re.finditer("\n", text)]
    note = _noting(noted, path, finder, lambda at: bisect_left(breaks, at) + 1)
    redact = redacted_json if path.suffix in JSON else redacted_text
    return _bytes(redact(text, finder, note))


def _values_in(raw: bytes, path: Path, line: int, finder: Finder) -> Iterator[Find]:
    """The known secrets in bare bytes, whatever they are the bytes of."""
    is_text = b"\0" not in raw
    for form, value in finder.forms.items():
        if finder.kinds[value] == REDACTED:
            continue
        for code in ("utf-8",) if is_text else ("utf-8", "utf-16-le", "utf-16-be"):
            at = raw.find(form.encode(code, "surrogatepass"))
            if at >= 0:
                number = line or (raw.count(b"\n", 0, at) + 1 if is_text else 0)
                yield Find(path, number, finder.kinds[value], value)


def redacted_json(text: str, finder: Finder, note: Note) -> str:
    """A JSON text with placeholders in its strings; in what is no JSON they can be anywhere."""
    pieces: list[str] = []
    done = 0
    for place, start, end in spelled_strings(text):
        written = text[start:end]
        while spans := finder.spans((meant := decode_string(written)).text, place):
            for span in spans:
                note(start, span)
            where = [(meant.where(span.start), meant.where(span.end)) for span in spans]
            written = _spliced(written, where, map(finder.placeholder, spans))
        pieces += text[done:start], written
        done = end
    result = "".join([*pieces, text[done:]])
    return result if _is_json(text) else redacted_text(result, finder.without_patterns(), note)


def redacted_text(text: str, finder: Finder, note: Note) -> str:
    """A text with placeholders."""
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


def _noting(noted: FoundValue, path: Path, finder: Finder, line_at: Callable[[int], int]) -> Note:
    def note(at: int, span: TextSpan) -> None:
        kind = finder.kinds.get(span.value, span.kind)
        noted.finds.append(Find(path, line_at(at), kind, span.value))

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
