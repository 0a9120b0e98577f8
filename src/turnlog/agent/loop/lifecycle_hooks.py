"""Run the hooks at the start and end of sessions and turns, and apply their decisions."""

from collections.abc import Callable
from uuid import uuid4

from turnlog.agent.hooks.hook_entries import (
    attachment_lines,
    feedback_line,
    reminder,
    stop_summary_line,
)
from turnlog.agent.hooks.outputs import HookOutcome
from turnlog.agent.loop.call_hooks import note_hooks, take_variables
from turnlog.agent.loop.conversation import Parts, RunningTurn
from turnlog.agent.session.recorder import name_session
from turnlog.agent.workspace.shell.background_tasks import BackgroundAgent
from turnlog.errors import ModelError
from turnlog.format.json_values import Fields

Prompt = str | list[Fields]
ContextForModel = Prompt | Fields
"""Context sent along with a prompt: the content of a meta entry, or an entry of its own."""
SHELL = "shell"
"""Source of a prompt that holds a shell command of the user and its output."""
NAMEABLE = ("startup", "resume", "fork")
"""Start sources for which a hook may set the session title."""
FAILURES = {
    400: "invalid_request",
    401: "authentication_failed",
    402: "billing_error",
    403: "authentication_failed",
    404: "model_not_found",
    413: "invalid_request",
    429: "rate_limit",
    529: "overloaded",
}
"""Error types in the hook payload, by HTTP status."""


async def set_up_session(
    parts: Parts, trigger: str, notify: Callable[[str], None] = lambda text: None
) -> None:
    """Run Setup hooks (init, maintenance); their output is discarded (2.1.325, observed)."""
    outcome = await parts.hooks.fire("Setup", trigger, {"trigger": trigger})
    await take_variables(parts)
    for text in outcome.errors:
        notify(text)


async def start_session(
    parts: Parts, source: str, notify: Callable[[str], None] = lambda text: None
) -> list[str]:
    """Run SessionStart hooks (startup, resume, clear, compact, fork).

    Return context for the model, and pass messages for the user to `notify`.
    """
    fields = {"source": source, "model": parts.choice.model}
    outcome = await parts.hooks.fire("SessionStart", source, fields)
    await take_variables(parts)
    # A new session has no file yet, so the title is written along with its first prompt.
    if source in NAMEABLE:
        parts.hooks.facts.title = outcome.title
    for text in [*outcome.errors, *filter(None, [outcome.system_message])]:
        notify(text)
    return _context_of(outcome, "SessionStart")


async def end_session(parts: Parts, reason: str) -> None:
    """Run SessionEnd hooks."""
    await parts.hooks.fire("SessionEnd", reason, {"reason": reason})
    await parts.hooks.close()


async def submit(turn: RunningTurn, text: str, source: str) -> tuple[str | None, list[str]]:
    """Run UserPromptSubmit hooks; return why they block the prompt, and context to send with it.

    Shell commands of the user run no hooks, as in the client (2.1.325, observed).
    """
    if source == SHELL:
        return None, []
    parts = turn.parts
    if parts.agent_type:
        outcome = await parts.hooks.fire("SubagentStart", parts.agent_type, parts.about_agent)
        return None, _context_of(outcome, "SubagentStart")
    _announce(parts)
    outcome = await parts.hooks.fire("UserPromptSubmit", None, {"prompt": text})
    if outcome.block or outcome.stop:
        # Hooks have seen this id for the blocked prompt, which is not recorded, so the next prompt
        # gets a new one.
        parts.recorder.next_prompt_id = None
        return outcome.reason or outcome.stop_reason or "a hook blocked the prompt", []
    note_hooks(turn, outcome, str(uuid4()))
    if title := outcome.title or parts.hooks.facts.title:
        name_session(parts.recorder, title)
        parts.hooks.facts.title = ""
    return None, _context_of(outcome, "UserPromptSubmit")


async def expand_command(parts: Parts, about: Fields) -> tuple[str | None, list[str]]:
    """Run UserPromptExpansion hooks; return why they block a command, and context for the model."""
    _announce(parts)
    outcome = await parts.hooks.fire("UserPromptExpansion", about["command_name"], about)
    if outcome.block or outcome.stop:
        parts.recorder.next_prompt_id = None
        return outcome.reason or outcome.stop_reason or "a hook blocked the command", []
    return None, _context_of(outcome, "UserPromptExpansion")


async def should_continue(turn: RunningTurn, text: str, is_again: bool) -> bool:
    """Run Stop hooks; return whether they keep the model going, and record their feedback."""
    parts = turn.parts
    event = "SubagentStop" if parts.agent_type else "Stop"
    fields: Fields = {"stop_hook_active": is_again, "last_assistant_message": text}
    fields |= {"background_tasks": _running(parts), "session_crons": []} | parts.about_agent
    if parts.agent_type:
        fields["agent_transcript_path"] = str(parts.recorder.path)
    outcome = await parts.hooks.fire(event, parts.agent_type, fields)
    name = str(uuid4())
    note_hooks(turn, outcome, name)
    summary = [stop_summary_line(outcome, name)] if outcome.runs else []
    for line in [*attachment_lines(outcome, name), *summary]:
        turn.record(parts.recorder.follow(line))
    if outcome.stop or not (outcome.block or outcome.context):
        return False
    # The reason to block comes last, so that the next request ends with it. Context without a block
    # is already in its attachment.
    if outcome.block:
        turn.record(parts.recorder.follow(feedback_line(outcome, event)))
    return True


async def report_failure(parts: Parts, error: ModelError, text: str) -> None:
    """Run StopFailure hooks after an API error; `text` is the message shown to the user."""
    if parts.agent_type:
        return
    kind = FAILURES.get(error.status or 0, "server_error" if (error.status or 0) >= 500 else "")
    fields = {"error": kind or "unknown", "error_details": error.message}
    fields |= {"last_assistant_message": text}
    await parts.hooks.fire("StopFailure", fields["error"], fields)


def _announce(parts: Parts) -> None:
    """Set the prompt id of the hook payload before the prompt is recorded."""
    recorder = parts.recorder
    recorder.next_prompt_id = recorder.next_prompt_id or str(uuid4())
    parts.hooks.facts.prompt_id = recorder.next_prompt_id


def _running(parts: Parts) -> list[Fields]:
    """Return the running background tasks for the hook payload."""
    return [
        {
            "id": job.name,
            "type": "agent" if isinstance(job, BackgroundAgent) else "shell",
            "status": "running",
            "description": job.title,
            "command": job.command,
        }
        for job in parts.workspace.shells.running
    ]


def _context_of(outcome: HookOutcome, event: str) -> list[str]:
    return [reminder(outcome.context, event)] if outcome.context else []
