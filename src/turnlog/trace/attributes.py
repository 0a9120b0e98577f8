"""The table of span attributes: each value with its name in every convention.

GenAI is OpenTelemetry's convention (`gen_ai.*`, in development), OpenInference that of Phoenix and
Arize. Langfuse reads both, but prefers its own names.
"""

from msgspec import Struct

from turnlog.secrets import mask_short
from turnlog.trace.attribute_values import (
    INPUT,
    OUTPUT,
    PROMPT_KINDS,
    SPAN_METADATA,
    TRACE_METADATA,
    Get,
    all_tokens,
    as_json,
    as_text,
    at_root,
    by_kind,
    completion_start,
    cost_details,
    cost_of_kinds,
    count,
    finish_reasons,
    in_own_trace,
    input_messages,
    level,
    message,
    message_or_text,
    metadata,
    mime_type,
    output_messages,
    prompt_tokens,
    reason,
    reasoning,
    span_field,
    tags,
    trace_field,
    usage_details,
    version,
    when,
    without_role,
)
from turnlog.trace.span import Span, WorkKind

Value = str | bool | int | float | list[str]
IDENTIFIERS = (".id", "_id", ".model", ".name", "_name", ".version", ".slug", ".finish_reasons")
"""Suffixes of attributes that identify something; they are sent at every content level."""


class AttributeRow(Struct, frozen=True):
    """One value of a span, and the attributes that carry it."""

    what: str
    gen_ai: dict[str, Get] = {}
    openinference: dict[str, Get] = {}
    langfuse: dict[str, Get] = {}

    @property
    def names(self) -> dict[str, Get]:
        """The attributes of all conventions, by name."""
        return self.gen_ai | self.openinference | self.langfuse


def attributes_of(span: Span) -> dict[str, Value]:
    """Return all attributes of a span."""
    found: dict[str, Value] = {}
    for name, get, is_id in _ATTRIBUTES:
        value = get(span)
        if value is not None:
            # Identifiers are masked even with `--content full`: an id should never be a secret.
            found[name] = _masked(value) if is_id else value
    return found


def _masked(value: Value) -> Value:
    """Mask a secret in an identifier: ids and model names also come from the session file."""
    if isinstance(value, list):
        return [mask_short(item) for item in value]
    return mask_short(value) if isinstance(value, str) else value


ROWS = (
    AttributeRow(
        "kind of span",
        {
            "gen_ai.operation.name": by_kind(
                "invoke_workflow", "invoke_agent", "chat", "execute_tool"
            )
        },
        {"openinference.span.kind": by_kind("CHAIN", "AGENT", "LLM", "TOOL")},
        {"langfuse.observation.type": by_kind("span", "agent", "generation", "tool")},
    ),
    AttributeRow(
        "session",
        {"gen_ai.conversation.id": trace_field("session_id")},
        {"session.id": trace_field("session_id")},
    ),
    AttributeRow("user", {}, {"user.id": trace_field("user")}),
    AttributeRow("tags", {}, {"tag.tags": tags}, {"langfuse.trace.tags": tags}),
    AttributeRow("environment", {}, {}, {"langfuse.environment": trace_field("environment")}),
    AttributeRow("release", {}, {}, {"langfuse.release": trace_field("release")}),
    AttributeRow("version", {}, {}, {"langfuse.version": version}),
    AttributeRow(
        "trace name",
        {},
        {},
        {"langfuse.trace.name": in_own_trace(trace_field("name"))},
    ),
    AttributeRow(
        "input",
        {"gen_ai.input.messages": as_json(input_messages)},
        {
            "input.value": as_text(without_role(INPUT)),
            "input.mime_type": mime_type(without_role(INPUT)),
        },
        {
            "langfuse.observation.input": as_text(INPUT),
            "langfuse.trace.input": at_root(as_text(INPUT)),
        },
    ),
    AttributeRow(
        "output",
        {"gen_ai.output.messages": as_json(output_messages)},
        {
            "output.value": as_text(message_or_text),
            "output.mime_type": mime_type(message_or_text),
        },
        {
            "langfuse.observation.output": as_text(message),
            "langfuse.trace.output": at_root(as_text(OUTPUT)),
        },
    ),
    AttributeRow(
        "model",
        # Most files record only the model that answered, not the one that was requested.
        {"gen_ai.request.model": span_field("model"), "gen_ai.response.model": span_field("model")},
        {"llm.model_name": span_field("model")},
        {"langfuse.observation.model.name": span_field("model")},
    ),
    AttributeRow(
        "request parameters",
        {},
        {"llm.invocation_parameters": as_json(span_field("parameters"))},
        {"langfuse.observation.model.parameters": as_json(span_field("parameters"))},
    ),
    AttributeRow(
        "time of the first block",
        {},
        {},
        {"langfuse.observation.completion_start_time": completion_start},
    ),
    AttributeRow(
        "provider",
        {"gen_ai.provider.name": when(WorkKind.GENERATION, lambda _: "anthropic")},
        {"llm.system": when(WorkKind.GENERATION, lambda _: "anthropic")},
    ),
    AttributeRow("message", {"gen_ai.response.id": span_field("message_id")}),
    AttributeRow("request", {"request_id": span_field("request_id")}),
    AttributeRow("prompt", {"prompt.id": trace_field("prompt_id")}),
    AttributeRow("stop reason", {"gen_ai.response.finish_reasons": finish_reasons}),
    AttributeRow(
        "input tokens, including cache",
        {"gen_ai.usage.input_tokens": prompt_tokens},
        {"llm.token_count.prompt": prompt_tokens},
    ),
    AttributeRow(
        "output tokens",
        {"gen_ai.usage.output_tokens": count("output_tokens")},
        {"llm.token_count.completion": count("output_tokens")},
    ),
    AttributeRow("total tokens", {}, {"llm.token_count.total": all_tokens}),
    AttributeRow(
        "cache read tokens",
        {"gen_ai.usage.cache_read.input_tokens": count("cache_read_input_tokens")},
        {"llm.token_count.prompt_details.cache_read": count("cache_read_input_tokens")},
    ),
    AttributeRow(
        "cache write tokens",
        {"gen_ai.usage.cache_creation.input_tokens": count("cache_creation_input_tokens")},
        {"llm.token_count.prompt_details.cache_write": count("cache_creation_input_tokens")},
    ),
    AttributeRow(
        "thinking tokens",
        {"gen_ai.usage.reasoning.output_tokens": reasoning},
        {"llm.token_count.completion_details.reasoning": reasoning},
    ),
    AttributeRow(
        "all token counts", {}, {}, {"langfuse.observation.usage_details": as_json(usage_details)}
    ),
    AttributeRow(
        "cost in dollars",
        {},
        {
            # OpenTelemetry defines no attribute for costs; Langfuse prefers its own to this one.
            "llm.cost.total": span_field("cost_usd"),
            "llm.cost.prompt": cost_of_kinds(*PROMPT_KINDS),
            "llm.cost.completion": cost_of_kinds("output"),
        },
        {"langfuse.observation.cost_details": as_json(cost_details)},
    ),
    AttributeRow(
        "tool",
        {
            "gen_ai.tool.name": span_field("tool"),
            "gen_ai.tool.type": when(WorkKind.TOOL, lambda _: "function"),
            "gen_ai.tool.call.id": span_field("call_id"),
            "gen_ai.tool.call.arguments": when(WorkKind.TOOL, as_json(INPUT)),
            "gen_ai.tool.call.result": when(WorkKind.TOOL, as_text(OUTPUT)),
        },
        {"tool.name": span_field("tool"), "tool.parameters": when(WorkKind.TOOL, as_json(INPUT))},
    ),
    AttributeRow(
        "sub-agent",
        {
            "gen_ai.agent.name": span_field("agent_type"),
            "gen_ai.agent.id": span_field("agent_id"),
            "gen_ai.agent.description": span_field("description"),
        },
        {"agent.name": span_field("agent_type")},
    ),
    AttributeRow(
        "error, interruption",
        {},
        {},
        {
            "langfuse.observation.level": level,
            "langfuse.observation.status_message": reason,
        },
    ),
    AttributeRow(
        "metadata",
        {},
        {"metadata": as_json(metadata)},
        {f"langfuse.trace.metadata.{name}": trace_field(name) for name in TRACE_METADATA}
        | {f"langfuse.observation.metadata.{name}": get for name, get in SPAN_METADATA.items()},
    ),
)

# A flat list, because `attributes_of` runs for every span: merging rows and comparing names each
# time would be slow.
_ATTRIBUTES = [
    (name, get, name.endswith(IDENTIFIERS)) for row in ROWS for name, get in row.names.items()
]
"""Every attribute: its name, its getter, and whether it is an identifier."""
