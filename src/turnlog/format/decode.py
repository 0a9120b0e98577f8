"""Decode lines into entries. Reading is tolerant: no content of a line raises an error.

The fast path decodes a valid line directly into its type. Any other line takes the slow path, which
salvages what it can and reports what was wrong.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Struct

from turnlog.format.entries import Entry, Unknown
from turnlog.format.fields import SnakeView, Text
from turnlog.format.fit import fit
from turnlog.format.json_values import is_object
from turnlog.format.jsonl import Line, read_lines
from turnlog.format.kinds import type_for, type_named

MARK = b"\xef\xbb\xbf"
BYTE_ORDER_MARK = "a byte order mark"
"""The only problem of a line that costs none of its content."""
HALVES = re.compile("[\ud800-\udfff]")
"""Halves of surrogate pairs, which JSON can contain and UTF-8 cannot."""


class Problem(NamedTuple):
    """A place in a file that could not be read properly."""

    path: Path
    line: int
    offset: int
    reason: str


class Decoded(Struct, frozen=True):
    """The contents of a line: usually one entry and no problem."""

    entries: tuple[Entry, ...]
    problems: tuple[str, ...] = ()
    misfits: tuple[str, ...] = ()
    """Dotted names of known fields whose values have an unexpected type."""


NOTHING = Decoded(())
"""The contents of a blank line."""


class JsonPiece(NamedTuple):
    """A JSON value and its bytes."""

    value: Any
    raw: bytes


class _Head(SnakeView):
    type: Text = UNSET
    subtype: Text = UNSET


_decode_head = msgspec.json.Decoder(_Head).decode
_decode_any = msgspec.json.Decoder().decode
_value_decoder = json.JSONDecoder(strict=False)
NEAR = 512
"""Distance from the start or end of a line within which most lines have their type."""
DEEP = "nested too deeply"
DEEPEST = 500
"""Nesting depth above which a damaged value is reported as too deep, whatever the parser says."""
_space = re.compile(r"[ \t\r\n]*")
_brackets = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}


def read_entries(path: Path, problems: list[Problem] | None = None) -> Iterator[tuple[Line, Entry]]:
    """Yield each entry of a file with its line, adding unreadable parts to `problems`."""
    for line in read_lines(path):
        decoded = decode_line(line)
        if problems is not None:
            problems += [Problem(path, line.number, line.offset, why) for why in decoded.problems]
        for entry in decoded.entries:
            yield line, entry


def decode_line(line: Line) -> Decoded:
    """Decode the contents of a line."""
    return decode_sound(line) or _decode_damaged(line)


def decode_sound(line: Line) -> Decoded | None:
    """Decode a valid line, or return None; every string of the result can be encoded as UTF-8."""
    if line.is_blank:
        return NOTHING
    try:
        return _decode_sound(line.raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def values_of(line: Line) -> list[Any]:
    """Return the untyped JSON values on a line, usually one object."""
    return [piece.value for piece in split_values(line)[0]]


def split_values(line: Line) -> tuple[list[JsonPiece], bytes]:
    """Return the JSON values on a line, and the unreadable rest after the last one."""
    try:
        return [JsonPiece(_decode_any(line.raw), line.raw)], b""
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        text = _text(line.raw, [])
        spans, rest = _spans(text, line.is_whole, [])
        pieces = [JsonPiece(value, text[start:end].encode()) for value, start, end in spans]
        return pieces, text[rest:].rstrip().encode()


def _decode_sound(raw: bytes) -> Decoded:
    """Decode a line, guessing common types from its start or end."""
    # Decoding needs the type first, and parsing a line just for its type doubles the work. So
    # search its first and last bytes for `"type":"user"` and decode it as that. The match may be
    # wrong: `{"message":{"content":"{\"type\":\"user\"}"...` quotes it, or it belongs to a nested
    # object. That is harmless, because the decoder reads the real, top-level `type` as well:
    #   - it equals the guess: these types have no subtypes, so the type alone determines the class;
    #   - it differs: the entry is thrown away, and the line is decoded by its head;
    #   - decoding fails, as fields of the guessed type do not fit: the slow path takes over.
    found = _TYPE.search(raw, 0, NEAR) or _TYPE.search(raw, max(0, len(raw) - NEAR))
    if found:
        name, decode = _GUESSES[found[1]]
        entry = decode(raw)
        if entry.type == name:
            return Decoded((entry,))
    return _decode_by_head(raw)


def _decode_by_head(raw: bytes) -> Decoded:
    head = _decode_head(raw)
    kind = type_named(head.type, head.subtype)
    if kind is not Unknown:
        return Decoded((_decoder(kind).decode(raw),))
    misfits: list[str] = []
    entry = _entry(_decode_any(raw), misfits)
    return Decoded((entry,), (), tuple(misfits))


@cache
def _decoder(kind: type[Entry]) -> msgspec.json.Decoder[Entry]:
    return msgspec.json.Decoder(kind)


_COMMON = ("progress", "assistant", "user", "attachment")
_GUESSES = {name.encode(): (name, _decoder(type_named(name)).decode) for name in _COMMON}
_TYPE = re.compile(rb'"type":"(' + b"|".join(_GUESSES) + rb')"')


def _entry(fields: dict[str, Any], misfits: list[str]) -> Entry:
    kind = type_for(fields)
    entry: Entry = fit(kind, fields, misfits)
    if isinstance(entry, Unknown):
        entry.fields = fields
    return entry


def _decode_damaged(line: Line) -> Decoded:
    # A write that was cut off leaves no newline, so the next entry is on the same line: `{"a"...}{`
    # occurs in real files. Every complete object of a line is kept, and the rest is reported.
    problems: list[str] = []
    misfits: list[str] = []
    spans, _ = _spans(_text(line.raw, problems), line.is_whole, problems)
    values = [value for value, _, _ in spans]
    objects = [value for value in values if is_object(value)]
    if len(objects) < len(values):
        problems.append("JSON, but not an object")
    if len(values) > 1:
        problems.append(f"{len(values)} values on one line")
    entries: tuple[Entry, ...] = ()
    try:
        entries = tuple(_entry(fields, misfits) for fields in objects)
    except RecursionError as error:
        problems.append(_reason(error, line.is_whole))
    return Decoded(entries, tuple(problems), tuple(misfits))


def _text(raw: bytes, problems: list[str]) -> str:
    if raw.startswith(MARK):
        raw = raw.removeprefix(MARK)
        problems.append(BYTE_ORDER_MARK)
    if b"\0" in raw:
        raw = raw.replace(b"\0", b"")
        problems.append("NUL bytes")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        problems.append("invalid UTF-8")
        return raw.decode(errors="replace")


def _spans(
    text: str, is_whole: bool, problems: list[str]
) -> tuple[list[tuple[Any, int, int]], int]:
    """Return every JSON value on a line with its offsets, and the offset of the unreadable rest."""
    spans: list[tuple[Any, int, int]] = []
    position = _skip_space(text, 0)
    while position < len(text):
        try:
            value, end = _value_decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            is_deep = _is_deep(text, position, getattr(error, "pos", len(text)))
            problems.append(DEEP if is_deep else _reason(error, is_whole))
            break
        spans.append((value, position, end))
        position = _skip_space(text, end)
    return spans, position


def _skip_space(text: str, position: int) -> int:
    found = _space.match(text, position)
    return found.end() if found else position


def _is_deep(text: str, start: int, end: int) -> bool:
    """Return whether a value is nested so deeply that some callers could not parse it.

    Python's limit counts the caller's frames too. Without this, `[[[[…` with 950 brackets would be
    "not JSON" for one caller and "nested too deeply" for another.
    """
    depth = 0
    for token in _brackets.finditer(text, start, end):
        depth += _STEPS.get(token[0], 0)
        if depth > DEEPEST:
            return True
    return False


def _reason(error: Exception, is_whole: bool) -> str:
    if isinstance(error, RecursionError):
        return DEEP
    if not is_whole:
        return "the last line is torn"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg.removesuffix(' at')} at column {error.pos + 1}"
    return f"not JSON: {error}"


def encode_sound(value: Any) -> bytes:
    """Encode a value as JSON in UTF-8; half a surrogate pair, which has no UTF-8, becomes U+FFFD.

    >>> encode_sound([chr(0xD800)]).decode() == '["\\ufffd"]'
    True
    """
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(",", ":"))
        return HALVES.sub("\ufffd", text).encode()
