"""Write spans to a file one by one, as OTLP JSON or as trace events for ui.perfetto.dev.

A file replaces an older one only when it is complete.
"""

import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from turnlog import __version__
from turnlog.format.json_values import is_array
from turnlog.format.portable import BINARY
from turnlog.trace.attributes import attributes_of
from turnlog.trace.span import Event, Span, WorkKind

INTERNAL, CLIENT = 1, 3
"""OTLP's numbers for span kinds."""
HAS_IS_REMOTE = 256
"""Flag: it is known whether the span's parent is remote."""
IS_REMOTE = 512
"""Flag: the span's parent is remote."""
Interval = tuple[int, int]
_encode = msgspec.json.Encoder().encode


def write_otlp(
    path: Path, spans: Iterable[Span], resource: Mapping[str, str] | None = None
) -> None:
    """Write spans as one OTLP JSON request, the format that collectors read from files."""
    with otlp_file(path, resource) as file:
        for rank, span in enumerate(spans):
            file.write((b"," if rank else b"") + encode_span(span))


@contextmanager
def otlp_file(path: Path, resource: Mapping[str, str] | None = None) -> Generator[BinaryIO]:
    """Open a file for encoded spans; the caller writes the commas between them."""
    shared = {"service.name": "claude-code", **(resource or {})}
    attributes = {"attributes": [_attribute(name, value) for name, value in shared.items()]}
    scope = {"name": "turnlog", "version": __version__}
    with _writing(path) as file:
        file.write(b'{"resourceSpans":[{"resource":' + _encode(attributes))
        file.write(b',"scopeSpans":[{"scope":' + _encode(scope) + b',"spans":[')
        yield file
        file.write(b"]}]}]}")


def encode_span(span: Span) -> bytes:
    """Encode a span as OTLP JSON.

    Protobuf is not used, because the objects of all spans would not fit in memory.
    """
    return b"\n" + _encode(otlp_span(span))


def write_perfetto(path: Path, spans: Iterable[Span]) -> None:
    """Write spans as trace events: one process per session, overlapping spans in separate lanes."""
    with _writing(path) as file:
        file.write(b'{"traceEvents":[')
        _write_all(file, _events(spans))
        file.write(b"]}")


def otlp_span(span: Span) -> dict[str, Any]:
    """Return a span as OTLP JSON: ids are hex, 64-bit numbers are strings."""
    found: dict[str, Any] = {"traceId": span.trace.id, "spanId": span.id}
    if span.sent_parent:
        found["parentSpanId"] = span.sent_parent
    found["name"] = span.name
    found["kind"] = CLIENT if span.kind is WorkKind.GENERATION else INTERNAL
    # Protobuf's JSON mapping omits default values: a missing time means unknown.
    if span.begins:
        found["startTimeUnixNano"] = str(span.begins)
    if span.ends:
        found["endTimeUnixNano"] = str(span.ends)
    found["attributes"] = _attributes(attributes_of(span))
    if span.events:
        found["events"] = [_otlp_event(event) for event in span.events]
    found["status"] = _status(span)
    is_remote = span.parent_id is None and span.sent_parent is not None
    found["flags"] = HAS_IS_REMOTE | IS_REMOTE * is_remote
    return found


def _otlp_event(event: Event) -> dict[str, Any]:
    found: dict[str, Any] = {"timeUnixNano": str(event.time)} if event.time else {}
    found["name"] = event.name
    if attributes := _attributes(event.facts | event.texts):
        found["attributes"] = attributes
    return found


def _status(span: Span) -> dict[str, Any]:
    if span.error is not None:
        return {"message": span.error, "code": 2} if span.error else {"code": 2}
    return {} if span.is_interrupted else {"code": 1}


def _attributes(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    # A span has about forty attributes, most of them texts: avoid a function call for these.
    return [
        {"key": name, "value": {"stringValue": value} if type(value) is str else _value(value)}
        for name, value in attributes.items()
        if value is not None
    ]


def _attribute(name: str, value: Any) -> dict[str, Any]:
    return {"key": name, "value": _value(value)}


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    values = [_value(item) for item in value] if is_array(value) else []
    return {"arrayValue": {"values": values} if values else {}}


def _events(spans: Iterable[Span]) -> Iterator[dict[str, Any]]:
    lanes: dict[str, list[list[Interval]]] = {}
    for session, group in groupby(spans, key=lambda span: span.trace.session_id):
        is_new = session not in lanes
        own = lanes.setdefault(session, [])
        process = list(lanes).index(session) + 1
        if is_new:
            about = {"ph": "M", "pid": process, "tid": 0}
            yield {"name": "process_name", "args": {"name": session}, **about}
        for span in sorted(group, key=lambda span: (span.begins, -span.ends)):
            yield {"pid": process, "tid": _lane(own, span), **_event(span)}


def _event(span: Span) -> dict[str, Any]:
    """Return a span as a trace event, with times in microseconds."""
    return {
        "ph": "X",
        "name": span.name,
        "cat": span.kind,
        "ts": span.begins / 1000,
        "dur": (span.ends - span.begins) / 1000,
        "args": attributes_of(span),
    }


def _lane(lanes: list[list[Interval]], span: Span) -> int:
    """Return the first lane where the span nests in all running spans, as Perfetto requires."""
    start, end = span.begins, span.ends
    for number, running in enumerate(lanes, 1):
        # Spans come in order of their start: what has ended by now cannot overlap any later span.
        while running and running[-1][1] <= start:
            running.pop()
        if not running or running[-1][1] >= end:
            running.append((start, end))
            return number
    lanes.append([(start, end)])
    return len(lanes)


def _write_all(file: BinaryIO, values: Iterable[dict[str, Any]]) -> None:
    for rank, value in enumerate(values):
        file.write((b"," if rank else b"") + b"\n" + _encode(value))


@contextmanager
def _writing(path: Path) -> Generator[BinaryIO]:
    """Open a private file that replaces `path` when it is completely written."""
    partial = path.with_name(f".{path.name}.new")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | BINARY, 0o600)
    except OSError as error:
        error.filename = str(path)  # the path that the user typed
        raise
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
