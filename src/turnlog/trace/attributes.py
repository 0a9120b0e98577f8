"""The one table of attributes: what a span holds, and how each convention calls it.

GenAI is OpenTelemetry's (`gen_ai.*`, in development), OpenInference that of Phoenix and Arize;
Langfuse reads both, and its own names before them.
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
    own,
    prompt_tokens,
    reason,
    reasoning,
    shared,
    tags,
    usage_details,
    version,
    when,
    without_role,
)
from turnlog.trace.span import Span, WorkKind

Value = str | bool | int | float | list[str]
IDENTIFIERS = (".id", "_id", ".model", ".name", "_name", ".version", ".slug", ".finish_reasons")
"""How the names of attributes end that hold no content, and are sent at every content level."""


class AttributeRow(Struct, frozen=True):
    """One thing that spans hold, and the attributes that carry it."""

    what: str
    gen_ai: dict[str, Get] = {}
    openinference: dict[str, Get] = {}
    langfuse: dict[str, Get] = {}

    @property
    def names(self) -> dict[str, Get]:
        """The attributes of all conventions."""
        return self.gen_ai | self.openinference | self.langfuse


def attributes_of(span: Span) -> dict[str, Value]:
    """All attributes of a span."""
    found: dict[str, Value] = {}
    for name, get, is_id in _ATTRIBUTES:
        value = get(span)
        if value is not None:
            found[name] = _masked(value) if is_id else value
    return found


def _masked(value: Value) -> Value:
    """Mask a secret in an identifier: ids and models come from the file, as all else does."""
    if isinstance(value, list):
        return [mask_short(each) for each in value]
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
        {"gen_ai.conversation.id": shared("session_id")},
        {"session.id": shared("session_id")},
    ),
    AttributeRow("user", {}, {"user.id": shared("user")}),
    AttributeRow("tags", {}, {"tag.tags": tags}, {"langfuse.trace.tags": tags}),
    AttributeRow("environment", {}, {}, {"langfuse.environment": shared("environment")}),
    AttributeRow("release", {}, {}, {"langfuse.release": shared("release")}),
    AttributeRow("version", {}, {}, {"langfuse.version": version}),
    AttributeRow(
        "name of the turn",
        {},
        {},
        {"langfuse.trace.name": in_own_trace(shared("name"))},
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
        {"gen_ai.request.model": own("model"), "gen_ai.response.model": own("model")},
        {"llm.model_name": own("model")},
        {"langfuse.observation.model.name": own("model")},
    ),
    AttributeRow(
        "how the model was asked",
        {},
        {"llm.invocation_parameters": as_json(own("parameters"))},
        {"langfuse.observation.model.parameters": as_json(own("parameters"))},
    ),
    AttributeRow(
        "first block complete",
        {},
        {},
        {"langfuse.observation.completion_start_time": completion_start},
    ),
    AttributeRow(
        "maker of the model",
        {"gen_ai.provider.name": when(WorkKind.GENERATION, lambda _: "anthropic")},
        {"llm.system": when(WorkKind.GENERATION, lambda _: "anthropic")},
    ),
    AttributeRow("message", {"gen_ai.response.id": own("message_id")}),
    AttributeRow("request", {"request_id": own("request_id")}),
    AttributeRow("prompt", {"prompt.id": shared("prompt_id")}),
    AttributeRow("why it stopped", {"gen_ai.response.finish_reasons": finish_reasons}),
    AttributeRow(
        "tokens read, caches included",
        {"gen_ai.usage.input_tokens": prompt_tokens},
        {"llm.token_count.prompt": prompt_tokens},
    ),
    AttributeRow(
        "tokens written",
        {"gen_ai.usage.output_tokens": count("output_tokens")},
        {"llm.token_count.completion": count("output_tokens")},
    ),
    AttributeRow("tokens in all", {}, {"llm.token_count.total": all_tokens}),
    AttributeRow(
        "tokens from a cache",
        {"gen_ai.usage.cache_read.input_tokens": count("cache_read_input_tokens")},
        {"llm.token_count.prompt_details.cache_read": count("cache_read_input_tokens")},
    ),
    AttributeRow(
        "tokens put in a cache",
        {"gen_ai.usage.cache_creation.input_tokens": count("cache_creation_input_tokens")},
        {"llm.token_count.prompt_details.cache_write": count("cache_creation_input_tokens")},
    ),
    AttributeRow(
        "tokens thought",
        {"gen_ai.usage.reasoning.output_tokens": reasoning},
        {"llm.token_count.completion_details.reasoning": reasoning},
    ),
    AttributeRow(
        "all counts", {}, {}, {"langfuse.observation.usage_details": as_json(usage_details)}
    ),
    AttributeRow(
        "cost in dollars",
        {},
        {
            "llm.cost.total": own("cost_usd"),
            "llm.cost.prompt": cost_of_kinds(*PROMPT_KINDS),
            "llm.cost.completion": cost_of_kinds("output"),
        },
        {"langfuse.observation.cost_details": as_json(cost_details)},
    ),
    AttributeRow(
        "tool",
        {
            "gen_ai.tool.name": own("tool"),
            "gen_ai.tool.type": when(WorkKind.TOOL, lambda _: "function"),
            "gen_ai.tool.call.id": own("call_id"),
            "gen_ai.tool.call.arguments": when(WorkKind.TOOL, as_json(INPUT)),
            "gen_ai.tool.call.result": when(WorkKind.TOOL, as_text(OUTPUT)),
        },
        {"tool.name": own("tool"), "tool.parameters": when(WorkKind.TOOL, as_json(INPUT))},
    ),
    AttributeRow(
        "sub-agent",
        {
            "gen_ai.agent.name": own("agent_type"),
            "gen_ai.agent.id": own("agent_id"),
            "gen_ai.agent.description": own("description"),
        },
        {"agent.name": own("agent_type")},
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
        {f"langfuse.trace.metadata.{name}": shared(name) for name in TRACE_METADATA}
        | {f"langfuse.observation.metadata.{name}": get for name, get in SPAN_METADATA.items()},
    ),
)

_ATTRIBUTES = [
    (name, get, name.endswith(IDENTIFIERS)) for row in ROWS for name, get in row.names.items()
]
"""Every attribute, how to get it, and whether it identifies something."""
