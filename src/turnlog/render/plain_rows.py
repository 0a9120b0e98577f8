"""Convert views to plain dicts of Python types, ready for a data frame.

A timestamp becomes a timezone-aware datetime in UTC. A day, week or month, which is in local time,
becomes a naive datetime at its start. Null and absent values become None. Secrets are masked, also
by field names, unless `reveal` is set.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, UnsetType
from msgspec.structs import asdict as struct_fields

from turnlog.conversation.messages import Message
from turnlog.conversation.session import Session
from turnlog.conversation.turn_figures import cost_of_messages
from turnlog.format.blocks import TextBlock
from turnlog.format.entries import Assistant
from turnlog.format.fields import given
from turnlog.format.timestamps import parse_timestamp
from turnlog.render.json_views import call_view, turn_view, usage_view
from turnlog.secrets import mask_value

PlainRow = dict[str, Any]

MOMENTS = frozenset({"ended", "ends", "last", "last_active", "started", "time"})
"""Fields of views and columns of reports that contain timestamps as text."""
CALENDAR = {"day": "%Y-%m-%d", "week": "%Y-%m-%d", "month": "%Y-%m"}
"""Columns of reports with a day or the first day of a period, and their formats."""


def plain_row(view: object, reveal: bool = False) -> PlainRow:
    """Return a view, a dataclass or a mapping of fields as a plain dict, masked."""
    row = _fields(view)
    return row if reveal else mask_value(row)


def report_rows(rows: Iterable[Mapping[str, Any]], reveal: bool = False) -> list[PlainRow]:
    """Return the rows of a report with datetimes, flags and one numeric type per column."""
    found = [_flags(plain_row(row, reveal)) for row in rows]
    floats = {name for row in found for name, value in row.items() if isinstance(value, float)}
    for row in found:
        # SQLite computes 0 in one row and 0.5 in the next; polars accepts one type per column.
        row.update({name: float(row[name]) for name in floats if isinstance(row[name], int)})
    return found


def turn_rows(session: Session, reveal: bool = False) -> list[PlainRow]:
    """Return the turns of the active branch."""
    # Mask the view in plain_row, which knows the names of fields.
    return [plain_row(turn_view(session, turn, reveal=True), reveal) for turn in session.turns]


def call_rows(session: Session, reveal: bool = False) -> list[PlainRow]:
    """Return every call of a session, of all branches."""
    return [
        plain_row(
            {"time": call.use.time} | struct_fields(call_view(session, call, reveal=True)), reveal
        )
        for call in session.calls
    ]


def message_rows(session: Session, reveal: bool = False) -> list[PlainRow]:
    """Return every answer of the model, of all branches, each with its tokens and cost."""
    return [plain_row(_message(session, message), reveal) for message in session.messages]


def _message(session: Session, message: Message) -> PlainRow:
    is_priced = not message.is_synthetic
    return {
        "id": message.id,
        "line": message.nodes[0].line,
        "started": message.started,
        "ended": message.ended,
        "model": message.model,
        "stop_reason": message.stop_reason,
        "is_synthetic": message.is_synthetic,
        "text": _text(session, message),
        **struct_fields(usage_view([message])),
        "cost_usd": cost_of_messages([message])[0] if is_priced else None,
    }


def _text(session: Session, message: Message) -> str:
    contents = [e.content for e in session.entries(message.nodes) if isinstance(e, Assistant)]
    texts = (
        content
        if isinstance(content, str)
        else "\n".join(given(each.text) or "" for each in content if isinstance(each, TextBlock))
        for content in contents
    )
    return "\n".join(filter(None, texts))


def _fields(view: object) -> PlainRow:
    """Return the fields of a view; convert timestamps of views, but not of the JSON in them."""
    if isinstance(view, Struct):
        fields = struct_fields(view)
    elif is_dataclass(view) and not isinstance(view, type):
        fields = asdict(view)
    else:
        fields = dict(cast("Mapping[str, Any]", view))
    return {name: _value(name, value) for name, value in fields.items()}


def _value(name: str, value: Any) -> Any:
    if isinstance(value, str):
        if name in MOMENTS:
            return parse_timestamp(value)
        if name in CALENDAR:
            return datetime.strptime(value, CALENDAR[name])
    return _plain(value)


def _plain(value: Any) -> Any:
    """Convert a value to Python's own types; the JSON inside a view keeps its strings."""
    if isinstance(value, Struct):
        return _fields(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, UnsetType):
        return None
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {str(name): _plain(held) for name, held in fields.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in cast("Iterable[Any]", value)]
    return value


def _flags(row: PlainRow) -> PlainRow:
    """Turn the flags of a report, which SQLite stores as 0 and 1, into booleans."""
    for name, value in row.items():
        if value is not None and (name == "ok" or name.startswith("is_")):
            row[name] = bool(value)
    return row
