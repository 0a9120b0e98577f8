"""Builders of session lines: a test states only what matters to it, `session` fills in the rest.

A builder gives one line as bytes. Fields are given by their snake_case names (`is_meta=True`) or
as the file has them (`isMeta=True`); `parent` is short for `parentUuid`. What a line does not
state, `session` sets: its uuid, its parent (the line before it), its time, the session's id. So a
straight conversation needs no ids, a branch needs one `parent`, and the lines of one model message
need one `message_id`.

>>> whole = session(user("hi"), assistant(text("hello")), user("again", parent=nth(1)))
>>> [json.loads(raw)["parentUuid"] == nth(1) for raw in whole.splitlines()]
[False, True, True]
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from turnlog.format.json_values import is_object

Fields = dict[str, Any]

SESSION = "5e551011-0000-4000-8000-000000000000"
START = datetime(2026, 11, 15, 6, 0, tzinfo=UTC)
COMMON: Fields = {
    "isSidechain": False,
    "userType": "external",
    "cwd": "/home/ada/shop",
    "version": "2.1.325",
    "gitBranch": "main",
}
CHAINED = ("user", "assistant", "system", "attachment", "progress")
WITHOUT_SESSION = ("summary", "file-history-snapshot", "file-history-delta")


def nth(number: int) -> str:
    """The uuid of the session's nth line, counted from 1, unless the line states another."""
    return f"00000000-0000-4000-8000-{number:012d}"


def moment(number: int) -> str:
    """The timestamp of the session's nth line: one second after the line before it."""
    return stamp(START + timedelta(seconds=number))


def stamp(when: datetime) -> str:
    """A time as the client writes it."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def line(kind: str | None = None, /, **fields: Any) -> bytes:
    """A line of any type, or of none.

    >>> line("custom-title", custom_title="Shop")
    b'{"type":"custom-title","customTitle":"Shop"}\\n'
    """
    named = {} if kind is None else {"type": kind}
    return encode(named | {_json_name(name): value for name, value in fields.items()})


def user(content: Any, **fields: Any) -> bytes:
    """A prompt, or another line of the user: `content` is its text or its blocks."""
    return line("user", message={"role": "user", "content": content}, **fields)


def assistant(
    *blocks: Fields, message_id: str | None = None, message: Fields | None = None, **fields: Any
) -> bytes:
    """A line of the model; `message` adds to the message itself: usage, model, stop_reason."""
    body: Fields = {"type": "message", "role": "assistant", "model": "claude-opus-5-5"}
    body |= {"content": list(blocks), "stop_reason": None, "stop_sequence": None}
    body |= {"usage": {"input_tokens": 10, "output_tokens": 20}} | (message or {})
    if message_id is not None:
        body["id"] = message_id
    return line("assistant", message=body, **fields)


def result(call_id: str, content: Any = "ok", is_error: bool | None = None, **fields: Any) -> bytes:
    """The result of a call; `tool_use_result` is the tool's own."""
    return user([result_block(call_id, content, is_error)], **fields)


def system(subtype: str, **fields: Any) -> bytes:
    """A note of the client."""
    return line("system", subtype=subtype, **fields)


def attachment(kind: str, content: Fields | None = None, **fields: Any) -> bytes:
    """Context that the client injected."""
    return line("attachment", attachment={"type": kind} | (content or {}), **fields)


def compaction(summary: str, **fields: Any) -> tuple[bytes, bytes]:
    """The boundary at which older turns end, and the summary that stands for them."""
    boundary = system(
        "compact_boundary",
        **{
            "parent": None,
            "content": "Conversation compacted",
            "compact_metadata": {"trigger": "manual", "preTokens": 1000},
        }
        | fields,
    )
    return boundary, user(summary, is_compact_summary=True, is_visible_in_transcript_only=True)


def text(text: str) -> Fields:
    """A block of text."""
    return {"type": "text", "text": text}


def thinking(thinking: str, signature: str = "c2lnbmVk") -> Fields:
    """A block of thinking."""
    return {"type": "thinking", "thinking": thinking, "signature": signature}


def call(tool: str, arguments: Fields | None = None, call_id: str = "toolu_1") -> Fields:
    """A block that calls a tool."""
    return {"type": "tool_use", "id": call_id, "name": tool, "input": arguments or {}}


def result_block(call_id: str, content: Any = "ok", is_error: bool | None = None) -> Fields:
    """A block with the result of a call."""
    block: Fields = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return block if is_error is None else block | {"is_error": is_error}


def image(data: str = "aGk=", media_type: str = "image/png") -> Fields:
    """A block with an image."""
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "image", "source": source}


def session(*lines: bytes, session_id: str = SESSION, agent_id: str | None = None) -> bytes:
    """The bytes of a session file, or with `agent_id` of a sub-agent's.

    Lines that are not JSON objects are taken as they are.
    """
    shared: Fields = {"sessionId": session_id}
    if agent_id is not None:
        shared |= {"isSidechain": True, "agentId": agent_id}
    whole: list[bytes] = []
    parent: str | None = None
    for number, raw in enumerate(lines, 1):
        fields = _fields_of(raw)
        if fields is None:
            whole.append(raw)
            continue
        if fields.get("type") in CHAINED:
            fields = _chained(fields, number, COMMON | shared | {"parentUuid": parent})
            parent = fields["uuid"]
        elif fields.get("type") not in WITHOUT_SESSION:
            fields = {"sessionId": session_id} | fields
        whole.append(encode(fields))
    return b"".join(whole)


def encode(value: Any) -> bytes:
    """A value as the client writes it, on a line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _chained(fields: Fields, number: int, shared: Fields) -> Fields:
    fields = shared | {"uuid": nth(number), "timestamp": moment(number)} | fields
    if fields["type"] == "assistant" and is_object(fields.get("message")):
        name = fields["message"].setdefault("id", f"msg_{number}")
        fields.setdefault("requestId", f"req_{name}")
    return fields


def _fields_of(raw: bytes) -> Fields | None:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value if is_object(value) else None


def _json_name(name: str) -> str:
    if name == "parent":
        return "parentUuid"
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
