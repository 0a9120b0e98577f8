"""Extract span events: hooks, compactions, retries, errors and interruptions of a turn."""

from typing import Any

from turnlog.conversation.nodes import AssistantNode, ChainNode, UserNode
from turnlog.conversation.prompts import PromptKind, full_text
from turnlog.conversation.tree import is_compaction
from turnlog.format.entries import Assistant, Attachment, Entry
from turnlog.format.fields import given
from turnlog.format.json_values import as_object, is_array, is_object
from turnlog.format.system import (
    ApiError,
    CompactBoundary,
    MicrocompactBoundary,
    StopHookSummary,
)
from turnlog.trace.span import Event
from turnlog.trace.span_times import nanoseconds
from turnlog.trace.work import Work

HOOKS = ("attachment/hook_", "attachment/async_hook_response")
NOTED = frozenset(
    {
        "system/stop_hook_summary",
        "system/compact_boundary",
        "system/microcompact_boundary",
        "system/api_error",
    }
)
HOOK_FACTS = ("hookEvent", "hookName", "exitCode", "durationMs", "toolUseID")
HOOK_TEXTS = ("command", "content", "stdout", "stderr", "systemMessage")
COMPACTION_FACTS = ("trigger", "pre_tokens", "post_tokens", "duration_ms")
EventParts = tuple[str, dict[str, Any], dict[str, Any]]
"""The name of an event, its attributes without content, and those with content."""


def events_of(work: Work, near: int) -> tuple[Event, ...]:
    """Return the events of a turn or sub-agent, in the order of the file."""
    nodes = list(filter(_is_eventful, work.nodes))
    events: list[Event] = []
    for node, entry in zip(nodes, work.session.entries(nodes), strict=True):
        name, facts, texts = _event_parts(node, entry)
        # Lines without a time exist; an event in 1970 would stretch the span over decades.
        events.append(Event(name, nanoseconds(node.time) or near, _given(facts), _given(texts)))
    return tuple(events)


def error_of(work: Work) -> str | None:
    """Return the client's message for the last API error of a turn, if any."""
    failed = [m for m in work.messages if any(node.is_error for node in m.nodes)]
    if not failed:
        return None
    entry = work.session.entry(failed[-1].nodes[-1])
    return full_text(entry) if isinstance(entry, Assistant) else ""


def is_interrupted(work: Work) -> bool:
    """Return whether the user interrupted a turn."""
    return any(map(_is_interruption, work.nodes))


def _is_eventful(node: ChainNode) -> bool:
    if isinstance(node, AssistantNode):
        return node.is_error
    is_noted = node.kind in NOTED or node.kind.startswith(HOOKS)
    return is_noted or is_compaction(node) or _is_interruption(node)


def _is_interruption(node: ChainNode) -> bool:
    return isinstance(node, UserNode) and node.prompt is PromptKind.INTERRUPTION


def _event_parts(node: ChainNode, entry: Entry) -> EventParts:
    match entry:
        case Assistant():
            return _failure(entry)
        case Attachment():
            return _hook(given(entry.attachment) or {})
        case StopHookSummary():
            return _stop_hooks(entry)
        case CompactBoundary():
            metadata = given(entry.compact_metadata)
            facts = {name: given(getattr(metadata, name, None)) for name in COMPACTION_FACTS}
            return "compaction", {f"compaction.{name}": facts[name] for name in facts}, {}
        case MicrocompactBoundary():
            return "microcompaction", {}, {}
        case ApiError():
            return _retry(entry)
        case _:
            return "interrupted" if _is_interruption(node) else "compaction", {}, {}


def _hook(attachment: dict[str, Any]) -> EventParts:
    # A hook that blocks has its command and output in an inner object.
    error = attachment.get("blockingError")
    error = as_object(error)
    facts = {f"hook.{name}": attachment.get(name) for name in HOOK_FACTS}
    texts = {f"hook.{name}": attachment.get(name) or error.get(name) for name in HOOK_TEXTS}
    texts["hook.error"] = error.get("blockingError")
    return f"hook.{str(attachment.get('type')).removeprefix('hook_')}", facts, texts


def _stop_hooks(entry: StopHookSummary) -> EventParts:
    infos = given(entry.hook_infos) or []
    facts = {
        "hook.hookEvent": "Stop",
        "hook.count": given(entry.hook_count),
        "hook.preventedContinuation": given(entry.prevented_continuation),
    }
    commands = [info.get("command") for info in infos if is_object(info)]
    return "hook.stop", facts, {"hook.command": commands, "hook.error": given(entry.hook_errors)}


def _retry(entry: ApiError) -> EventParts:
    error = given(entry.error)
    error = as_object(error)
    facts = {
        "retry.attempt": given(entry.retry_attempt),
        "retry.in_ms": given(entry.retry_in_ms),
        "http.response.status_code": error.get("status"),
    }
    return "retry", facts, {"exception.message": error.get("formatted") or error.get("message")}


def _failure(entry: Assistant) -> EventParts:
    kind = given(entry.error)
    facts = {
        "exception.type": kind if isinstance(kind, str) else "api_error",
        "http.response.status_code": given(entry.api_error_status),
        "request_id": given(entry.request_id),
    }
    return "exception", facts, {"exception.message": full_text(entry)}


def _given(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that are not empty, as types that event attributes can have."""
    kept: dict[str, Any] = {}
    for name, value in values.items():
        if is_array(value):
            kept[name] = [str(item) for item in value if item]
        # Attributes are scalars or lists of scalars; objects and null cannot be exported.
        elif isinstance(value, str | int | float):
            kept[name] = value
    return {name: value for name, value in kept.items() if value not in ("", [])}
