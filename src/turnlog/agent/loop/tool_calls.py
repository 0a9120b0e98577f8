"""Run the tool calls of one answer: check permission, run, record the result.

Read-only calls run in parallel, all others one after another. Results are recorded in the order of
the calls, each as soon as all earlier ones are. A call that did not run gets a result, too.
"""

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from time import monotonic
from typing import Literal

from msgspec import UNSET, Struct

from turnlog.agent.hooks.hook_entries import deferral_line, reminder
from turnlog.agent.hooks.outputs import HookOutcome
from turnlog.agent.loop.call_hooks import (
    BATCH,
    after_batch,
    after_call,
    after_move,
    note_hooks,
    note_stop,
)
from turnlog.agent.loop.conversation import Parts, RunningTurn
from turnlog.agent.loop.events import CallDenied, CallStarted, Printed
from turnlog.agent.loop.turn_records import link_pull_request
from turnlog.agent.permissions.gate import (
    REJECTED,
    RULE,
    Admitted,
    Deferred,
    Invalid,
    Refused,
    admit,
    admit_again,
    plain_input,
)
from turnlog.agent.permissions.policy import Ask, PermissionReply, Question
from turnlog.agent.session.entry_builders import (
    REJECTED_DATA,
    REJECTED_TEXT,
    STOPPED,
    STOPPED_AT_CALL,
    permission_decision,
    permission_rejection,
    text_of,
)
from turnlog.agent.tools.toolbox import offered_name
from turnlog.agent.workspace.access import Basis, Reads, Tier, Writes
from turnlog.agent.workspace.tool import ToolError, ToolOutcome
from turnlog.format.json_values import Fields

LOG = logging.getLogger("turnlog.tools")
FEEDBACK = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was "
    "a file edit, the new_string was NOT written to the file). To tell you how to proceed, the "
    "user said:\n{text}"
)
NOT_RUN = ToolOutcome(REJECTED_TEXT, REJECTED_DATA, is_error=True)
FIRST_NEWS = 2.0
"""Seconds until the output of a command is first recorded; the interval then doubles."""
NEWS_LENGTH = 2_000


class Done(Struct):
    """The outcome of a call and the consequences for the turn."""

    outcome: ToolOutcome
    context: list[str] = []
    """Context that hooks add for the model."""
    kind: str | None = None
    """The kind of denial, if the call was denied."""
    ends_turn: bool = False
    """True if the user ended the turn by denying the call."""
    stop: tuple[str, HookOutcome] | None = None
    """The hook event that ended the turn, with its outcome."""
    basis: Basis | None = None
    """The basis on which the call ran, if it did."""
    is_hooked: bool = False
    """True if a hook denied the call."""
    deferral: Fields | None = None
    """The entry of a call that a hook defers to a later run; the call gets no result now."""


async def run_calls(
    turn: RunningTurn, calls: list[Fields]
) -> Literal["interrupted", "deferred", "done"] | None:
    """Run calls; return how the turn ends if the user or a hook ends it."""
    batch = _Batch(turn, calls)
    try:
        await batch.run()
    finally:
        # Also when interrupted: the API refuses a history in which a call has no result.
        batch.record_rest()
    # Context comes after all results, which must directly follow their calls.
    for text in batch.context:
        turn.record(turn.parts.recorder.meta(text))
    if batch.ends_turn:
        stop_here(turn, was_call=True)
        return "interrupted"
    if batch.is_deferred:
        return "deferred"
    outcome = None if batch.stop else await after_batch(turn, batch.outcomes)
    stop = batch.stop or (outcome and (BATCH, outcome))
    if stop:
        note_stop(turn, stop[1], stop[0])
    has_answered = any(outcome.ends_turn for _, outcome in batch.outcomes)
    return "done" if stop or has_answered else None


def stop_here(turn: RunningTurn, was_call: bool = False) -> None:
    """Record an interruption by the user, with a result for each open call.

    Nothing is recorded if the prompt is not in the session yet.
    """
    recorder = turn.parts.recorder
    if not recorder.prompt_id:
        return
    open_calls = recorder.open_calls
    for call in open_calls:
        turn.record(recorder.result(call, NOT_RUN, toolDenialKind=REJECTED))
    is_call = was_call or open_calls or recorder.ends_in_result
    turn.record(recorder.interruption(STOPPED_AT_CALL if is_call else STOPPED))


class _Batch:
    """The calls of one answer."""

    def __init__(self, turn: RunningTurn, calls: list[Fields]) -> None:
        self._turn = turn
        self._parts = turn.parts
        self._calls = calls
        self._done: dict[str, Done] = {}
        self._recorded = 0

    @property
    def ends_turn(self) -> bool:
        return any(done.ends_turn for done in self._done.values())

    @property
    def is_deferred(self) -> bool:
        return any(done.deferral for done in self._done.values())

    @property
    def stop(self) -> tuple[str, HookOutcome] | None:
        return next((done.stop for done in self._done.values() if done.stop), None)

    @property
    def context(self) -> list[str]:
        return [text for done in self._done.values() for text in done.context]

    @property
    def outcomes(self) -> list[tuple[Fields, ToolOutcome]]:
        return [(call, self._done[call["id"]].outcome) for call in self._calls]

    async def run(self) -> None:
        for group in self._groups():
            try:
                async with asyncio.TaskGroup() as tasks:
                    for call in group:
                        tasks.create_task(self._carry_out(call))
            except BaseExceptionGroup as several:
                # The first error has cancelled the other calls. Raise it alone, as the turn does
                # not handle groups.
                raise several.exceptions[0] from None
            if self.ends_turn or self.stop:
                break

    def record_rest(self) -> None:
        for call in self._calls[self._recorded :]:
            self._record(call, self._done.get(call["id"], Done(NOT_RUN, kind=REJECTED)))

    def _groups(self) -> Iterator[list[Fields]]:
        """Yield groups of consecutive calls that may run in parallel; other calls are alone."""
        group: list[Fields] = []
        for call in self._calls:
            tool = self._parts.tools.get(self._named(call)["name"])
            if tool is not None and tool.is_parallel:
                group.append(call)
                continue
            yield from (each for each in (group, [call]) if each)
            group = []
        if group:
            yield group

    async def _carry_out(self, call: Fields) -> None:
        done = await _run(self._turn, self._named(call))
        self._done[call["id"]] = done
        for ready in self._calls[self._recorded :]:
            if ready["id"] not in self._done:
                break
            self._record(ready, self._done[ready["id"]])

    def _named(self, call: Fields) -> Fields:
        """Return a call under the current name of its tool, which rules and hooks use."""
        return call | {"name": offered_name(call["name"], self._parts.tools)}

    def _record(self, call: Fields, done: Done) -> None:
        recorder = self._parts.recorder
        if done.deferral:
            self._recorded += 1
            self._turn.record(recorder.follow(done.deferral))
            return
        extra: Fields = {"toolDenialKind": done.kind} if done.kind else {}
        extra |= permission_decision(done.basis) if done.basis else {}
        # The client records this only for denials by a rule or hook, not by the user.
        extra |= permission_rejection(done.is_hooked) if done.kind == RULE else {}
        entry = recorder.result(call["id"], done.outcome, **extra)
        if done.kind == RULE and not done.is_hooked:
            self._turn.emit(CallDenied(call["id"], call["name"], str(done.outcome.content)))
        self._recorded += 1
        self._turn.record(entry)
        # A call that was interrupted was not denied.
        if done.kind and call["id"] in self._done:
            about = {"tool_name": call["name"], "tool_use_id": call["id"]}
            self._turn.spent.denials.append(about | {"tool_input": call["input"]})


async def _run(turn: RunningTurn, call: Fields) -> Done:
    """Run a call; errors become its outcome."""
    parts = turn.parts
    try:
        admitted = await admit(parts, call)
    except Refused as refused:
        if refused.hook_outcome:
            note_hooks(turn, refused.hook_outcome, call["id"])
        return _refusal(refused, f"PreToolUse:{call['name']}")
    except Deferred as deferred:
        mode = parts.rules.mode.value
        return Done(NOT_RUN, deferral=deferral_line(deferred.hook_outcome, call, mode))
    except Invalid as error:
        text = f"<tool_use_error>{error}</tool_use_error>"
        return Done(ToolOutcome(text, str(error), is_error=True))
    except Exception as error:  # a call that cannot be judged does not run, and the chat continues
        return Done(_failed(f"Permission could not be decided: {type(error).__name__}: {error}"))
    turn.emit(CallStarted(call["id"], call["name"], admitted.input))
    started = monotonic()
    news = _News(turn, call)
    try:
        outcome = await _execute(turn, call, admitted, news)
    except Refused as refused:
        return _refusal(refused, f"PreToolUse:{call['name']}")
    except ToolError as error:
        outcome = _failed(str(error))
    except Exception as error:  # whatever a tool raises is a result for the model
        outcome = _failed(f"{type(error).__name__}: {error}")
    how = "failed" if outcome.is_error else "done"
    LOG.debug("%s: %s, %.0f ms", call["name"], how, 1e3 * (monotonic() - started))
    link_pull_request(parts.recorder, call["name"], admitted.input, outcome)
    # The time of a sub-agent's calls is already part of the call that started it.
    seconds = 0.0 if parts.agent_type else monotonic() - started
    parts.recorder.session.totals.add_call(seconds, outcome.data)
    # Before the hooks of the call, so that their payload names the new directory.
    await after_move(turn, call["id"])
    return await _after(turn, call, admitted, outcome, monotonic() - started)


async def _execute(
    turn: RunningTurn, call: Fields, admitted: Admitted, news: "_News"
) -> ToolOutcome:
    """Run a call; if its read-only sandbox was too narrow, ask, and run it again."""
    parts, run = turn.parts, admitted.tool.run
    outcome = await run(admitted.value, parts.workspace, news.printed, admitted.grant)
    if not outcome.wants or parts.ask is None or parts.workspace.tier is not Tier.READ:
        return outcome
    grant = await admit_again(parts, call, admitted, outcome.wants)
    return await run(admitted.value, parts.workspace, news.printed, grant)


def _refusal(refused: Refused, name: str) -> Done:
    if refused.kind != REJECTED:
        hooked = refused.hook_outcome
        return Done(
            _failed(refused.text),
            context=[reminder([text], name) for text in hooked.context] if hooked else [],
            kind=refused.kind,
            ends_turn=refused.ends_turn,
            stop=(name, hooked) if hooked and hooked.stop else None,
            is_hooked=hooked is not None,
        )
    text = FEEDBACK.format(text=refused.text) if refused.text else REJECTED_TEXT
    outcome = ToolOutcome(text, REJECTED_DATA, is_error=True)
    return Done(outcome, kind=REJECTED, ends_turn=refused.ends_turn)


async def _after(
    turn: RunningTurn, call: Fields, admitted: Admitted, outcome: ToolOutcome, seconds: float
) -> Done:
    """Run the hooks that follow a call and apply their decisions to its outcome."""
    parts = turn.parts
    given = plain_input(admitted.input, parts)
    event, hook_outcome = await after_call(parts, call, given, outcome, seconds)
    name = f"{event}:{call['name']}"
    for each in (admitted.hook_outcome, hook_outcome):
        note_hooks(turn, each, call["id"])
    if hook_outcome.updated_output is not UNSET:
        outcome = ToolOutcome(text_of(hook_outcome.updated_output), hook_outcome.updated_output)
    texts = [
        *admitted.hook_outcome.context,
        *hook_outcome.context,
        *([hook_outcome.reason] if hook_outcome.block else []),
    ]
    context = [reminder([text], name) for text in texts]
    stop = (name, hook_outcome) if hook_outcome.stop else None
    basis = admitted.grant.basis
    return Done(outcome, context + await _recalled(turn, admitted), stop=stop, basis=basis)


async def _recalled(turn: RunningTurn, admitted: Admitted) -> list[str]:
    """Return memory that applies to the file a call reads or changes."""
    parts = turn.parts
    touched = admitted.tool.touches(admitted.value, parts.workspace)
    paths = [each.path for each in touched if isinstance(each, Reads | Writes)]
    # Calls of a group run in parallel, and the user can be asked one question at a time.
    ask = partial(_ask_alone, parts, parts.ask) if parts.ask else None
    texts = [text for path in paths for text in await parts.recall(path, ask, turn.emit)]
    return [f"<system-reminder>\n{text}\n</system-reminder>" for text in texts]


async def _ask_alone(parts: Parts, ask: Ask, question: Question) -> PermissionReply:
    async with parts.asking:
        return await ask(question)


def _failed(text: str) -> ToolOutcome:
    return ToolOutcome(text, f"Error: {text}", is_error=True)


class _News:
    """Emits the output of a running call at once, and records it at growing intervals."""

    def __init__(self, turn: RunningTurn, call: Fields) -> None:
        self._turn = turn
        self._call = call
        self._started = monotonic()
        self._next = FIRST_NEWS
        self._count = 0
        self._lines = 0
        self._tail = ""

    def printed(self, text: str) -> None:
        self._turn.emit(Printed(self._call["id"], text))
        self._tail = (self._tail + text)[-NEWS_LENGTH:]
        self._lines += text.count("\n")
        elapsed = monotonic() - self._started
        if self._call["name"] == "Bash" and elapsed >= self._next:
            # Doubling the interval, an hour-long build records a dozen lines instead of thousands.
            self._next = elapsed * 2
            data: Fields = {"type": "bash_progress", "output": self._tail}
            data |= {"fullOutput": self._tail, "elapsedTimeSeconds": round(elapsed)}
            data |= {"totalLines": self._lines}
            name = f"bash-progress-{self._count}"
            self._turn.parts.recorder.progress(data, name, self._call["id"])
            self._count += 1
