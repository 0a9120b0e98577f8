"""Spans of sessions, and what tests ask of them."""

from pathlib import Path
from typing import Any

from support.build import START, encode, session
from turnlog.conversation.session import Session, open_session
from turnlog.trace.span import Span, WorkKind
from turnlog.trace.spans import SpanOptions, spans_of

SECOND = 1_000_000_000
ZERO = int(START.timestamp()) * SECOND
"""The moment before the first line that `session` builds."""


def spans(of: Session, **options: Any) -> list[Span]:
    """The spans of a session that has ended."""
    usual: dict[str, Any] = {"ended": True}
    return list(spans_of(of, SpanOptions(**(usual | options))))


def of_kind(found: list[Span], kind: WorkKind) -> list[Span]:
    return [span for span in found if span.kind is kind]


def tree_of(found: list[Span]) -> list[str]:
    """The names of spans, indented by their depth."""
    depths: dict[str | None, int] = {None: -1}
    rows: list[str] = []
    for span in found:
        depths[span.id] = depths[span.parent_id] + 1
        rows.append("  " * depths[span.id] + span.name)
    return rows


def times_of(found: list[Span]) -> list[tuple[str, float | None, float | None]]:
    """When spans began and ended, in seconds since the moment before the first line."""
    return [(span.name, _seconds(span.start), _seconds(span.end)) for span in found]


def flat(folder: Path, *entries: Any) -> Session:
    """Return a session of bare objects, unchanged; bytes are copied."""
    path = folder / "transcript.jsonl"
    raws = (each if isinstance(each, bytes) else encode(each) for each in entries)
    path.write_bytes(b"".join(raws))
    return open_session(path)


def write_agent(folder: Path, name: str, *lines: bytes, **meta: Any) -> Path:
    """Write the file of a sub-agent with ids of its own, and its metadata file."""
    written = session(*lines, agent_id=name)
    own = written.replace(b"00000000-0000-4000-8000", b"a6e27000-0000-4000-8000")
    own = own.replace(b'"msg_', f'"msg_{name}_'.encode())
    return write_agent_as_is(folder, name, own, **meta)


def write_agent_as_is(folder: Path, name: str, written: bytes, **meta: Any) -> Path:
    """Write the file of a sub-agent as given, and its metadata file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"agent-{name}.jsonl"
    path.write_bytes(written)
    if meta:
        path.with_suffix(".meta.json").write_bytes(encode(meta))
    return path


def _seconds(time: int | None) -> float | None:
    return None if time is None else (time - ZERO) / SECOND
