"""What hooks leave in a session, and what the user is told of them."""

from turnlog.agent.hooks.hook_entries import progress_line, stopped_text
from turnlog.agent.hooks.outputs import HookOutcome
from turnlog.agent.loop.conversation import Emit, Parts
from turnlog.agent.loop.events import Notice, Recorded


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
