"""What hooks have to say after calls: of each, of where it led, and of all calls of an answer."""

from uuid import uuid4

from turnlog.agent.hooks.command_hooks import left_variables
from turnlog.agent.hooks.hook_entries import progress_line, reminder, stopped_text
from turnlog.agent.hooks.outputs import HookOutcome
from turnlog.agent.loop.conversation import Emit, Parts
from turnlog.agent.loop.events import Notice, Recorded
from turnlog.agent.session.entry_builders import text_of
from turnlog.agent.workspace.tool import ToolOutcome
from turnlog.format.json_values import Fields

BATCH = "PostToolBatch"


async def after_call(
    parts: Parts, call: Fields, given: Fields, outcome: ToolOutcome, seconds: float
) -> tuple[str, HookOutcome]:
    """What hooks say of what came of a call, and the event that they say it at."""
    event = "PostToolUseFailure" if outcome.is_error else "PostToolUse"
    about: Fields = {"tool_name": call["name"], "tool_input": given}
    about |= {"tool_use_id": call["id"], "duration_ms": round(seconds * 1000)}
    about |= parts.about_agent
    if outcome.is_error:
        about |= {"error": text_of(outcome.content), "is_interrupt": False}
    else:
        about |= {"tool_response": outcome.data}
    return event, await parts.hooks.fire(event, call["name"], about)


async def after_move(parts: Parts, call_id: str, emit: Emit) -> None:
    """Let hooks know where a command has gone; they may leave variables for that place."""
    facts, place = parts.hooks.facts, parts.workspace.cwd
    if parts.agent_type or facts.cwd == place:
        return
    before, facts.cwd = facts.cwd, place
    moved = {"old_cwd": str(before), "new_cwd": str(place)}
    note_hooks(parts, await parts.hooks.fire("CwdChanged", None, moved), call_id, emit)
    await take_variables(parts)


async def take_variables(parts: Parts) -> None:
    """Let commands have the variables that hooks left for them."""
    if parts.hooks.facts.env_file:
        parts.workspace.environment |= await left_variables(parts.hooks.facts.env_file)


async def after_batch(
    parts: Parts, calls: list[tuple[Fields, ToolOutcome]], emit: Emit
) -> HookOutcome | None:
    """What hooks say of all calls of an answer; given if the turn is to end with them."""
    told = [
        {
            "tool_name": call["name"],
            "tool_input": call["input"],
            "tool_use_id": call["id"],
            "tool_response": outcome.content,
        }
        for call, outcome in calls
    ]
    said = await parts.hooks.fire(BATCH, None, {"tool_calls": told} | parts.about_agent)
    note_hooks(parts, said, str(uuid4()), emit)
    if said.context:
        emit(Recorded(parts.recorder.meta(reminder(said.context, BATCH))))
    if said.block and not said.stop:
        emit(Notice(said.reason, is_error=True))
    return said if said.block or said.stop else None


def note_hooks(parts: Parts, said: HookOutcome, call_id: str, emit: Emit) -> None:
    """Leave a line for each hook that ran, and tell the user what is for the user."""
    for run in said.runs:
        line = progress_line(run, call_id)
        parts.recorder.progress(line["data"], call_id, call_id)
    for text in [*said.errors, *filter(None, [said.system_message, said.stop_reason])]:
        emit(Notice(text, is_error=text in said.errors))


def note_stop(parts: Parts, said: HookOutcome, name: str, emit: Emit) -> None:
    """A hook ends the turn here: the model hears of it with the next prompt."""
    emit(Recorded(parts.recorder.meta(stopped_text(said, name))))
