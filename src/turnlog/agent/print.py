"""A chat for programs: prompts in, text, JSON or a stream of JSON lines out.

Shapes are those of the client's own printed mode (documented; 2.1.325 observed).
"""

import json
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from enum import StrEnum
from typing import Any
from uuid import uuid4

from turnlog.agent.chat.opening import Chat
from turnlog.agent.events import Ended, Event, Inside, Recorded, Retrying, Streamed
from turnlog.agent.session.lines import VERSION
from turnlog.agent.tool import Fields
from turnlog.agent.turn.moments import Prompt
from turnlog.errors import UsageError
from turnlog.format.fields import is_array, is_object

Write = Callable[[str], None]
SUBTYPES = {
    "max_turns": "error_max_turns",
    "max_budget": "error_max_budget_usd",
    "interrupted": "error_during_execution",
}
"""How results are named that are no success; a failure of the API is one with `is_error`."""


class Style(StrEnum):
    """How a chat is printed."""

    TEXT = "text"
    JSON = "json"
    STREAM = "stream-json"


class Printer:
    """Prints what happens."""

    def __init__(self, chat: Chat, style: Style, write: Write, has_pieces: bool = False) -> None:
        self._chat = chat
        self._style = style
        self._write = write
        self._has_pieces = has_pieces
        """Whether pieces of answers are printed as they come in."""
        self._cost = 0.0
        self._is_stopped = False
        self.is_error = False

    async def run(self, prompts: AsyncIterable[Prompt]) -> None:
        """Run prompts one after the other."""
        async for prompt in prompts:
            if self._style is Style.STREAM:
                self._print(init_message(self._chat))
            async with aclosing(self._chat.send(prompt, "sdk")) as events:
                async for event in events:
                    self._tell(event)
            if self._is_stopped:
                break

    def stop(self) -> bool:
        """Let the turn end here, and no other begin; tell whether there is one."""
        self._is_stopped = True
        return self._chat.loop.interrupt()

    def _tell(self, event: Event) -> None:
        if isinstance(event, Ended):
            self._cost += event.cost
            self.is_error = event.reason not in ("done", "refused")
            self._end(event)
        elif self._style is Style.STREAM:
            for message in messages_of(event, None, self._has_pieces):
                self._print(message)

    def _end(self, ended: Ended) -> None:
        result = result_message(self._chat, ended, self._cost)
        if self._style is Style.TEXT:
            self._write("\n".join([result.get("result") or "", *result.get("errors", [])]).strip())
        else:
            self._print(result)

    def _print(self, message: Fields) -> None:
        held = {"session_id": self._chat.parts.recorder.facts.session_id, "uuid": str(uuid4())}
        self._write(json.dumps(held | message, ensure_ascii=False, separators=(",", ":")))


def init_message(chat: Chat) -> Fields:
    """What a program is told of the session before each prompt."""
    parts = chat.parts
    return {
        "type": "system",
        "subtype": "init",
        "cwd": str(parts.workspace.cwd),
        "tools": list(parts.tools),
        "mcp_servers": chat.server_states,
        "model": parts.choice.model,
        "permissionMode": parts.rules.mode.value,
        "slash_commands": ["compact", *chat.prompts.commands],
        "apiKeySource": "ANTHROPIC_API_KEY",
        "claude_code_version": VERSION,
        "output_style": "default",
    }


def messages_of(event: Event, caller: str | None, has_pieces: bool) -> Iterator[Fields]:
    """The lines that tell an event; `caller` is the call whose sub-agent it happens in."""
    match event:
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
                "retry_delay_ms": round(event.wait * 1000),
                "error": event.reason,
            }
        case _:
            pass


def _recorded(entry: Fields, caller: str | None) -> Iterator[Fields]:
    """The line that tells a line of the session: answers, results, and where it was compacted."""
    shared = {"parent_tool_use_id": caller, "uuid": entry["uuid"], "timestamp": entry["timestamp"]}
    if entry["type"] == "assistant":
        request = {"request_id": entry["requestId"]} if "requestId" in entry else {}
        yield {"type": "assistant", "message": entry["message"], **shared, **request}
    elif entry["type"] == "user" and is_array(entry["message"]["content"]):
        result = {"tool_use_result": entry["toolUseResult"]} if "toolUseResult" in entry else {}
        yield {"type": "user", "message": entry["message"], **shared, **result}
    elif entry.get("subtype") == "compact_boundary":
        told = entry["compactMetadata"]
        metadata = {"trigger": told["trigger"], "pre_tokens": told["preTokens"]}
        yield {
            "type": "system",
            "subtype": "compact_boundary",
            "uuid": entry["uuid"],
            "compact_metadata": metadata,
        }


def result_message(chat: Chat, ended: Ended, cost: float) -> Fields:
    """What a turn came to; `cost` is that of all turns so far."""
    subtype = SUBTYPES.get(ended.reason, "success")
    result: Fields = {
        "type": "result",
        "subtype": subtype,
        "is_error": ended.reason not in ("done", "refused"),
        "duration_ms": round(ended.seconds * 1000),
        "duration_api_ms": round(ended.api_seconds * 1000),
        "num_turns": ended.requests,
        "total_cost_usd": cost,
        "usage": ended.usage,
        "modelUsage": ended.models,
        "permission_denials": ended.denials,
    }
    if subtype == "success":
        return result | {"result": ended.text}
    limits = chat.parts.limits
    told = {
        "max_turns": f"Reached maximum number of turns ({limits.max_turns})",
        "max_budget": f"Reached maximum budget (${limits.max_budget})",
    }
    return result | {"errors": [told.get(ended.reason, "The turn was interrupted")]}


async def read_prompts(lines: AsyncIterable[str]) -> AsyncIterator[Prompt]:
    """Prompts from JSON lines, as programs write them: `{"type": "user", "message": …}`."""
    async for line in lines:
        if line.strip():
            prompt = _prompt_in(line)
            if prompt is not None:
                yield prompt


def _prompt_in(line: str) -> Prompt | None:
    try:
        value: Any = json.loads(line)
    except ValueError as error:
        raise UsageError(f"a line of the input is not JSON: {line.strip()[:80]}") from error
    if not is_object(value) or value.get("type") != "user":
        return None
    message = value.get("message")
    content = message.get("content") if is_object(message) else None
    if isinstance(content, str) or is_array(content):
        return content
    raise UsageError(f"a line of the input has no content: {line.strip()[:80]}")
