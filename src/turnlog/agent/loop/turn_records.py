"""Record the start and end of a turn."""

from uuid import uuid4

from turnlog.agent.loop.conversation import Emit, Parts
from turnlog.agent.loop.events import Recorded
from turnlog.agent.loop.lifecycle_hooks import SHELL, Prompt
from turnlog.agent.loop.notifications import NOTICE
from turnlog.agent.loop.system_prompt import PLAN
from turnlog.agent.permissions import ApprovalMode
from turnlog.agent.session.entry_builders import text_of
from turnlog.conversation.prompts import label_of
from turnlog.errors import ModelError
from turnlog.format.json_values import Fields


def record_prompt(
    parts: Parts, prompt: Prompt, source: str, told: list[Prompt], emit: Emit
) -> None:
    """Record a prompt, followed by the context that goes along with it."""
    recorder = parts.recorder
    if source != NOTICE:
        parts.hooks.wakes = 0
    if source == NOTICE:
        emit(Recorded(recorder.notice(text_of(prompt), parts.rules.mode.value)))
    elif parts.agent_type:
        emit(Recorded(recorder.task(prompt)))
    else:
        for entry in _asked(parts, prompt, source):
            emit(Recorded(entry))
    if not parts.agent_type:
        parts.hooks.facts.prompt_id = recorder.prompt_id
    plan = [f"<system-reminder>\n{PLAN}\n</system-reminder>"]
    for content in [*told, *(plan if parts.rules.mode is ApprovalMode.PLAN else [])]:
        emit(Recorded(recorder.meta(content)))


def _asked(parts: Parts, prompt: Prompt, source: str) -> list[Fields]:
    """Record the user's prompt after a snapshot of the changed files; return its entries."""
    uuid = str(uuid4())
    if parts.backups:
        parts.recorder.aside(parts.backups.snapshot_line(uuid))
    if source == SHELL and not isinstance(prompt, str):
        return parts.recorder.shell([block["text"] for block in prompt], uuid)
    return [parts.recorder.prompt(prompt, parts.rules.mode.value, source, uuid)]


def record_failure(parts: Parts, error: ModelError, emit: Emit) -> str:
    """Record an API error; return the message for the user."""
    told = f"API Error: {error.line}"
    if parts.recorder.prompt_id:
        emit(Recorded(parts.recorder.failure(told, error.status, error.request_id)))
    return told


def record_end(parts: Parts, prompt: Prompt, source: str, seconds: float, emit: Emit) -> None:
    """Record the duration of a turn that had begun; sub-agents record none, like the client's."""
    if parts.recorder.prompt_id and not parts.agent_type:
        emit(Recorded(parts.recorder.turn_duration(seconds)))
        parts.recorder.tip("" if source == NOTICE else label_of(text_of(prompt)))


def not_written(parts: Parts, error: OSError, said: str) -> str:
    """Return the answer followed by the reason why the session could not be written."""
    place = error.filename or parts.recorder.path
    return f"{said}\n{place}: {error.strerror or error}".strip()
