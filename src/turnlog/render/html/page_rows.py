"""Convert rows to JSON for a page: clip texts, render Markdown, add the usage of messages."""

from dataclasses import fields as fields_of
from functools import partial
from typing import Any

from turnlog.conversation.call_titles import todo_list
from turnlog.conversation.cost import cost_of
from turnlog.conversation.messages import Message
from turnlog.conversation.models import window_of
from turnlog.format.json_values import Fields, as_object, is_array, is_object
from turnlog.format.tools import CHANGING
from turnlog.render.html.prose import prose_html
from turnlog.render.images import ImageData
from turnlog.render.json_views import usage_view
from turnlog.render.rows import (
    AnswerRow,
    CallRow,
    NoteRow,
    PromptRow,
    Row,
    ThoughtRow,
    TurnEndRow,
)
from turnlog.secrets import mask

TYPES: dict[type, str] = {
    PromptRow: "prompt",
    AnswerRow: "answer",
    ThoughtRow: "thinking",
    CallRow: "call",
    TurnEndRow: "end",
}


def row_json(row: Row, clip: int | None, prose: bool = True) -> Fields:
    """Return a row as JSON; `cut` maps each clipped field to its original length."""
    kind = row.kind if isinstance(row, NoteRow) else TYPES[type(row)]
    given = _call_json(row) if isinstance(row, CallRow) else _fields_of(row)
    fields: Fields = {"type": kind} | given
    if isinstance(row, NoteRow):
        del fields["kind"]
    if isinstance(row, AnswerRow) and prose:
        fields["html"] = prose_html(row.text)
    if isinstance(row, PromptRow):
        fields["marks"] = row.marks
        fields["images"] = list(map(_data_url, row.images))
        # A page holds every row in memory, so do not store most prompts twice.
        if row.prompt == row.text:
            del fields["prompt"]
    return fields if clip is None else _clipped(fields, clip)


def _fields_of(row: Row) -> Fields:
    # Not `asdict`, which would copy all values.
    return {each.name: getattr(row, each.name) for each in fields_of(row)}


def _call_json(row: CallRow) -> Fields:
    details = row.details
    assert details, "rows of pages are built with details"
    fields: Fields = {
        "line": row.line,
        "result_line": details.result_line,
        "id": mask(details.id),
        "name": row.name,
        "title": row.title,
        "outcome": row.outcome,
        "is_error": row.is_error and not row.is_rejected,
        "is_rejected": row.is_rejected,
        "is_edit": row.name in CHANGING and not row.is_error and details.result is not None,
        "duration_ms": row.duration_ms,
        "size": details.whole_size or len((details.result or "").encode("utf-8", "replace")),
        "style": row.style,
        "body": row.body,
        "input": details.input,
        "result": details.result,
        "agent": mask(details.agent_id) if details.agent_id else None,
        "images": list(map(_data_url, details.images)),
    }
    if details.whole_size:
        fields["cut"] = {"result": details.whole_size}
    given = as_object(details.input)
    if row.name == "TodoWrite":
        fields["todos"] = [_todo(todo) for todo in todo_list(given)]
    if row.name == "ExitPlanMode" and isinstance(given.get("plan"), str):
        fields["html"] = prose_html(given["plan"])
    return fields


def _todo(todo: Fields) -> Fields:
    return {name: str(todo.get(name) or "") for name in ("status", "content")}


def _data_url(image: ImageData) -> str:
    return f"data:{image.media_type};base64,{''.join(image.data.split())}"


def _clipped(fields: Fields, clip: int) -> Fields:
    """Clip the long texts of a row and list them in `cut`."""
    whole: dict[str, int] = fields.pop("cut", {})
    cut: dict[str, int] = {}
    shown: Fields = {}
    for name, value in fields.items():
        # Rendered Markdown cannot be clipped without breaking its tags, so the page shows the
        # clipped text instead.
        if name == "html" and value is not None and "text" in cut:
            shown[name] = None
        elif name in ("html", "images"):
            shown[name] = value
        else:
            shown[name] = _clip_value(value, clip, partial(cut.__setitem__, name))
    cut |= whole
    return shown | {"cut": cut} if cut else shown


def _clip_value(value: Any, clip: int, note: Any) -> Any:
    if isinstance(value, str) and len(value) > clip:
        note(len(value))
        return value[:clip]
    if is_object(value):
        return {name: _clip_value(each, clip, note) for name, each in value.items()}
    if is_array(value):
        kept: list[Any] = []
        size = 0
        for each in value:
            kept.append(_clip_value(each, clip, note))
            size += len(each) + 1 if isinstance(each, str) else 1
            if size > clip:
                note(sum(len(other) + 1 if isinstance(other, str) else 1 for other in value))
                break
        return kept
    return value


def message_json(message: Message) -> Fields:
    """Return the facts that a page shows about a message: model, tokens, cost and context fill."""
    usage = usage_view([message])
    sent = usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens
    return {
        "id": mask(message.id or "") or None,
        "line": message.nodes[0].line,
        "model": mask(message.model or "") or None,
        # No client writes a secret there, but files from other tools may contain one.
        "stop_reason": mask(message.stop_reason or "") or None,
        "started": mask(message.started or "") or None,
        "ended": mask(message.ended or "") or None,
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cache_read": usage.cache_read_input_tokens,
        "cache_write": usage.cache_creation_input_tokens,
        "cost_usd": None
        if message.is_synthetic
        else cost_of(message.model, message.usage, message.started),
        "context": sent,
        "window": window_of(message.model or ""),
    }
