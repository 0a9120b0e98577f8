"""The loop: ask the model, carry out its calls, ask again, until it has nothing left to do.

Everything else is a room beside it: `answering` gets one answer, `calls` carries calls out,
`compaction` makes room, `moments` hears the hooks, `recorder` writes down what happens before
anyone is told.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from turnlog.agent.loop.answering import ask_model
from turnlog.agent.loop.compaction import AUTO, GO_ON, compact, compact_now, is_full
from turnlog.agent.loop.conversation import Emit, Parts
from turnlog.agent.loop.events import Event, Notice, Recorded
from turnlog.agent.loop.lifecycle_hooks import Prompt, hear_failure, is_kept_going, submit
from turnlog.agent.loop.notifications import Arrival, absorb
from turnlog.agent.loop.request import build_request
from turnlog.agent.loop.spending import SPENT, Spending
from turnlog.agent.loop.tool_calls import run_calls, stop_here
from turnlog.agent.loop.turn_records import not_written, record_end, record_failure, record_prompt
from turnlog.agent.model.answer import StreamedMessage
from turnlog.agent.model.streaming import is_too_long
from turnlog.agent.session.entry_builders import text_of
from turnlog.errors import ModelError

Work = Callable[[Emit], Coroutine[Any, Any, None]]
MOST_PUSHES = 8
"""How often in one turn the model is made to go on: by hooks, or because an answer was cut off."""
CUT_OFF = "The answer was cut off: it had as many tokens as it may have. Go on where it ends."


class Loop:
    """One conversation."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.told: list[Prompt] = []
        """What the model is to be told with the next prompt."""
        self.more: Callable[[], list[Arrival]] = list
        """Gives what the user asked for while the model was at work."""
        self._task: asyncio.Task[None] | None = None

    def run(self, prompt: Prompt, source: str = "typed") -> AsyncGenerator[Event]:
        """Do what a prompt asks; gives what happens, the last of which is `Ended`."""
        return self._events(lambda emit: self._turn(prompt, source, emit))

    def compact(self, focus: str = "") -> AsyncGenerator[Event]:
        """Make room in the conversation, as the user asks."""
        return self._events(lambda emit: compact_now(self.parts, focus, emit))

    async def _events(self, work: Work) -> AsyncGenerator[Event]:
        """What some work tells, as it is told; whoever stops listening stops the work."""
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._task = task = asyncio.create_task(work(events.put_nowait))
        task.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def interrupt(self) -> bool:
        """Stop what is being done; the session stays whole. Tell whether anything was."""
        return self._task is not None and self._task.cancel()

    async def _turn(self, prompt: Prompt, source: str, emit: Emit) -> None:
        """A turn, whatever comes of it, and its end."""
        spent = Spending()
        SPENT.set(spent)
        emit = spent.counting(emit)
        self.parts.recorder.prompt_id = None
        reason, text = "failed", ""
        try:
            try:
                reason, text = await self._work(prompt, source, emit, spent)
            except asyncio.CancelledError:
                reason = "interrupted"
                stop_here(self.parts, emit)
            except ModelError as error:
                text = record_failure(self.parts, error, emit)
                await hear_failure(self.parts, error, text)
            record_end(self.parts, prompt, source, spent.seconds, emit)
        except OSError as error:
            reason, text = "failed", not_written(self.parts, error, text)
        emit(spent.ended(reason, text))

    async def _work(
        self, prompt: Prompt, source: str, emit: Emit, spent: Spending
    ) -> tuple[str, str]:
        """The turn itself; gives why it is over, and what was said last."""
        if why := await self._accept(prompt, source, emit, spent):
            return "blocked", why
        pushes = 0
        while True:
            answer = await self._answer(emit, spent)
            if answer.calls:
                if ending := await run_calls(self.parts, answer.calls, emit, spent):
                    return ending, answer.text
                for arrived, how in [*absorb(self.parts), *self.more()]:
                    if why := await self._accept(arrived, how, emit, spent):
                        emit(Notice(why, is_error=True))
            elif answer.stop_reason != "pause_turn":
                if pushes == MOST_PUSHES or not await self._is_pushed(answer, pushes, emit):
                    return "refused" if answer.stop_reason == "refusal" else "done", answer.text
                pushes += 1
            if limit := self.parts.limits.reached(spent):
                return limit, answer.text

    async def _accept(self, prompt: Prompt, source: str, emit: Emit, spent: Spending) -> str | None:
        """Record a prompt, unless a hook will not have it; then say why."""
        if is_full(self.parts):
            await compact(self.parts, AUTO, "", emit, spent)
        why, context = await submit(self.parts, text_of(prompt), source, emit)
        if why:
            return why
        record_prompt(self.parts, prompt, source, [*self.told, *context], emit)
        self.told = []
        return None

    async def _answer(self, emit: Emit, spent: Spending) -> StreamedMessage:
        """One answer of the model; a conversation that is too long for it is compacted."""
        if is_full(self.parts):
            await self._make_room(emit, spent)
        try:
            answer = await ask_model(self.parts, build_request(self.parts), emit)
        except ModelError as error:
            if not (is_too_long(error) and await self._make_room(emit, spent)):
                raise
            answer = await ask_model(self.parts, build_request(self.parts), emit)
        spent.add_answer(answer)
        return answer

    async def _make_room(self, emit: Emit, spent: Spending) -> bool:
        done = await compact(self.parts, AUTO, "", emit, spent)
        if done:
            emit(Recorded(self.parts.recorder.meta(GO_ON)))
        return done

    async def _is_pushed(self, answer: StreamedMessage, pushes: int, emit: Emit) -> bool:
        """Whether the model is told to go on though it would stop."""
        if answer.stop_reason == "max_tokens":
            emit(Recorded(self.parts.recorder.meta(CUT_OFF)))
            return True
        return await is_kept_going(self.parts, answer.text, pushes > 0, emit)
