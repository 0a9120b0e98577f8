"""The redrawn region: running calls with their output."""

from collections import deque
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from turnlog.agent.loop.events import (
    CallStarted,
    Event,
    Inside,
    Printed,
    Recorded,
    Retrying,
    Streamed,
    TurnEnded,
)
from turnlog.agent.terminal.styled_text import Style, cut, one_line, printable
from turnlog.conversation.call_titles import call_title
from turnlog.format.json_values import Fields, is_array
from turnlog.text import as_printed, duration

TAIL = 3
"""Lines shown of a running call's output."""
SLOW = 2.0
"""Seconds after which a duration is shown."""
LASTING = ("Bash", "Agent", "Task")
"""Tools whose calls can be moved to the background."""
DOING = {"text": "Answering", "thinking": "Thinking", "tool_use": "Preparing a call"}
WAITING = "Waiting"


@dataclass
class RunningCall:
    """A running call."""

    name: str
    title: str
    started: float = field(default_factory=monotonic)
    tail: deque[str] = field(default_factory=lambda: deque([""], maxlen=TAIL + 1))
    is_cut: bool = False
    """True if there is more output than shown."""
    calls: int = 0
    """Calls of the sub-agent that it started."""
    is_shown: bool = False
    """True if the call is already in the scrollback."""

    @property
    def seconds(self) -> float:
        return monotonic() - self.started

    def printed(self, text: str) -> None:
        """Add output."""
        # Output arrives in arbitrary pieces: the first one continues the last line.
        first, *rest = printable(as_printed(text)).split("\n")
        self.tail[-1] += first
        self.is_cut = self.is_cut or len(self.tail) + len(rest) > TAIL + 1
        self.tail.extend(rest)


class Live:
    """The running calls of a turn, and a label for its activity; updated from events."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.jobs: dict[str, RunningCall] = {}
        self.label = WAITING

    def take(self, event: Event) -> None:
        """Update from an event."""
        match event:
            case CallStarted():
                title = call_title(event.tool, event.input).replace(f"{self.root}/", "")
                self.jobs[event.call_id] = RunningCall(event.tool, one_line(title))
                self.label = "Working"
            case Printed() if event.call_id in self.jobs:
                self.jobs[event.call_id].printed(event.text)
            case Retrying():
                self.label = f"Waiting {event.wait:.0f}s to try again"
            case Streamed():
                self._stream(event.event)
            case Inside() if event.call_id in self.jobs:
                self._inside(self.jobs[event.call_id], event.event)
            case TurnEnded():
                self.jobs = {}
                self.label = WAITING
            case _:
                pass

    def last_lines(self, call_id: str) -> list[str]:
        """Return the last output lines of a running call."""
        job = self.jobs.get(call_id)
        lines = [line for line in job.tail if line.strip()] if job else []
        return ["…", *lines] if job and job.is_cut else lines

    def ended(self, call_id: str) -> float | None:
        """Remove an ended call; return its duration if it is worth showing."""
        job = self.jobs.pop(call_id, None)
        if not self.jobs:
            self.label = WAITING
        return job.seconds if job and job.seconds >= SLOW else None

    @property
    def is_lasting(self) -> bool:
        """Return whether a slow call could continue in the background."""
        return any(job.name in LASTING and job.seconds >= SLOW for job in self.jobs.values())

    def rows(self, style: Style, room: int) -> list[str]:
        """Return the rows of running calls."""
        return [row for job in self.jobs.values() for row in _job_rows(job, style, room)]

    def _stream(self, event: Fields) -> None:
        match event.get("type"):
            case "message_start":
                self.label = WAITING
            case "content_block_start":
                self.label = DOING.get(str(event["content_block"].get("type")), "Working")
            case _:
                pass

    def _inside(self, job: RunningCall, event: Any) -> None:
        """Show the calls of a sub-agent as output of the call that runs it."""
        if not isinstance(event, Recorded) or event.entry["type"] != "assistant":
            return
        content = event.entry["message"]["content"]
        for block in content if is_array(content) else []:
            if block.get("type") == "tool_use":
                job.calls += 1
                title = call_title(block["name"], block.get("input")).replace(f"{self.root}/", "")
                job.printed(f"\n{block['name']} {one_line(title)}")


def _job_rows(job: RunningCall, style: Style, room: int) -> list[str]:
    facts = [
        f"{job.calls} calls" if job.calls else "",
        duration(job.seconds) if job.seconds >= SLOW else "",
    ]
    info = "  ".join(filter(None, facts))
    title = cut(job.title, max(8, room - len(job.name) - len(info) - 6))
    head = (
        f"{style('○', 'ok')} {style(job.name, 'tool')} {style(title, 'text')}  {style(info, 'dim')}"
    )
    lines = [line for line in job.tail if line.strip()][-TAIL:]
    heads = [] if job.is_shown else [head.rstrip()]
    return [*heads, *(style(cut(f"    {line}", room), "output") for line in lines)]
