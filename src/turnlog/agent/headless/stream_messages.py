"""Messages of stream-json output, as the client prints them (2.1.325, observed)."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from turnlog.agent.chat.built_in_prompts import BUILT_IN
from turnlog.agent.chat.opening import Chat
from turnlog.agent.hooks.hook_entries import DEFERRED as HOOK_DEFERRED
from turnlog.agent.hooks.runs import Firing, HookRun
from turnlog.agent.loop.events import (
    CallDenied,
    Event,
    FellBack,
    Inside,
    Notice,
    Recorded,
    Retrying,
    Streamed,
    TurnEnded,
)
from turnlog.agent.loop.spending import COST, COUNTED, DETAILED
from turnlog.agent.model.model_names import longest_allowed
from turnlog.agent.model.providers import provider_of
from turnlog.agent.session.entry_builders import VERSION
from turnlog.conversation.cost import cost_of
from turnlog.conversation.models import model_name, window_of
from turnlog.format.blocks import Usage
from turnlog.format.json_values import Fields, is_array
from turnlog.text import safe_json

KEY = "ANTHROPIC_API_KEY"
"""The reported source of an API key; a token is reported as "none"."""
SUBTYPES = {
    "max_turns": "error_max_turns",
    "max_budget": "error_max_budget_usd",
    "interrupted": "error_during_execution",
    "no_output": "error_max_structured_output_retries",
}
"""Result subtypes other than success; API failures are success with `is_error`."""
DEFERRED = "tool_deferred"
ENDINGS = {
    "done": "completed",
    "refused": "api_error",
    "failed": "api_error",
    "max_turns": "max_turns",
    "max_budget": "budget_exhausted",
    "no_output": "structured_output_retries",
    "blocked": "completed",
    "deferred": DEFERRED,
}
"""The client's names for the ways a turn can end."""
COMPACT = "compact"
LOCAL_NAMES = ("context", "cost", "effort", "model", "usage")
"""Commands that `local_commands` answers."""
ALWAYS_SHOWN = ("SessionStart", "Setup")
"""Hook events that are reported even if hook events were not requested."""
FEEDBACK = "Stop hook feedback:"
FINE = ("done", "blocked", "deferred")
"""Endings that are not errors, including a prompt blocked by a hook."""


@dataclass
class ResultFigures:
    """Running totals for `result` messages."""

    cost: float = 0.0
    """Dollars of all turns of this process, which the budget limits; excludes earlier processes."""
    models: set[str] = field(default_factory=set[str])
    """Models that this process has used."""
    user_messages: int = 0
    """Prompts and results of the turn."""
    stop_reason: str | None = None
    status: int | None = None
    """HTTP status of the error that ended the turn."""
    deferred: Fields | None = None
    """The call that a hook has deferred to a later run."""
    was_call: bool = False
    """True if the turn was interrupted during a call."""

    def begin_turn(self) -> None:
        """Reset the figures of a single turn."""
        self.user_messages, self.stop_reason, self.status = 1, None, None
        self.was_call, self.deferred = False, None

    def count(self, message: Fields) -> None:
        """Count a message of the main conversation."""
        if message.get("parent_tool_use_id"):
            return
        if message["type"] == "user":
            self.user_messages += 1
        elif message["type"] == "assistant":
            self.stop_reason = message["message"].get("stop_reason") or self.stop_reason
            # Overwritten even with None: a request that succeeds after a failed one clears it.
            self.status = message.get("api_error_status")
            blocks = message["message"]["content"]
            self.was_call = blocks[-1].get("type") == "tool_use"

    def note(self, event: Event) -> None:
        """Store a deferred call, and count Stop hook feedback, which has no message to count."""
        if isinstance(event, Recorded) and event.entry["type"] == "attachment":
            self._keep_deferral(event.entry["attachment"])
        if isinstance(event, Recorded) and event.entry.get("isMeta"):
            text = event.entry["message"]["content"]
            self.user_messages += isinstance(text, str) and text.startswith(FEEDBACK)

    def _keep_deferral(self, note: Fields) -> None:
        if note.get("type") == HOOK_DEFERRED:
            named = {"id": note["toolUseID"], "name": note["toolName"], "input": note["toolInput"]}
            self.deferred, self.stop_reason = named, DEFERRED

    def add(self, ended: TurnEnded) -> None:
        """Add the cost and the models of a turn."""
        self.cost += ended.cost
        self.models |= ended.models.keys()


def _plain(value: Fields) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def encode(message: Fields | list[Fields]) -> str:
    """Return a message as one line of JSON."""
    return safe_json(json.dumps(message, ensure_ascii=False, separators=(",", ":")))


FORMER = {"Agent": "Task"}
"""Tools that `system/init` lists by their former name (2.1.325, observed)."""


def init_message(chat: Chat) -> Fields:
    """Build the `system/init` message that precedes each prompt."""
    parts = chat.parts
    return {
        "type": "system",
        "subtype": "init",
        "cwd": str(parts.workspace.cwd),
        "tools": [FORMER.get(name, name) for name in parts.tools],
        "mcp_servers": chat.server_states,
        "model": parts.choice.model,
        "permissionMode": parts.rules.mode.value,
        "slash_commands": list(
            dict.fromkeys((COMPACT, *LOCAL_NAMES, *BUILT_IN, *chat.prompts.commands))
        ),
        "apiKeySource": KEY if os.environ.get(KEY) else "none",
        "claude_code_version": VERSION,
        "output_style": chat.preferences.output_style or "default",
        "agents": list(chat.agents),
        # Deduplicated, as a plugin's skill is also listed under its short name.
        "skills": list(
            dict.fromkeys(each.name for each in chat.prompts.commands.values() if each.is_skill)
        ),
        "plugins": [
            {
                "name": each.name,
                "path": str(each.root),
                "source": each.source.id or f"{each.name}@inline",
            }
            | ({"version": each.version} if each.version else {})
            for each in chat.plugins
        ],
        "original_cwd": str(parts.workspace.root),
        "additional_directories": [str(each) for each in parts.workspace.directories],
    }


def messages_of(event: Event, caller: str | None, has_pieces: bool) -> Iterator[Fields]:
    """Yield the messages for an event; `caller` is the call that started its sub-agent."""
    match event:
        case CallDenied():
            yield _denial(event)
        case Inside(event=CallDenied()):
            yield _denial(event.event) | {"agent_id": event.agent_id}
        case Inside():
            yield from messages_of(event.event, event.call_id, has_pieces)
        case Recorded():
            yield from _recorded(event.entry, caller)
        case Streamed() if has_pieces:
            yield {"type": "stream_event", "event": event.event, "parent_tool_use_id": caller}
        case Retrying():
            yield {
                "type": "system",
                "subtype": "api_retry",
                "attempt": event.attempt,
                "max_retries": event.attempts,
                "retry_delay_ms": round(event.wait * 1000),
                "error_status": event.status,
                "error": _category(event.status),
            }
        case Notice(text=text, hook=hook) if hook:
            about = {"content": f"{hook} says: {text}", "level": "notice"}
            yield {"type": "system", "subtype": "informational", **about}
        case FellBack():
            yield {
                "type": "system",
                "subtype": "model_fallback",
                "trigger": "overloaded",
                "original_model": event.original,
                "fallback_model": event.fallback,
                "content": f"Switched to {event.fallback}: {event.original} is overloaded",
            }
        case _:
            pass


def hook_message(run_id: str, firing: Firing, run: HookRun | None) -> Fields:
    """Build the message about a hook that starts, or that has run."""
    about = {"hook_id": run_id, "hook_name": firing.name, "hook_event": firing.event}
    message: Fields = {"type": "system", "subtype": "hook_started", **about}
    if run:
        message |= {"subtype": "hook_response", "output": run.stdout or run.stderr}
        message |= {"stdout": run.stdout, "stderr": run.stderr, "exit_code": run.exit_code}
        message["outcome"] = "success" if run.exit_code == 0 else "error"
    return message


def _denial(event: CallDenied) -> Fields:
    return {
        "type": "system",
        "subtype": "permission_denied",
        "tool_name": event.tool,
        "tool_use_id": event.call_id,
        "message": event.reason,
    }


def _category(status: int | None) -> str:
    """Return the documented error category of an HTTP status."""
    known = {429: "rate_limit", 529: "overloaded"}
    return known.get(status or 0) or ("server_error" if status and status >= 500 else "unknown")


def _recorded(entry: Fields, caller: str | None) -> Iterator[Fields]:
    """Yield the message for a recorded answer, result or compaction; none for other entries."""
    shared = {"parent_tool_use_id": caller, "uuid": entry["uuid"], "timestamp": entry["timestamp"]}
    if entry["type"] == "assistant":
        request = {"request_id": entry["requestId"]} if "requestId" in entry else {}
        request |= {"aborted": True} if entry.get("isAbortedMidStream") else {}
        yield {
            "type": "assistant",
            "message": entry["message"],
            **shared,
            **request,
            **_failure(entry),
        }
    elif entry.get("isMeta"):  # for the model alone
        return
    # The task of a sub-agent; prompts of the conversation itself came from the program.
    elif entry["type"] == "user" and caller and isinstance(entry["message"]["content"], str):
        task = {"role": "user", "content": [{"type": "text", "text": entry["message"]["content"]}]}
        yield {"type": "user", "message": task, **shared}
    elif (
        entry["type"] == "user" and is_array(entry["message"]["content"]) and not _is_prompt(entry)
    ):
        result = {"tool_use_result": entry["toolUseResult"]} if "toolUseResult" in entry else {}
        yield {"type": "user", "message": entry["message"], **shared, **result}
    elif entry.get("subtype") == "compact_boundary":
        recorded = entry["compactMetadata"]
        metadata = {"trigger": recorded["trigger"], "pre_tokens": recorded["preTokens"]}
        yield {
            "type": "system",
            "subtype": "compact_boundary",
            "uuid": entry["uuid"],
            "compact_metadata": metadata,
        }


def _is_prompt(entry: Fields) -> bool:
    """Return whether a user entry is a prompt, which is not sent back to the program.

    A prompt may be a list of blocks, like a result, but only prompts record a permission mode.
    """
    return "permissionMode" in entry


def _failure(entry: Fields) -> Fields:
    """Return the error fields of an answer that represents an API error; empty for others."""
    if not entry.get("isApiErrorMessage"):
        return {}
    status, error = entry.get("apiErrorStatus"), entry.get("error", "unknown")
    return {"error": error, "is_api_error_message": True, "api_error_status": status}


def _has_begun(ended: TurnEnded, figures: "ResultFigures") -> bool:
    """Return whether a turn sent a request to the model, or had no budget left for one."""
    return bool(ended.requests or figures.status) or ended.reason == "max_budget"


def result_message(chat: Chat, ended: TurnEnded, figures: ResultFigures) -> Fields:
    """Build the `result` message of a turn, and add its figures to those of the chat.

    Cost, API time and `modelUsage` cover the whole session, including earlier processes that the
    session was resumed from (2.1.325, observed).
    """
    figures.add(ended)
    totals = chat.parts.recorder.totals
    output = chat.answer.value if chat.answer else None
    if chat.answer and output is None and ended.reason == "done":
        ended = replace(ended, reason="no_output")
    subtype = SUBTYPES.get(ended.reason, "success")
    result: Fields = {
        "type": "result",
        "subtype": subtype,
        "is_error": ended.reason not in FINE,
        "duration_ms": round(ended.seconds * 1000),
        "duration_api_ms": totals.api_milliseconds,
        "num_turns": figures.user_messages if _has_begun(ended, figures) else 0,
        "stop_reason": "refusal" if ended.reason == "refused" else figures.stop_reason,
        "total_cost_usd": totals.cost,
        "usage": ended.usage,
        "modelUsage": {
            name: _model_usage(name, each, name in figures.models)
            for name, each in totals.models.items()
        },
        "permission_denials": ended.denials,
        "terminal_reason": _ending(ended, figures),
    }
    if subtype == "success":
        answered = {"api_error_status": figures.status, "result": ended.text}
        answered |= {"deferred_tool_use": figures.deferred} if figures.deferred else {}
        data = {} if output is None else {"result": _plain(output), "structured_output": output}
        return result | answered | data
    return result | {"errors": [_why(chat, ended.reason)]}


def _ending(ended: TurnEnded, figures: ResultFigures) -> str:
    if ended.reason == "interrupted":
        # If the last answer ends with a call, the interrupt came during that call.
        return "aborted_tools" if figures.was_call else "aborted_streaming"
    if ended.reason == "failed" and (error := _oversize(ended.text, figures.status)):
        return error
    return ENDINGS.get(ended.reason, ended.reason)


def _oversize(text: str, status: int | None) -> str:
    """Return the terminal reason for a request that was too large; empty for other errors."""
    if status == 413 or (status == 400 and "image exceeds" in text.lower()):
        return "image_error"
    return "prompt_too_long" if status == 400 and "prompt is too long" in text.lower() else ""


def _why(chat: Chat, reason: str) -> str:
    limits = chat.parts.limits
    messages = {
        "max_turns": f"Reached maximum number of turns ({limits.max_turns})",
        "max_budget": f"Reached maximum budget (${plain_number(limits.budget_given)})",
        "no_output": "Failed to provide valid structured output",
    }
    return messages.get(reason, "The turn was interrupted")


def plain_number(number: float | None) -> str:
    """Return a number without an exponent.

    >>> plain_number(0.00001), plain_number(2.0), plain_number(0.5)
    ('0.00001', '2', '0.5')
    """
    return f"{number or 0.0:.10f}".rstrip("0").rstrip(".")


def _model_usage(model: str, counts: Mapping[str, float], is_used: bool) -> Fields:
    counted: Fields = {name: counts.get(name, 0) for name in (*COUNTED.values(), *DETAILED)}
    counted |= {
        COST: counts.get(COST, 0),
        "contextWindow": window_of(model),
        "maxOutputTokens": longest_allowed(model, os.environ),
    }
    if not is_used:  # restored totals lack the fields below (2.1.325, observed)
        return counted
    is_priced = cost_of(model, Usage()) is not None
    return counted | {
        "canonicalModel": model_name(model),
        "provider": provider_of(os.environ).id,
        "costBasis": "list" if is_priced else "unknown",
    }
