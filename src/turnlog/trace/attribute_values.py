"""Compute attribute values: convert the fields of a span to the form each convention expects."""

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
"""Returns the value of an attribute; None if the span has none."""


def cache_last(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Cache the result for the last argument, which must not be mutated.

    Several attributes carry the same long value, each under the name of its convention.
    """
    last: tuple[Any, Any] = (object(), None)

    def remembered(argument: Any) -> Any:
        nonlocal last
        known, result = last
        # Identity suffices and is cheap: the attributes of a span pass the very same object.
        if known is not argument:
            result = function(argument)
            last = argument, result
        return result

    return remembered


to_json = cache_last(json.JSONEncoder(ensure_ascii=False).encode)


def span_field(name: str) -> Get:
    """Return a getter for a field of the span."""
    return lambda span: getattr(span, name)


def trace_field(name: str) -> Get:
    """Return a getter for a field of the span's trace."""
    return lambda span: getattr(span.trace, name)


def by_kind(*names: str) -> Get:
    """Return a getter for the name of the span's kind: span, agent, generation, tool."""
    table = dict(zip(WorkKind, names, strict=True))
    return lambda span: table[span.kind]


def when(kind: WorkKind, get: Get) -> Get:
    """Return a getter for a value that only spans of one kind have."""
    return lambda span: get(span) if span.kind is kind else None


def at_root(get: Get) -> Get:
    """Return a getter for a value of the root span; None if the root is the caller's span."""
    return lambda span: get(span) if span.sent_parent is None else None


def in_own_trace(get: Get) -> Get:
    """Return a getter for a value that describes the trace; None if the trace is the caller's."""
    return lambda span: get(span) if span.trace.parent_id is None else None


def as_json(get: Get) -> Get:
    """Return a getter that encodes a value as JSON."""

    def encoded(span: Span) -> str | None:
        value = get(span)
        return None if value is None else to_json(value)

    return encoded


def as_text(get: Get) -> Get:
    """Return a getter that leaves text unchanged and encodes anything else as JSON."""

    def encoded(span: Span) -> str | None:
        value = get(span)
        return value if value is None or isinstance(value, str) else to_json(value)

    return encoded


def mime_type(get: Get) -> Get:
    """Return a getter for the MIME type of the text that `as_text` returns."""

    def named(span: Span) -> str | None:
        value = get(span)
        if value is None:
            return None
        return "text/plain" if isinstance(value, str) else "application/json"

    return named


def without_role(get: Get) -> Get:
    """Return a getter for the content of an input or output without its role."""

    def content(span: Span) -> Any:
        value = get(span)
        return value["content"] if span.kind is not WorkKind.TOOL and value else value

    return content


def input_messages(span: Span) -> Any:
    """Return the input as messages of the GenAI conventions."""
    if span.kind is WorkKind.TOOL or not span.input:
        return None
    return [{"role": "user", "parts": [{"type": "text", "content": span.input["content"]}]}]


def output_messages(span: Span) -> Any:
    """Return the output as messages of the GenAI conventions."""
    if span.kind is WorkKind.TOOL or not span.output:
        return None
    parts = span.parts
    if parts is None:
        parts = [{"type": "text", "content": span.output["content"]}]
    return [{"role": "assistant", "parts": parts, "finish_reason": span.stop_reason or "stop"}]


def count(name: str) -> Get:
    """Return a getter for a token count of the usage."""
    return lambda span: given(getattr(span.usage, name)) if span.usage else None


def reasoning(span: Span) -> int | None:
    """Return how many of the output tokens are thinking."""
    details = given(span.usage.output_tokens_details) if span.usage else None
    return given(details.thinking_tokens) if details else None


def prompt_tokens(span: Span) -> int | None:
    """Return the number of input tokens including cached ones, as the conventions define it."""
    # The API counts cached tokens separately; GenAI and OpenInference expect one sum.
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    counts = [count(name)(span) for name in names]
    return None if counts[0] is None else sum(count or 0 for count in counts)


def all_tokens(span: Span) -> int | None:
    """Return the number of input and output tokens."""
    read, written = prompt_tokens(span), count("output_tokens")(span)
    return None if read is None or written is None else read + written


def usage_details(span: Span) -> dict[str, int] | None:
    """Return token counts under Langfuse's keys.

    Langfuse multiplies each key by a price, so cache writes must be listed only once; one-hour
    writes cost more and have their own key.
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
    # The sum and its two parts must not both be sent: Langfuse would charge cache writes twice.
    hour = given(split.ephemeral_1h_input_tokens) if split else None
    if not hour:
        return {"cache_creation_input_tokens": whole}
    short = given(split.ephemeral_5m_input_tokens) if split else None
    return {"input_cache_creation_5m": short, "input_cache_creation_1h": hour}


def cost_details(span: Span) -> dict[str, float] | None:
    """Return Langfuse's costs, under the keys of its counts.

    If any cost is given, Langfuse computes no costs itself, and its total is only the sum of input
    and output. So the total is included.
    """
    if span.cost_usd is None:
        return None
    # The keys must be those of `usage_details`, which depend on one-hour cache writes.
    hour = span.usage is not None and "input_cache_creation_1h" in _cache_writes(span.usage)
    names = COST_NAMES | ({"cache_write_5m": "input_cache_creation_5m"} if hour else {})
    costs = {names.get(kind, kind): round(cost, 9) for kind, cost in (span.costs_usd or {}).items()}
    return costs | {"total": span.cost_usd}


def cost_of_kinds(*kinds: str) -> Get:
    """Return a getter for the total cost of some kinds of tokens."""

    def summed(span: Span) -> float | None:
        if span.costs_usd is None:
            return None
        return round(sum(span.costs_usd.get(kind, 0.0) for kind in kinds), 9)

    return summed


@cache_last
def message(span: Span) -> Any:
    """Return the complete message of a generation; for other spans, the output.

    Thinking and tool calls have the shape that Langfuse renders.
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
    """Return the text of the output, or the complete message if it has thinking or calls."""
    found = message(span)
    if span.kind is WorkKind.GENERATION and found and found.keys() > {"role", "content"}:
        return found
    return without_role(OUTPUT)(span)


def completion_start(span: Span) -> str | None:
    """Return the time of a generation's first line in Langfuse's format.

    The client writes a line when a block is complete, so the first token came somewhat earlier.
    """
    if span.first_line is None:
        return None
    return stamp_of(EPOCH + timedelta(microseconds=span.first_line // 1000))


def tags(span: Span) -> list[str] | None:
    """Return the tags of the trace, if any."""
    return list(span.trace.tags) or None


def version(span: Span) -> str | None:
    """Return the version set by the user, or else the client's."""
    return span.trace.app_version or span.trace.version


def level(span: Span) -> str | None:
    """Return the severity as one of Langfuse's levels."""
    if span.error is not None:
        return "ERROR"
    return "WARNING" if span.is_interrupted else None


def reason(span: Span) -> str | None:
    """Return the error message; None if there is none or content is not sent."""
    return span.error or None


def missing_times(span: Span) -> str | None:
    """Return which times are missing from the session; the nearest known time is sent instead."""
    missing = [name for name in ("start", "end") if getattr(span, name) is None]
    return "+".join(missing) or None


def finish_reasons(span: Span) -> list[str] | None:
    """Return the stop reason as a list, as GenAI defines it."""
    return [span.stop_reason] if span.stop_reason else None


def metadata(span: Span) -> dict[str, Any]:
    """Return the values without an attribute of their own, as OpenInference's metadata object."""
    values = {name: getattr(span.trace, name) for name in TRACE_METADATA}
    values |= {name: get(span) for name, get in SPAN_METADATA.items()}
    return {name: value for name, value in values.items() if value is not None}


INPUT, OUTPUT = span_field("input"), span_field("output")
COST_NAMES = {
    "cache_read": "cache_read_input_tokens",
    "cache_write_5m": "cache_creation_input_tokens",
    "cache_write_1h": "input_cache_creation_1h",
}
"""Langfuse's keys for kinds of tokens that it names differently."""
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
"""Fields of a trace that are sent as metadata."""
SPAN_METADATA: dict[str, Get] = {
    "tool_count": span_field("call_count"),
    "tool_name": span_field("tool"),
    "tool_id": span_field("call_id"),
    "agent_id": span_field("agent_id"),
    "working_ms": span_field("working_ms"),
    "elapsed_ms": span_field("elapsed_ms"),
    "interrupted": lambda span: span.is_interrupted or None,
    "missing_times": missing_times,
}
