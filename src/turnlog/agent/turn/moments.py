"""What hooks have to say at the start and the end of sessions and turns, and what becomes of it."""

from uuid import uuid4

from turnlog.agent.events import Recorded
from turnlog.agent.hooks.answers import HookOutcome
from turnlog.agent.hooks.env import left_variables
from turnlog.agent.hooks.lines import (
    attachment_lines,
    feedback_line,
    reminder,
    stop_summary_line,
)
from turnlog.agent.tool import Fields
from turnlog.agent.turn.calls import note_hooks
from turnlog.agent.turn.parts import Emit, Parts

Prompt = str | list[Fields]


async def start_session(parts: Parts, source: str) -> list[str]:
    """A session starts (startup, resume, clear, compact); gives what the model is to be told."""
    fields = {"source": source, "model": parts.choice.model}
    said = await parts.hooks.fire("SessionStart", source, fields)
    if parts.hooks.facts.env_file:
        parts.workspace.environment |= await left_variables(parts.hooks.facts.env_file)
    return _told(said, "SessionStart")


async def end_session(parts: Parts, reason: str) -> None:
    """A session ends."""
    await parts.hooks.fire("SessionEnd", reason, {"reason": reason})
    await parts.hooks.close()


async def submit(parts: Parts, text: str, emit: Emit) -> tuple[str | None, list[str]]:
    """A prompt is about to be sent: why it may not be, and what the model is to be told with it."""
    if parts.agent_type:
        said = await parts.hooks.fire("SubagentStart", parts.agent_type, parts.about_agent)
        return None, _told(said, "SubagentStart")
    said = await parts.hooks.fire("UserPromptSubmit", None, {"prompt": text})
    if said.block or said.stop:
        return said.reason or said.stop_reason or "a hook did not let the prompt through", []
    note_hooks(parts, said, str(uuid4()), emit)
    return None, _told(said, "UserPromptSubmit")


async def is_kept_going(parts: Parts, text: str, is_again: bool, emit: Emit) -> bool:
    """The model would stop: tell whether hooks want it to go on, which the session then says."""
    event = "SubagentStop" if parts.agent_type else "Stop"
    fields: Fields = {"stop_hook_active": is_again, "last_assistant_message": text}
    fields |= {"background_tasks": [], "session_crons": []} | parts.about_agent
    if parts.agent_type:
        fields["agent_transcript_path"] = str(parts.recorder.path)
    said = await parts.hooks.fire(event, parts.agent_type, fields)
    name = str(uuid4())
    note_hooks(parts, said, name, emit)
    summary = [stop_summary_line(said, name)] if said.runs else []
    for line in [*attachment_lines(said, name), *summary]:
        emit(Recorded(parts.recorder.follow(line)))
    if said.stop or not (said.block or said.context):
        return False
    emit(Recorded(parts.recorder.follow(feedback_line(said, event))))
    return True


def _told(said: HookOutcome, event: str) -> list[str]:
    return [reminder(said.context, event)] if said.context else []
