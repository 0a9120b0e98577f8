"""The calls of one answer: admitted, run, recorded.

Calls that change nothing run side by side, others one after the other. Results are recorded in the
order of the calls, each as soon as those before it are; a call that was not run has one as well.
"""

import asyncio
from collections.abc import Iterator
from time import monotonic

from msgspec import UNSET, Struct

from turnlog.agent.access import Reads, Writes
from turnlog.agent.events import Answered, Called, Noted, Printed, Recorded
from turnlog.agent.hooks.answers import HookOutcome
from turnlog.agent.hooks.lines import progress_line, reminder
from turnlog.agent.session.lines import (
    INTERRUPTED,
    INTERRUPTED_CALL,
    REJECTED_DATA,
    REJECTED_TEXT,
    text_of,
)
from turnlog.agent.tool import Fields, Outcome, ToolError
from turnlog.agent.turn.gate import REJECTED, Admitted, Invalid, Refused, admit
from turnlog.agent.turn.parts import RUNNING, Emit, Parts, Running
from turnlog.agent.turn.spending import Spending

FEEDBACK = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was "
    "a file edit, the new_string was NOT written to the file). To tell you how to proceed, the "
    "user said:\n{text}"
)
NOT_RUN = Outcome(REJECTED_TEXT, REJECTED_DATA, is_error=True)
FIRST_NEWS = 2.0
"""Seconds until a command's output is first noted in the session; then each time twice as long."""
NEWS_LENGTH = 2_000


class Done(Struct):
    """What came of a call, and what is to be said of it."""

    outcome: Outcome
    context: list[str] = []
    """What hooks want the model to be told."""
    kind: str | None = None
    """How it was refused."""
    ends_turn: bool = False


async def run_calls(parts: Parts, calls: list[Fields], emit: Emit, spent: Spending) -> bool:
    """Carry out calls; tell whether the user, or a hook, wants the turn to end with them."""
    batch = _Batch(parts, calls, emit, spent)
    try:
        await batch.run()
    finally:
        batch.record_rest()
    for text in batch.context:
        emit(Recorded(parts.recorder.meta(text)))
    return batch.ends_turn


def stop_here(parts: Parts, emit: Emit, was_call: bool = False) -> None:
    """Leave a session that says the user stopped here, with a result for each call.

    A turn whose prompt is not yet written down leaves nothing.
    """
    recorder = parts.recorder
    if not recorder.prompt_id:
        return
    waiting = recorder.open_calls
    for call in waiting:
        emit(Recorded(recorder.result(call, NOT_RUN, toolDenialKind=REJECTED)))
    is_call = was_call or waiting or recorder.ends_in_result
    emit(Recorded(recorder.interruption(INTERRUPTED_CALL if is_call else INTERRUPTED)))


class _Batch:
    """The calls of one answer."""

    def __init__(self, parts: Parts, calls: list[Fields], emit: Emit, spent: Spending) -> None:
        self._parts = parts
        self._calls = calls
        self._emit = emit
        self._spent = spent
        self._done: dict[str, Done] = {}
        self._recorded = 0

    @property
    def ends_turn(self) -> bool:
        return any(done.ends_turn for done in self._done.values())

    @property
    def context(self) -> list[str]:
        return [text for done in self._done.values() for text in done.context]

    async def run(self) -> None:
        for group in self._groups():
            try:
                async with asyncio.TaskGroup() as tasks:
                    for call in group:
                        tasks.create_task(self._carry_out(call))
            except BaseExceptionGroup as several:
                raise several.exceptions[0] from None
            if self.ends_turn:
                break

    def record_rest(self) -> None:
        for call in self._calls[self._recorded :]:
            self._record(call, self._done.get(call["id"], Done(NOT_RUN, kind=REJECTED)))

    def _groups(self) -> Iterator[list[Fields]]:
        """Calls in a row that may run side by side; any other is alone."""
        group: list[Fields] = []
        for call in self._calls:
            tool = self._parts.tools.get(call["name"])
            if tool is not None and tool.is_parallel:
                group.append(call)
                continue
            yield from (each for each in (group, [call]) if each)
            group = []
        if group:
            yield group

    async def _carry_out(self, call: Fields) -> None:
        started = monotonic()
        RUNNING.set(Running(call["id"], self._emit, self._spent))
        done = await _run(self._parts, call, self._emit)
        self._done[call["id"]] = done
        for ready in self._calls[self._recorded :]:
            if ready["id"] not in self._done:
                break
            self._record(ready, self._done[ready["id"]])
        self._emit(Answered(call["id"], done.outcome, monotonic() - started))

    def _record(self, call: Fields, done: Done) -> None:
        recorder = self._parts.recorder
        extra = {"toolDenialKind": done.kind} if done.kind else {}
        entry = recorder.result(call["id"], done.outcome, **extra)
        self._recorded += 1
        self._emit(Recorded(entry))
        if done.kind:
            about = {"tool_name": call["name"], "tool_use_id": call["id"]}
            self._spent.denials.append(about | {"tool_input": call["input"]})


async def _run(parts: Parts, call: Fields, emit: Emit) -> Done:
    """Run a call, whatever comes of it."""
    try:
        admitted = await admit(parts, call)
    except Refused as refused:
        return _refusal(refused)
    except Invalid as error:
        text = f"<tool_use_error>{error}</tool_use_error>"
        return Done(Outcome(text, str(error), is_error=True))
    emit(Called(call["id"], call["name"], admitted.input))
    started = monotonic()
    news = _News(parts, call, emit)
    try:
        outcome = await admitted.tool.run(admitted.value, parts.workspace, news.printed)
    except ToolError as error:
        outcome = _failed(str(error))
    except Exception as error:  # whatever a tool does, the model is told and the loop goes on
        outcome = _failed(f"{type(error).__name__}: {error}")
    return await _after(parts, call, admitted, outcome, monotonic() - started, emit)


def _refusal(refused: Refused) -> Done:
    if refused.kind != REJECTED:
        return Done(_failed(refused.text), kind=refused.kind, ends_turn=refused.ends_turn)
    told = FEEDBACK.format(text=refused.text) if refused.text else REJECTED_TEXT
    outcome = Outcome(told, REJECTED_DATA, is_error=True)
    return Done(outcome, kind=REJECTED, ends_turn=refused.ends_turn)


async def _after(
    parts: Parts, call: Fields, admitted: Admitted, outcome: Outcome, seconds: float, emit: Emit
) -> Done:
    """Let hooks have their say about what came of a call."""
    event = "PostToolUseFailure" if outcome.is_error else "PostToolUse"
    about: Fields = {"tool_name": call["name"], "tool_input": admitted.input}
    about |= {"tool_use_id": call["id"], "duration_ms": round(seconds * 1000)}
    about |= parts.about_agent
    if outcome.is_error:
        about |= {"error": text_of(outcome.content), "is_interrupt": False}
    else:
        about |= {"tool_response": outcome.data}
    said = await parts.hooks.fire(event, call["name"], about)
    for each in (admitted.said, said):
        note_hooks(parts, each, call["id"], emit)
    if said.updated_output is not UNSET:
        outcome = Outcome(text_of(said.updated_output), said.updated_output)
    told = [*admitted.said.context, *said.context, *([said.reason] if said.block else [])]
    context = [reminder([text], f"{event}:{call['name']}") for text in told]
    return Done(outcome, context + _recalled(parts, admitted), ends_turn=said.stop)


def _recalled(parts: Parts, admitted: Admitted) -> list[str]:
    """What memory files say of the file that a call is about."""
    touched = admitted.tool.touches(admitted.value, parts.workspace)
    paths = [each.path for each in touched if isinstance(each, Reads | Writes)]
    told = [text for path in paths for text in parts.recall(path)]
    return [f"<system-reminder>\n{text}\n</system-reminder>" for text in told]


def note_hooks(parts: Parts, said: HookOutcome, call_id: str, emit: Emit) -> None:
    """Leave a line for each hook that ran, and tell the user what is for the user."""
    for run in said.runs:
        line = progress_line(run, call_id)
        parts.recorder.progress(line["data"], call_id, call_id)
    for text in [*said.errors, *filter(None, [said.system_message, said.stop_reason])]:
        emit(Noted(text, is_error=text in said.errors))


def _failed(text: str) -> Outcome:
    return Outcome(text, f"Error: {text}", is_error=True)


class _News:
    """What a running call prints: told at once, and noted in the session now and then."""

    def __init__(self, parts: Parts, call: Fields, emit: Emit) -> None:
        self._parts = parts
        self._call = call
        self._emit = emit
        self._started = monotonic()
        self._next = FIRST_NEWS
        self._count = 0
        self._lines = 0
        self._tail = ""

    def printed(self, text: str) -> None:
        self._emit(Printed(self._call["id"], text))
        self._tail = (self._tail + text)[-NEWS_LENGTH:]
        self._lines += text.count("\n")
        elapsed = monotonic() - self._started
        if self._call["name"] == "Bash" and elapsed >= self._next:
            self._next = elapsed * 2
            data: Fields = {"type": "bash_progress", "output": self._tail}
            data |= {"fullOutput": self._tail, "elapsedTimeSeconds": round(elapsed)}
            data |= {"totalLines": self._lines}
            name = f"bash-progress-{self._count}"
            self._parts.recorder.progress(data, name, self._call["id"])
            self._count += 1
