"""Run the hooks that follow tool calls: after each one, after `cd`, and after a whole batch."""

from uuid import uuid4

from turnlog.agent.hooks.command_hooks import left_variables
from turnlog.agent.hooks.hook_entries import progress_line, reminder, stopped_text, task_feedback
from turnlog.agent.hooks.outputs import HookOutcome
from turnlog.agent.loop.conversation import Parts, RunningTurn
from turnlog.agent.loop.events import Notice
from turnlog.agent.session.entry_builders import text_of
from turnlog.agent.workspace.tool import ToolOutcome
from turnlog.format.json_values import Fields

BATCH = "PostToolBatch"


async def after_call(
    parts: Parts, call: Fields, given: Fields, outcome: ToolOutcome, seconds: float
) -> tuple[str, HookOutcome]:
    """Run PostToolUse or PostToolUseFailure hooks; return the event name and their outcome."""
    event = "PostToolUseFailure" if outcome.is_error else "PostToolUse"
    about: Fields = {"tool_name": call["name"], "tool_input": given}
    about |= {"tool_use_id": call["id"], "duration_ms": round(seconds * 1000)}
    about |= parts.about_agent
    if outcome.is_error:
        about |= {"error": text_of(outcome.content), "is_interrupt": False}
    else:
        about |= {"tool_response": outcome.data}
    return event, await parts.hooks.fire(event, call["name"], about)


async def after_move(turn: RunningTurn, call_id: str) -> None:
    """Run CwdChanged hooks if a command changed the directory; they may set variables."""
    parts = turn.parts
    facts, place = parts.hooks.facts, parts.workspace.cwd
    # `Hooks.within` shares the facts with sub-agents: the `cd` of a sub-agent must not move the
    # hooks of the main conversation.
    if parts.agent_type or facts.cwd == place:
        return
    before, facts.cwd = facts.cwd, place
    moved = {"old_cwd": str(before), "new_cwd": str(place)}
    note_hooks(turn, await parts.hooks.fire("CwdChanged", None, moved), call_id)
    await take_variables(parts)


async def review_task(parts: Parts, event: str, about: Fields) -> str:
    """Run TaskCreated or TaskCompleted hooks; return why they block the change, if they do."""
    outcome = await parts.hooks.fire(event, None, about | parts.about_agent)
    if parts.turn:
        note_hooks(parts.turn, outcome, str(uuid4()))
    return task_feedback(outcome, event) if outcome.block else ""


async def take_variables(parts: Parts) -> None:
    """Load the variables that hooks have set into the environment of later commands."""
    if parts.hooks.facts.env_file:
        parts.workspace.environment |= await left_variables(parts.hooks.facts.env_file)


async def after_batch(
    turn: RunningTurn, calls: list[tuple[Fields, ToolOutcome]]
) -> HookOutcome | None:
    """Run PostToolBatch hooks; return their outcome if they end the turn."""
    parts = turn.parts
    payload = [
        {
            "tool_name": call["name"],
            "tool_input": call["input"],
            "tool_use_id": call["id"],
            "tool_response": outcome.content,
        }
        for call, outcome in calls
    ]
    hook_outcome = await parts.hooks.fire(BATCH, None, {"tool_calls": payload} | parts.about_agent)
    note_hooks(turn, hook_outcome, str(uuid4()))
    if hook_outcome.context:
        turn.record(parts.recorder.meta(reminder(hook_outcome.context, BATCH)))
    # `note_hooks` has shown the reason of a stop, but not that of a block.
    if hook_outcome.block and not hook_outcome.stop:
        turn.emit(Notice(hook_outcome.reason, is_error=True))
    return hook_outcome if hook_outcome.block or hook_outcome.stop else None


def note_hooks(turn: RunningTurn, outcome: HookOutcome, call_id: str) -> None:
    """Record a line for each hook that ran, and emit messages meant for the user."""
    for run in outcome.runs:
        line = progress_line(run, call_id)
        turn.parts.recorder.progress(line["data"], call_id, call_id)
    for text in outcome.errors:
        turn.emit(Notice(text, is_error=True))
    if outcome.system_message:
        turn.emit(Notice(outcome.system_message, hook=outcome.runs[0].name))
    if outcome.stop_reason:
        turn.emit(Notice(outcome.stop_reason))


def note_stop(turn: RunningTurn, outcome: HookOutcome, name: str) -> None:
    """Record that a hook ended the turn; the model sees the reason with the next prompt."""
    turn.record(turn.parts.recorder.meta(stopped_text(outcome, name)))
