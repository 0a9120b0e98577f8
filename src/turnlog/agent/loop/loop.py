"""The agent loop: ask the model, run its tool calls, and repeat until it makes no more calls.

`answering` receives one answer, `tool_calls` runs its calls, `compaction` shortens the history and
`lifecycle_hooks` runs hooks. The recorder writes every entry before its event is emitted.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from typing import Any

from turnlog.agent.loop.answering import ask_model
from turnlog.agent.loop.compaction import AUTO, GO_ON, compact, compact_now, is_full
from turnlog.agent.loop.conversation import Parts, RunningTurn
from turnlog.agent.loop.events import Event, Notice
from turnlog.agent.loop.lifecycle_hooks import (
    ContextForModel,
    Prompt,
    report_failure,
    should_continue,
    submit,
)
from turnlog.agent.loop.model_switch import follow_mode
from turnlog.agent.loop.notifications import Arrival, absorb
from turnlog.agent.loop.request import build_request
from turnlog.agent.loop.spending import Spending
from turnlog.agent.loop.tool_calls import run_calls, stop_here
from turnlog.agent.loop.turn_records import (
    ModelRefusal,
    not_written,
    record_end,
    record_failure,
    record_prompt,
    refusal_of,
)
from turnlog.agent.model.answer import StreamedMessage
from turnlog.agent.model.streaming import is_too_long
from turnlog.agent.session.entry_builders import text_of
from turnlog.agent.workspace.tool import ToolOutcome
from turnlog.conversation.context import MISSING_RESULT
from turnlog.errors import ModelError

Work = Callable[[RunningTurn], Coroutine[Any, Any, None]]
MOST_PUSHES = 8
"""Maximum number of times per turn that hooks or a truncated answer make the model continue."""
REFUSED = (
    "Your answer was stopped, as it was taken for a refusal or for something unsafe. Leave that "
    "part out, and go on with the rest of the task if there is one."
)
"""Sent to the model after a refusal, once per turn, as in the client (2.1.325, observed)."""
QUEUED = "queued"
"""Source of a prompt that was typed during a turn."""
NOT_MADE = ToolOutcome(MISSING_RESULT, is_error=True)
"""Result of a call that was deferred twice."""
CUT_OFF = "The answer was cut off: it had as many tokens as it may have. Go on where it ends."


class Loop:
    """One conversation, run turn by turn."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.pending_context: list[ContextForModel] = []
        """Context to send along with the next prompt."""
        self.more: Callable[[], Iterable[Arrival]] = list
        """Returns prompts that arrived while the model was working."""
        self.companions: Callable[[], Iterable[Arrival]] = list
        """Returns prompts that waited together with the prompt that starts a turn."""
        self._task: asyncio.Task[None] | None = None

    def run(self, prompt: Prompt, source: str = "typed") -> AsyncGenerator[Event]:
        """Run a turn for a prompt; yield its events, the last of which is `TurnEnded`."""
        return self._events(lambda turn: self._turn(prompt, source, turn))

    def compact(self, focus: str = "") -> AsyncGenerator[Event]:
        """Compact the conversation on the user's request; yield the events."""
        return self._events(lambda turn: compact_now(turn, focus))

    async def _events(self, work: Work) -> AsyncGenerator[Event]:
        """Yield the events of a task as they come; closing the generator cancels the task."""
        # The turn has its own task, so that the reader still gets `TurnEnded` after an interrupt.
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        spent = Spending()
        while self.parts.unbilled:
            spent.add_agent(self.parts.unbilled.pop())
        turn = RunningTurn(self.parts, spent.counting(events.put_nowait), spent)
        self.parts.turn = turn
        self._task = task = asyncio.create_task(work(turn))
        # A callback, so that a turn that crashes also ends the stream; `await task` then raises.
        task.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self.parts.turn = None

    def interrupt(self) -> bool:
        """Interrupt the running turn, leaving a valid session; return whether one was running."""
        return self._task is not None and self._task.cancel()

    async def _turn(self, prompt: Prompt, source: str, turn: RunningTurn) -> None:
        """Run a turn and emit its end, even after errors and interruptions."""
        self.parts.recorder.prompt_id = None  # until it is set, `stop_here` records nothing
        reason, text = "failed", ""
        try:
            try:  # the handlers write to the session, too, which fails on a full disk
                reason, text = await self._work(prompt, source, turn)
            except asyncio.CancelledError:
                reason = "interrupted"
                stop_here(turn)
            except ModelError as error:
                reason = "refused" if isinstance(error, ModelRefusal) else "failed"
                text = record_failure(turn, error)
                await report_failure(self.parts, error, text)
            record_end(turn, prompt, source)
        except OSError as error:
            reason, text = "failed", not_written(self.parts, error, text)
        turn.emit(turn.spent.ended(reason, text))

    async def _work(self, prompt: Prompt, source: str, turn: RunningTurn) -> tuple[str, str]:
        """Run a turn; return why it ended and the last answer."""
        if ending := await self._catch_up(turn):
            return ending, ""
        if why := await self._accept(prompt, source, turn):
            return "blocked", why
        # Prompts that waited together are sent together (2.1.325, observed).
        companions = self.more if source == QUEUED else self.companions
        await self._take_arrivals(companions(), turn)
        limits = self.parts.limits
        if limits.is_spent(turn.spent):  # by earlier turns
            return "max_budget", ""
        pushes = 0
        while True:
            answer = await self._answer(turn)
            if answer.calls:
                if ending := await run_calls(turn, answer.calls):
                    return ending, answer.text
                # Not earlier: the API accepts no other message between a call and its result.
                await self._take_arrivals(absorb(self.parts), turn)
                await self._take_arrivals(self.more(), turn)
            elif answer.stop_reason != "pause_turn":  # the API continues it when asked again
                if pushes == MOST_PUSHES or not await self._is_pushed(answer, pushes, turn):
                    # An answer that exceeds the budget is an error, too (2.1.325, observed).
                    return "max_budget" if limits.is_spent(turn.spent) else "done", answer.text
                pushes += 1
            if limit := self.parts.limits.reached(turn.spent):
                return limit, answer.text

    async def _catch_up(self, turn: RunningTurn) -> str | None:
        """Run the call that a hook deferred, if any; return how it ends the turn, if it does."""
        recorder = self.parts.recorder
        call = recorder.take_deferred() if self.parts.can_defer else None
        if call is None:
            return None
        recorder.prompt_id = recorder.last_prompt_id
        ending = await run_calls(turn, [call])
        if ending != "deferred":
            return ending
        # If a hook defers the call again, that ends a turn without a prompt. This run's prompt is
        # then answered, and the call is dropped (2.1.325, observed).
        turn.emit(Spending().ended(ending, ""))
        recorder.result(call["id"], NOT_MADE)
        return None

    async def _take_arrivals(self, arrivals: Iterable[Arrival], turn: RunningTurn) -> None:
        for arrived, how in arrivals:
            if why := await self._accept(arrived, how, turn):
                turn.emit(Notice(why, is_error=True))

    async def _accept(self, prompt: Prompt, source: str, turn: RunningTurn) -> str | None:
        """Record a prompt; return the reason if a hook blocks it."""
        # Compact before the prompt is recorded, so that it follows the summary unchanged.
        if is_full(self.parts):
            await compact(turn, AUTO, "")
        why, context = await submit(turn, text_of(prompt), source)
        if why:
            return why
        record_prompt(turn, prompt, source, [*self.pending_context, *context])
        self.pending_context = []
        return None

    async def _answer(self, turn: RunningTurn) -> StreamedMessage:
        """Return one answer of the model; compact and retry if the conversation is too long."""
        # For every answer, as the last call may have left plan mode, which may have its own model.
        follow_mode(self.parts)
        if is_full(self.parts):
            await self._make_room(turn)
        try:
            answer = await ask_model(turn, build_request(self.parts))
        except ModelError as error:
            if not (is_too_long(error) and await self._make_room(turn)):
                raise
            answer = await ask_model(turn, build_request(self.parts))
        turn.spent.add_answer(answer, self.parts.choice.model)
        return answer

    async def _make_room(self, turn: RunningTurn) -> bool:
        done = await compact(turn, AUTO, "")
        if done:
            turn.record(self.parts.recorder.meta(GO_ON))
        return done

    async def _is_pushed(self, answer: StreamedMessage, pushes: int, turn: RunningTurn) -> bool:
        """Return whether the model is to continue although it made no calls; record why."""
        if answer.stop_reason == "max_tokens":
            turn.record(self.parts.recorder.meta(CUT_OFF))
            return True
        if answer.stop_reason == "refusal":
            if pushes:
                raise refusal_of(answer)
            turn.record(self.parts.recorder.meta(REFUSED))
            return True
        if text := self.parts.demand():
            turn.record(self.parts.recorder.meta(text))
            return True
        return await should_continue(turn, answer.text, pushes > 0)
