"""Values of attributes: how what a span holds is put in the form that a convention wants."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from turnlog.format.blocks import Usage
from turnlog.format.fields import given
from turnlog.format.timestamps import stamp_of
from turnlog.trace.span import Span, WorkKind
from turnlog.trace.span_times import EPOCH

Get = Callable[[Span], Any]
"""The value of an attribute; None where the span has none."""


def once(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Remember the result for the last argument, which must not change.

    Several attributes carry the same long value, each under the name of its convention.
    """
    last: tuple[Any, Any] = (object(), None)

    def remembered(argument: Any) -> Any:
        nonlocal last
        known, result = last
        if known is not argument:
            result = function(argument)
            last = argument, result
        return result

    return remembered


to_json = once(json.JSONEncoder(ensure_ascii=False).encode)


def own(name: str) -> Get:
    """A field of the span."""
    return lambda span: getattr(span, name)


def shared(name: str) -> Get:
    """A field of the span's trace."""
    return lambda span: getattr(span.trace, name)


def by_kind(*names: str) -> Get:
    """A name for each kind: span, agent, generation, tool."""
    table = dict(zip(WorkKind, names, strict=True))
    return lambda span: table[span.kind]


def when(kind: WorkKind, get: Get) -> Get:
    """A value that only spans of one kind have."""
    return lambda span: get(span) if span.kind is kind else None


def at_root(get: Get) -> Get:
    """A value that only the first span of a trace has; where that is the caller's, none has it."""
    return lambda span: get(span) if span.sent_parent is None else None


def in_own_trace(get: Get) -> Get:
    """A value that describes the trace, unless the trace is the caller's."""
    return lambda span: get(span) if span.trace.parent_id is None else None


def as_json(get: Get) -> Get:
    """A value as JSON."""

    def encoded(span: Span) -> str | None:
        value = get(span)
        return None if value is None else to_json(value)

    return encoded


def as_text(get: Get) -> Get:
    """A text as it is, anything else as JSON: what the value of an input or output may be."""

    def encoded(span: Span) -> str | None:
        value = get(span)
        return value if value is None or isinstance(value, str) else to_json(value)

    return encoded


def mime_type(get: Get) -> Get:
    """What kind of text `as_text` makes of a value."""

    def named(span: Span) -> str | None:
        value = get(span)
        if value is None:
            return None
        return "text/plain" if isinstance(value, str) else "application/json"

    return named


def without_role(get: Get) -> Get:
    """What was said, of an input or output that has a role; else the value itself."""

    def content(span: Span) -> Any:
        value = get(span)
        return value["content"] if span.kind is not WorkKind.TOOL and value else value

    return content


def input_messages(span: Span) -> Any:
    """What was asked, as GenAI's messages."""
    if span.kind is WorkKind.TOOL or not span.input:
        return None
    return [{"role": "user", "parts": [{"type": "text", "content": span.input["content"]}]}]


def output_messages(span: Span) -> Any:
    """What was answered, as GenAI's messages."""
    if span.kind is WorkKind.TOOL or not span.output:
        return None
    parts = span.parts
    if parts is None:
        parts = [{"type": "text", "content": span.output["content"]}]
    return [{"role": "assistant", "parts": parts, "finish_reason": span.stop_reason or "stop"}]


def count(name: str) -> Get:
    """A count of tokens."""
    return lambda span: given(getattr(span.usage, name)) if span.usage else None


def reasoning(span: Span) -> int | None:
    """Tokens of thinking, of those written."""
    details = given(span.usage.output_tokens_details) if span.usage else None
    return given(details.thinking_tokens) if details else None


def prompt_tokens(span: Span) -> int | None:
    """What the model read, caches included: the conventions want the sum."""
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    counts = [count(name)(span) for name in names]
    return None if counts[0] is None else sum(count or 0 for count in counts)


def all_tokens(span: Span) -> int | None:
    """What the model read and wrote."""
    read, written = prompt_tokens(span), count("output_tokens")(span)
    return None if read is None or written is None else read + written


def usage_details(span: Span) -> dict[str, int] | None:
    """Langfuse's counts. It prices each key, so that cache writes are named once.

    Those for an hour are dearer and have a key of their own.
    """
    usage = span.usage
    if usage is None:
        return None
    read, written = given(usage.input_tokens), given(usage.output_tokens)
    total = None if read is None or written is None else read + written
    counts = {
        "input": read,
        "output": written,
        "total": total,
        "cache_read_input_tokens": given(usage.cache_read_input_tokens),
        **_cache_writes(usage),
    }
    return {name: count for name, count in counts.items() if count is not None}


def _cache_writes(usage: Usage) -> dict[str, int | None]:
    split = given(usage.cache_creation)
    whole = given(usage.cache_creation_input_tokens)
    hour = given(split.ephemeral_1h_input_tokens) if split else None
    if not hour:
        return {"cache_creation_input_tokens": whole}
    short = given(split.ephemeral_5m_input_tokens) if split else None
    return {"input_cache_creation_5m": short, "input_cache_creation_1h": hour}


def cost_details(span: Span) -> dict[str, float] | None:
    """Return Langfuse's costs, under the keys of its counts.

    With any cost given, Langfuse computes none itself, nor a total of more than input and output.
    """
    if span.cost_usd is None:
        return None
    hour = span.usage is not None and "input_cache_creation_1h" in _cache_writes(span.usage)
    names = COST_NAMES | ({"cache_write_5m": "input_cache_creation_5m"} if hour else {})
    costs = {names.get(kind, kind): round(cost, 9) for kind, cost in (span.costs_usd or {}).items()}
    return costs | {"total": span.cost_usd}


def cost_of_kinds(*kinds: str) -> Get:
    """Return the cost of some kinds of tokens together."""

    def summed(span: Span) -> float | None:
        if span.costs_usd is None:
            return None
        return round(sum(span.costs_usd.get(kind, 0.0) for kind in kinds), 9)

    return summed


@once
def message(span: Span) -> Any:
    """Return a generation's whole message; of other spans, the output.

    Thinking and calls are in the form that Langfuse draws; without a text, they are all there is.
    """
    if span.kind is not WorkKind.GENERATION or not span.output:
        return span.output
    parts = span.parts or []
    thoughts = [part["content"] for part in parts if part["type"] == "reasoning"]
    calls = [_tool_call(part) for part in parts if part["type"] == "tool_call"]
    found = dict(span.output)
    if thoughts:
        found["thinking"] = [{"type": "thinking", "content": thought} for thought in thoughts]
    if calls:
        found["tool_calls"] = calls
    return found


def _tool_call(part: dict[str, Any]) -> dict[str, Any]:
    arguments = to_json(part.get("arguments"))
    called = {"id": part.get("id") or "", "name": part.get("name") or ""}
    return called | {"type": "function", "arguments": arguments}


def message_or_text(span: Span) -> Any:
    """Return what was said, or the whole message where it is more than a text."""
    found = message(span)
    if span.kind is WorkKind.GENERATION and found and found.keys() > {"role", "content"}:
        return found
    return without_role(OUTPUT)(span)


def completion_start(span: Span) -> str | None:
    """Return the time of a generation's first line, as Langfuse reads it.

    The client writes a line when a block is complete, so the first token came somewhat earlier.
    """
    if span.first_line is None:
        return None
    return stamp_of(EPOCH + timedelta(microseconds=span.first_line // 1000))


def tags(span: Span) -> list[str] | None:
    return list(span.trace.tags) or None


def version(span: Span) -> str | None:
    """Return the version that the settings name, or else the client's."""
    return span.trace.app_version or span.trace.version


def level(span: Span) -> str | None:
    """How bad it was, in Langfuse's words."""
    if span.error is not None:
        return "ERROR"
    return "WARNING" if span.is_interrupted else None


def reason(span: Span) -> str | None:
    """Why a span failed, where that may be told."""
    return span.error or None


def missing_times(span: Span) -> str | None:
    """Which times no line tells: what is sent in their place is the nearest one known."""
    missing = [name for name in ("start", "end") if getattr(span, name) is None]
    return "+".join(missing) or None


def finish_reasons(span: Span) -> list[str] | None:
    """Why the model stopped."""
    return [span.stop_reason] if span.stop_reason else None


def metadata(span: Span) -> dict[str, Any]:
    """What there is beyond the conventions, as OpenInference wants it: in one object."""
    held = {name: getattr(span.trace, name) for name in TRACE_METADATA}
    held |= {name: get(span) for name, get in SPAN_METADATA.items()}
    return {name: value for name, value in held.items() if value is not None}


INPUT, OUTPUT = own("input"), own("output")
COST_NAMES = {
    "cache_read": "cache_read_input_tokens",
    "cache_write_5m": "cache_creation_input_tokens",
    "cache_write_1h": "input_cache_creation_1h",
}
"""Langfuse's keys for kinds of tokens whose names differ."""
PROMPT_KINDS = ("input", "cache_read", "cache_write_5m", "cache_write_1h")
TRACE_METADATA = (
    "source",
    "turn_number",
    "session_id",
    "version",
    "slug",
    "cwd",
    "git_branch",
    "prompt_kind",
    "forked_from",
    "permission_mode",
)
"""What the trace of a turn is marked with."""
SPAN_METADATA: dict[str, Get] = {
    "tool_count": own("call_count"),
    "tool_name": own("tool"),
    "tool_id": own("call_id"),
    "agent_id": own("agent_id"),
    "working_ms": own("working_ms"),
    "elapsed_ms": own("elapsed_ms"),
    "interrupted": lambda span: span.is_interrupted or None,
    "missing_times": missing_times,
}
