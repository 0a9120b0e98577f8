"""Print mode (`-p`): prompts in; text, JSON or stream-json out.

Message shapes follow the client's print mode (documented; 2.1.325, observed).
"""

import json
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import aclosing
from enum import StrEnum
from typing import Any
from uuid import uuid4

from turnlog.agent.chat.opening import Chat
from turnlog.agent.headless.prompt_queue import incoming
from turnlog.agent.headless.stream_messages import (
    ResultFigures,
    encode,
    init_message,
    messages_of,
    result_message,
)
from turnlog.agent.loop.events import Event, Notice, Retrying, TurnEnded
from turnlog.agent.loop.lifecycle_hooks import Prompt
from turnlog.agent.workspace.image_blocks import block_of
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields, is_array, is_object
from turnlog.secrets import mask_start

Write = Callable[[str], None]


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
        self._figures = ResultFigures()
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
                self._write(encode(self._messages if self._is_verbose else self._messages[-1]))

    async def _run(self, prompt: Prompt, source: str) -> None:
        self._figures.begin_turn()
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
            self._end(event)
        # stream-json has a message of its own for this: `api_retry`.
        elif isinstance(event, Retrying) and self._style is not Style.STREAM:
            wait = f"{event.wait:.0f} s (try {event.attempt} of {event.attempts})"
            self._note(f"{event.reason}; trying again in {wait}")
        elif isinstance(event, Notice) and event.is_error:
            self._note(event.text)
        else:
            self._tell(event)

    def _tell(self, event: Event) -> None:
        self._figures.note(event)
        for message in messages_of(event, None, self._has_pieces):
            self._figures.count(message)
            if self._style is Style.STREAM or self._is_verbose:
                self._print(message)

    def _end(self, ended: TurnEnded) -> None:
        result = result_message(self._chat, ended, self._figures)
        # An answer that declines is an answer: only a turn that failed sets the exit code.
        self.is_error = result["is_error"]
        if self._style is Style.TEXT:
            text = "\n".join([result.get("result") or "", *result.get("errors", [])]).strip()
            self._write(f"\n{text}" if self._has_result else text)
        self._has_result = True
        self._print(result)

    def _print(self, message: Fields) -> None:
        # A message with a `uuid` of its own keeps it: that of the recorded entry.
        common = {"session_id": self._chat.parts.recorder.facts.session_id, "uuid": str(uuid4())}
        if self._style is Style.STREAM:
            self._write(encode(common | message))
        elif self._style is Style.JSON:
            self._messages.append(common | message)


async def read_prompts(lines: AsyncIterable[str]) -> AsyncIterator[Prompt]:
    """Yield the prompts in JSON lines of the form `{"type": "user", "message": …}`."""
    async for line in lines:
        if line.strip():
            prompt = _read_line(line)
            if prompt is not None:
                yield prompt


def _read_line(line: str) -> Prompt | None:
    try:
        value: Any = json.loads(line)
    except ValueError as error:
        raise UsageError(
            f"a line of the input is not JSON: {mask_start(line.strip(), 80)}"
        ) from error
    return prompt_in(value) if is_object(value) and value.get("type") == "user" else None


def prompt_in(value: Fields) -> Prompt:
    """Return the prompt in a message of a program."""
    message = value.get("message")
    content = message.get("content") if is_object(message) else None
    if isinstance(content, str):
        return content
    if is_array(content):
        return [_fitted(block) for block in content]
    shown = mask_start(json.dumps(value, ensure_ascii=False), 80)
    raise UsageError(f"a line of the input has no content: {shown}")


def _fitted(block: Any) -> Any:
    """Return a prompt's block; images are resized to what the API accepts."""
    source = block.get("source") if is_object(block) and block.get("type") == "image" else None
    if not is_object(source) or source.get("type") != "base64":
        return block
    return block_of(str(source.get("data")), "[an image that cannot be shown]")
