"""Print mode (`-p`): prompts in; text, JSON or stream-json out.

Message shapes follow the client's print mode (documented; 2.1.325, observed).
"""

import json
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from enum import StrEnum
from typing import Any
from uuid import uuid4

from turnlog.agent.chat.opening import Chat
from turnlog.agent.headless.prompt_queue import incoming
from turnlog.agent.loop.events import (
    Event,
    Inside,
    Notice,
    Recorded,
    Retrying,
    Streamed,
    TurnEnded,
)
from turnlog.agent.loop.lifecycle_hooks import Prompt
from turnlog.agent.session.entry_builders import VERSION
from turnlog.agent.workspace.image_blocks import block_of
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields, is_array, is_object
from turnlog.secrets import mask_start
from turnlog.text import safe_json

Write = Callable[[str], None]
KEY = "ANTHROPIC_API_KEY"
"""The reported source of an API key; a token is reported as "none" (2.1.325, observed)."""
SUBTYPES = {
    "max_turns": "error_max_turns",
    "max_budget": "error_max_budget_usd",
    "interrupted": "error_during_execution",
}
"""Result subtypes other than success; API failures are success with `is_error`."""


class Style(StrEnum):
    """Output format of a chat."""

    TEXT = "text"
    JSON = "json"
    STREAM = "stream-json"


class Printer:
    """Prints the events of a chat."""

    def __init__(
        self,
        chat: Chat,
        style: Style,
        write: Write,
        has_pieces: bool = False,
        note: Write = lambda text: None,
        is_verbose: bool = False,
    ) -> None:
        self._chat = chat
        self._note = note
        """Called with delays that the output format does not show."""
        self._style = style
        self._write = write
        self._has_pieces = has_pieces
        """True if partial messages are printed."""
        self._is_verbose = is_verbose
        """True if JSON output contains all messages, not only the result."""
        self._messages: list[Fields] = []
        """Messages to print at the end."""
        self._cost = 0.0
        self._has_result = False
        """True if any turn succeeded."""
        self._is_stopped = False
        self.is_error = False

    async def run(self, prompts: AsyncIterable[Prompt]) -> None:
        """Run prompts one after another, and turns started by background notifications."""
        try:
            async with aclosing(incoming(prompts, self._chat.parts)) as arrivals:
                async for prompt, source in arrivals:
                    await self._run(prompt, source)
                    if self._is_stopped:
                        break
        finally:  # also when cancelled while waiting for background commands
            if self._style is Style.JSON and self._has_result:
                self._write(_encoded(self._messages if self._is_verbose else self._messages[-1]))

    async def _run(self, prompt: Prompt, source: str) -> None:
        self._print(init_message(self._chat))
        async with aclosing(self._chat.send(prompt, source)) as events:
            async for event in events:
                self._show(event)

    def stop(self) -> bool:
        """Interrupt the turn and start no other; return whether one was running."""
        self._is_stopped = True
        return self._chat.loop.interrupt()

    def _show(self, event: Event) -> None:
        if isinstance(event, TurnEnded):
            self._cost += event.cost
            # An answer that declines is an answer: only a turn that failed sets the exit code.
            self.is_error = event.reason not in ("done", "refused")
            self._end(event)
        # stream-json has a message of its own for this: `api_retry`.
        elif isinstance(event, Retrying) and self._style is not Style.STREAM:
            wait = f"{event.wait:.0f} s (try {event.attempt} of {event.attempts})"
            self._note(f"{event.reason}; trying again in {wait}")
        elif isinstance(event, Notice) and event.is_error:
            self._note(event.text)
        elif self._style is Style.STREAM or self._is_verbose:
            for message in messages_of(event, None, self._has_pieces):
                self._print(message)

    def _end(self, ended: TurnEnded) -> None:
        result = result_message(self._chat, ended, self._cost)
        if self._style is Style.TEXT:
            text = "\n".join([result.get("result") or "", *result.get("errors", [])]).strip()
            self._write(f"\n{text}" if self._has_result else text)
        self._has_result = True
        self._print(result)

    def _print(self, message: Fields) -> None:
        # A message with a `uuid` of its own keeps it: that of the recorded entry.
        common = {"session_id": self._chat.parts.recorder.facts.session_id, "uuid": str(uuid4())}
        if self._style is Style.STREAM:
            self._write(_encoded(common | message))
        elif self._style is Style.JSON:
            self._messages.append(common | message)


def _encoded(message: Fields | list[Fields]) -> str:
    return safe_json(json.dumps(message, ensure_ascii=False, separators=(",", ":")))


def init_message(chat: Chat) -> Fields:
    """Build the `system/init` message that precedes each prompt."""
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
        "apiKeySource": KEY if os.environ.get(KEY) else "none",
        "claude_code_version": VERSION,
        "output_style": "default",
    }


def messages_of(event: Event, caller: str | None, has_pieces: bool) -> Iterator[Fields]:
    """Yield the messages for an event; `caller` is the call that started its sub-agent."""
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
                "max_retries": event.attempts,
                "retry_delay_ms": round(event.wait * 1000),
                "error_status": event.status,
                "error": _category(event.status),
            }
        case _:
            pass


def _category(status: int | None) -> str:
    """Return the documented error category of an HTTP status."""
    known = {429: "rate_limit", 529: "overloaded"}
    return known.get(status or 0) or ("server_error" if status and status >= 500 else "unknown")


def _recorded(entry: Fields, caller: str | None) -> Iterator[Fields]:
    """Return the message for a recorded entry: answers, results and compactions."""
    shared = {"parent_tool_use_id": caller, "uuid": entry["uuid"], "timestamp": entry["timestamp"]}
    if entry["type"] == "assistant":
        request = {"request_id": entry["requestId"]} if "requestId" in entry else {}
        yield {"type": "assistant", "message": entry["message"], **shared, **request}
    elif entry["type"] == "user" and is_array(entry["message"]["content"]):
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


def result_message(chat: Chat, ended: TurnEnded, cost: float) -> Fields:
    """Build the `result` message of a turn; `cost` is the total of all turns so far."""
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
    messages = {
        "max_turns": f"Reached maximum number of turns ({limits.max_turns})",
        "max_budget": f"Reached maximum budget (${limits.max_budget})",
    }
    return result | {"errors": [messages.get(ended.reason, "The turn was interrupted")]}


async def read_prompts(lines: AsyncIterable[str]) -> AsyncIterator[Prompt]:
    """Yield the prompts in JSON lines of the form `{"type": "user", "message": …}`."""
    async for line in lines:
        if line.strip():
            prompt = _prompt_in(line)
            if prompt is not None:
                yield prompt


def _prompt_in(line: str) -> Prompt | None:
    try:
        value: Any = json.loads(line)
    except ValueError as error:
        raise UsageError(
            f"a line of the input is not JSON: {mask_start(line.strip(), 80)}"
        ) from error
    if not is_object(value) or value.get("type") != "user":
        return None
    message = value.get("message")
    content = message.get("content") if is_object(message) else None
    if isinstance(content, str):
        return content
    if is_array(content):
        return [_fitted(block) for block in content]
    raise UsageError(f"a line of the input has no content: {mask_start(line.strip(), 80)}")


def _fitted(block: Any) -> Any:
    """Return a prompt's block; images are resized to what the API accepts."""
    source = block.get("source") if is_object(block) and block.get("type") == "image" else None
    if not is_object(source) or source.get("type") != "base64":
        return block
    return block_of(str(source.get("data")), "[an image that cannot be shown]")
