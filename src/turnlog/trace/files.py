"""Spans in a file: as OTLP's JSON, or as events that ui.perfetto.dev draws."""

import json
import os
from base64 import b64decode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from turnlog.format.values import is_array, is_object
from turnlog.trace.attributes import attributes_of
from turnlog.trace.span import Span

IDS = ("traceId", "spanId", "parentSpanId")
"""Fields that OTLP writes in hex, other than protobuf's JSON does."""
Interval = tuple[int, int]


def write_otlp(path: Path, spans: Iterable[Span]) -> None:
    """Write spans as one OTLP request in JSON, as collectors read it from files."""
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    from turnlog.trace.otlp import resource_of, sdk_span

    resource = resource_of()
    request = encode_spans([sdk_span(span, resource) for span in spans])
    _write(path, _with_hex_ids(MessageToDict(request, use_integers_for_enums=True)))


def write_perfetto(path: Path, spans: Iterable[Span]) -> None:
    """Write spans as trace events: a process for each session, lanes for what overlaps."""
    _write(path, {"traceEvents": list(_events(spans))})


def _with_hex_ids(value: Any, name: str = "") -> Any:
    if is_object(value):
        return {key: _with_hex_ids(held, key) for key, held in value.items()}
    if is_array(value):
        return [_with_hex_ids(held) for held in value]
    return b64decode(value).hex() if name in IDS else value


def _events(spans: Iterable[Span]) -> Iterator[dict[str, Any]]:
    sessions: dict[str, list[Span]] = {}
    for span in spans:
        sessions.setdefault(span.trace.session_id, []).append(span)
    for process, (session, held) in enumerate(sessions.items(), 1):
        about = {"ph": "M", "pid": process, "tid": 0}
        yield {"name": "process_name", "args": {"name": session}, **about}
        lanes: list[list[Interval]] = []
        for span in sorted(held, key=lambda each: (each.begins, -each.ends)):
            yield {"pid": process, "tid": _lane(lanes, span), **_event(span)}


def _event(span: Span) -> dict[str, Any]:
    """A span as a trace event; its times are in microseconds."""
    return {
        "ph": "X",
        "name": span.name,
        "cat": span.kind,
        "ts": span.begins / 1000,
        "dur": (span.ends - span.begins) / 1000,
        "args": attributes_of(span),
    }


def _lane(lanes: list[list[Interval]], span: Span) -> int:
    """The first lane where all that still runs holds the span: events on a lane must nest."""
    start, end = span.begins, span.ends
    for number, running in enumerate(lanes, 1):
        while running and running[-1][1] <= start:
            running.pop()
        if not running or running[-1][1] >= end:
            running.append((start, end))
            return number
    lanes.append([(start, end)])
    return len(lanes)


def _write(path: Path, value: Any) -> None:
    beside = path.with_name(f".{path.name}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False)
    beside.replace(path)
