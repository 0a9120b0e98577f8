"""The start and the end of a turn, written down."""

from uuid import uuid4

from turnlog.agent.events import Recorded
from turnlog.agent.session.lines import text_of
from turnlog.agent.session.names import branch_of
from turnlog.agent.turn.moments import Prompt
from turnlog.agent.turn.parts import Emit, Parts
from turnlog.errors import ModelError


def record_prompt(
    parts: Parts, prompt: Prompt, source: str, told: list[Prompt], emit: Emit
) -> None:
    """Write a prompt down, and with it what the model is told besides."""
    uuid = str(uuid4())
    parts.recorder.move(parts.workspace.cwd, branch_of(parts.workspace.cwd))
    if parts.agent_type:
        emit(Recorded(parts.recorder.task(prompt)))
    else:
        if parts.backups:
            parts.recorder.aside(parts.backups.snapshot_line(uuid))
        emit(Recorded(parts.recorder.prompt(prompt, parts.rules.mode.value, source, uuid)))
        parts.hooks.facts.prompt_id = parts.recorder.prompt_id
    for content in told:
        emit(Recorded(parts.recorder.meta(content)))


def record_failure(parts: Parts, error: ModelError, emit: Emit) -> str:
    """Write down that the API gave no answer; gives what the user is told."""
    told = f"API Error: {error.message}"
    if parts.recorder.prompt_id:
        emit(Recorded(parts.recorder.failure(told, error.status, error.request_id)))
    return told


def record_end(parts: Parts, prompt: Prompt, seconds: float, emit: Emit) -> None:
    """Write down that a turn is over, if it had begun; sub-agents do without (as the client's)."""
    if parts.recorder.prompt_id and not parts.agent_type:
        emit(Recorded(parts.recorder.turn_duration(seconds)))
        parts.recorder.tip(text_of(prompt))


def not_written(parts: Parts, error: OSError, said: str) -> str:
    """What the user is told where the session cannot be written, behind what was said."""
    place = error.filename or parts.recorder.path
    return f"{said}\n{place}: {error.strerror or error}".strip()
