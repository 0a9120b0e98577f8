"""Notify the model about background commands that ended and about asynchronous hooks.

A notification is a prompt that nobody typed: during a turn it is sent with the next request,
otherwise it starts a turn. Queue entries record it like typed prompts (2.1.325, observed).
"""

from collections.abc import Callable

from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.lifecycle_hooks import Prompt
from turnlog.agent.workspace.shell.background import BackgroundCommand
from turnlog.agent.workspace.shell.processes import exit_status

NOTICE = "system"
"""Source of a notification prompt."""
Arrival = tuple[Prompt, str]
"""A prompt that arrives while the model is working, and its source."""


def listen(parts: Parts, wake: Callable[[], None]) -> None:
    """Queue a notification for each background command that ends, and wake the waiting turn."""

    def enqueue(job: BackgroundCommand) -> None:
        parts.recorder.queue("enqueue", notice_of(job))
        wake()

    parts.workspace.shells.on_end = enqueue
    parts.hooks.wake = wake


def absorb(parts: Parts) -> list[Arrival]:
    """Return the notifications to send with the next request."""
    return [(_taken(parts, "remove"), NOTICE) for _ in list(parts.workspace.shells.ended)]


def next_notice(parts: Parts) -> str | None:
    """Return the next notification that starts a turn, if any."""
    if parts.workspace.shells.ended:
        return _taken(parts, "dequeue")
    news = parts.hooks.news
    return f"<system-reminder>\n{news.pop(0)}\n</system-reminder>" if news else None


def notice_of(job: BackgroundCommand) -> str:
    """Return the notification text for a command that ended, in the client's format."""
    rows = [
        f"<task-id>{job.name}</task-id>",
        *([f"<tool-use-id>{job.call_id}</tool-use-id>"] if job.call_id else []),
        f"<output-file>{job.running.printed}</output-file>",
        f"<status>{job.status}</status>",
        f"<summary>{summary_of(job)}</summary>",
    ]
    return "\n".join(["<task-notification>", *rows, "</task-notification>"])


def summary_of(job: BackgroundCommand) -> str:
    """Return one sentence on how a command ended."""
    code = exit_status(job.running.code)
    how = f"failed with exit code {code}" if code else "completed (exit code 0)"
    return f'Background command "{job.title}" {how}'


def _taken(parts: Parts, operation: str) -> str:
    text = notice_of(parts.workspace.shells.ended.pop(0))
    # Only those of the main conversation were enqueued, by `listen`.
    if not parts.agent_type:
        parts.recorder.queue(operation, text if operation == "remove" else None)
    return text
