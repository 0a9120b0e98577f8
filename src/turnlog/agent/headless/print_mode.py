"""Print mode (`-p`): prompts in; text, JSON or stream-json out.

Message shapes follow the client's print mode (documented; 2.1.325, observed).
"""

from collections.abc import AsyncIterable, Callable
from contextlib import aclosing
from enum import StrEnum
from uuid import uuid4

from turnlog.agent.chat.opening import Chat
from turnlog.agent.headless.prompt_queue import PROGRAM, incoming
from turnlog.agent.headless.stream_messages import (
    ALWAYS_SHOWN,
    ResultFigures,
    encode,
    hook_message,
    init_message,
    messages_of,
    result_message,
)
from turnlog.agent.hooks.runs import Firing, HookRun
from turnlog.agent.loop.events import Event, Notice, Retrying, TurnEnded
from turnlog.agent.loop.lifecycle_hooks import Prompt
from turnlog.format.json_values import Fields

Write = Callable[[str], None]


class Style(StrEnum):
    """Output format of a chat."""

    TEXT = "text"
    JSON = "json"
    STREAM = "stream-json"


class HookEvents:
    """Hook events for stream-json output, held back until the chat is open."""

    def __init__(self, has_all: bool) -> None:
        self._has_all = has_all
        self._kept: list[Fields] = []
        self._show: Callable[[Fields], None] = self._kept.append

    def observe(self, run_id: str, firing: Firing, run: HookRun | None) -> None:
        """Report a hook, before and after it runs."""
        if self._has_all or firing.event in ALWAYS_SHOWN:
            self._show(hook_message(run_id, firing, run))

    def release(self, show: Callable[[Fields], None]) -> None:
        """Pass on the events held back, and from now on each event at once."""
        self._show = show
        for message in self._kept:
            show(message)

    def close(self) -> None:
        """Ignore further events: the result is the last message."""
        self._show = lambda message: None


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
        chat.parts.can_defer = True
        self._note = note
        """Called with errors, and with retries that the output format does not show."""
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
        # The one JSON document of `--output-format json` is complete only after the last turn.
        finally:  # also when cancelled while waiting for background commands
            if self._style is Style.JSON and self._has_result:
                self._write(encode(self._messages if self._is_verbose else self._messages[-1]))

    async def _run(self, prompt: Prompt, source: str) -> None:
        self._figures.begin_turn()
        self._print(init_message(self._chat))
        if source == PROGRAM and await self._answers_itself(prompt):
            return
        async with aclosing(self._chat.send(prompt, source)) as events:
            async for event in events:
                self._show(event)

    async def _answers_itself(self, prompt: Prompt) -> bool:
        """Answer a local command; return whether it was one."""
        if not isinstance(prompt, str) or not prompt.startswith("/"):
            return False
        from turnlog.agent.headless.local_commands import local_answer, local_messages

        answer = await local_answer(self._chat, prompt)
        if answer is None:
            return False
        message, ended = local_messages(answer)
        if self._style is Style.STREAM or self._is_verbose:
            self._print(message)
        self._end(ended)
        return True

    def report(self, message: Fields) -> None:
        """Print a message that belongs to the stream but to no turn."""
        if self._style is Style.STREAM:
            self._print(message)

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
        self._figures.begin_turn()  # a call deferred again has its own result before the prompt's
        self.is_error = result["is_error"]
        is_followed = ended.reason == "deferred" and not ended.requests
        if self._style is Style.TEXT and not is_followed:
            text = "\n".join([result.get("result") or "", *result.get("errors", [])]).strip()
            self._write(f"\n{text}" if self._has_result else text)
        self._has_result |= not is_followed
        self._print(result)

    def _print(self, message: Fields) -> None:
        # A message about a recorded entry keeps the entry's `uuid`.
        common = {"session_id": self._chat.parts.recorder.facts.session_id, "uuid": str(uuid4())}
        if self._style is Style.STREAM:
            self._write(encode(common | message))
        elif self._style is Style.JSON:
            self._messages.append(common | message)
