"""What the model is told of commands in the background that have ended by themselves, and of hooks
there that want it to know at once.

Each is a prompt that nobody typed: in a turn it goes along with the next request, otherwise it
starts a turn. The queue says so, as it does of prompts that are typed (2.1.325 observed).
"""

from collections.abc import Callable

from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.lifecycle_hooks import Prompt
from turnlog.agent.workspace.shell.background import BackgroundCommand
from turnlog.agent.workspace.shell.processes import told_code

NOTICE = "system"
"""The source of such a prompt."""
Arrival = tuple[Prompt, str]
"""A prompt that comes while the model is at work, and its source."""


def listen(parts: Parts, wake: Callable[[], None]) -> None:
    """From now on note each that ends, and wake whoever waits."""

    def heard(job: BackgroundCommand) -> None:
        parts.recorder.queue("enqueue", notice_of(job))
        wake()

    parts.workspace.shells.on_end = heard
    parts.hooks.wake = wake


def absorb(parts: Parts) -> list[Arrival]:
    """What the model is to be told before its next step."""
    return [(_taken(parts, "remove"), NOTICE) for _ in list(parts.workspace.shells.ended)]


def next_notice(parts: Parts) -> str | None:
    """What starts a turn, if anything does."""
    if parts.workspace.shells.ended:
        return _taken(parts, "dequeue")
    news = parts.hooks.news
    return f"<system-reminder>\n{news.pop(0)}\n</system-reminder>" if news else None


def notice_of(job: BackgroundCommand) -> str:
    """The end of a command, as clients tell it."""
    rows = [
        f"<task-id>{job.name}</task-id>",
        *([f"<tool-use-id>{job.call_id}</tool-use-id>"] if job.call_id else []),
        f"<output-file>{job.running.printed}</output-file>",
        f"<status>{job.status}</status>",
        f"<summary>{summary_of(job)}</summary>",
    ]
    return "\n".join(["<task-notification>", *rows, "</task-notification>"])


def summary_of(job: BackgroundCommand) -> str:
    """The end of a command in a sentence."""
    code = told_code(job.running.code)
    how = f"failed with exit code {code}" if code else "completed (exit code 0)"
    return f'Background command "{job.title}" {how}'


def _taken(parts: Parts, operation: str) -> str:
    text = notice_of(parts.workspace.shells.ended.pop(0))
    if not parts.agent_type:
        parts.recorder.queue(operation, text if operation == "remove" else None)
    return text
