"""Notify the model about background tasks that ended and about asynchronous hooks.

A notification is a prompt that nobody typed: during a turn it is sent with the next request,
otherwise it starts a turn. Queue entries record it like typed prompts (2.1.325, observed).
"""

from collections.abc import Callable

from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.lifecycle_hooks import Prompt
from turnlog.agent.workspace.shell.background_tasks import BackgroundAgent, BackgroundTask
from turnlog.conversation.quoted_text import escape_tags

NOTICE = "system"
"""Source of a notification prompt."""
Arrival = tuple[Prompt, str]
"""A prompt that arrives while the model is working, and its source."""


def listen(parts: Parts, wake: Callable[[], None]) -> None:
    """Queue a notification for each background task that ends, and wake the waiting turn."""

    def enqueue(job: BackgroundTask) -> None:
        parts.recorder.queue("enqueue", notice_of(job))
        wake()

    parts.workspace.shells.on_end = enqueue
    parts.hooks.wake = wake


def absorb(parts: Parts) -> list[Arrival]:
    """Return the notifications to send with the next request."""
    # A copy, because `_taken` removes an item from the list.
    return [(_taken(parts, "remove"), NOTICE) for _ in list(parts.workspace.shells.ended)]


def next_notice(parts: Parts) -> str | None:
    """Return the next notification that starts a turn, if any."""
    if parts.workspace.shells.ended:
        return _taken(parts, "dequeue")
    news = parts.hooks.news
    return f"<system-reminder>\n{news.pop(0)}\n</system-reminder>" if news else None


def notice_of(job: BackgroundTask) -> str:
    """Return the notification text for a task that ended, in the client's format.

    Tags in it are escaped: a report may quote text that a sub-agent has read, which must not close
    the notification and continue as if the user had written it.
    """
    rows = [
        f"<task-id>{job.name}</task-id>",
        *([f"<tool-use-id>{job.call_id}</tool-use-id>"] if job.call_id else []),
        f"<output-file>{job.output_file}</output-file>",
        f"<status>{job.status}</status>",
        f"<summary>{escape_tags(job.summary)}</summary>",
    ]
    if isinstance(job, BackgroundAgent):
        figures = "".join(f"<{name}>{count}</{name}>" for name, count in job.usage.items())
        rows += [f"<result>{escape_tags(job.report)}</result>", f"<usage>{figures}</usage>"]
    return "\n".join(["<task-notification>", *rows, "</task-notification>"])


def _taken(parts: Parts, operation: str) -> str:
    text = notice_of(parts.workspace.shells.ended.pop(0))
    # `listen` has enqueued only the notifications of the main conversation.
    if not parts.agent_type:
        parts.recorder.queue(operation, text if operation == "remove" else None)
    return text
