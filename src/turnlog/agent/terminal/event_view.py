"""Display the events of a turn: finished ones in the scrollback, running ones redrawn."""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import monotonic

from turnlog.agent.loop.events import (
    CallStarted,
    Event,
    Inside,
    Notice,
    Recorded,
    Retrying,
    Streamed,
    TurnEnded,
)
from turnlog.agent.loop.notifications import NOTICE
from turnlog.agent.permissions.gate import REJECTED
from turnlog.agent.session.entry_builders import text_of
from turnlog.agent.terminal.checklist import Checklist
from turnlog.agent.terminal.event_text import EntryRenderer
from turnlog.agent.terminal.folding import PAGE, FoldedText
from turnlog.agent.terminal.live_region import WAITING, Live
from turnlog.agent.terminal.markdown_stream import MarkdownStream
from turnlog.agent.terminal.screen_protocol import ScreenInterface, ScrollbackItem
from turnlog.agent.terminal.status_line import UsageMeter, spinner
from turnlog.agent.terminal.styled_text import one_line
from turnlog.agent.tools.task_tracking import is_tracking
from turnlog.conversation.prompts import INTERRUPTION
from turnlog.format.json_values import Fields, is_array, is_object
from turnlog.text import as_printed, duration, running_money, tokens_text

WORTH_TELLING = 10.0
"""Seconds after which a turn's duration and cost are shown."""
MOST_UNFOLDED = 20
"""Maximum number of folded texts that are shown at once."""
HINT = "esc to interrupt"
BACKGROUND = "ctrl-b to background"
IDLE = (WAITING, "Working")
"""Labels that the task in progress replaces, as it says more."""
UNSEEN = ("queued", NOTICE)
"""Prompt sources that were not shown when they were typed."""
LIMITS = {
    "refused": "the model declined to answer",
    "max_turns": "stopped: reached the maximum number of answers",
    "max_budget": "stopped: reached the maximum cost",
}


class TurnDisplay:
    """The display state of a turn."""

    def __init__(self, screen: ScreenInterface, root: Path) -> None:
        self._screen = screen
        self._folded: list[FoldedText] = []
        self._unread: list[str] = []
        """Unfolded rows that have not been printed yet."""
        self._renderer = EntryRenderer(screen.style, root, folded=self._folded)
        self._past_renderer = EntryRenderer(screen.style, root, is_past=True, folded=self._folded)
        self._live = Live(str(root))
        self._answer = MarkdownStream()
        self.checklist = Checklist()
        self.read_tasks: Callable[[], list[Fields]] = list
        """Reads the current tasks of the session."""
        self._has_failed = False
        self._block_started = 0.0
        self.is_running = False
        """True if a turn is running."""
        self.notes: deque[str] = deque(maxlen=100)
        """Recent messages except errors."""
        self.meter = UsageMeter()
        self.question = self._renderer.question

    @property
    def tail(self) -> str:
        """The unfinished end of the answer being received."""
        return self._answer.tail

    def rows(self, columns: int) -> list[str]:
        """Return the live region without the answer."""
        rows = self._live.rows(self._screen.style, columns)
        label = self._live.label
        label = self.checklist.active_form or label if label in IDLE else label
        hints = [HINT, BACKGROUND] if self._live.is_lasting else [HINT]
        line = spinner(label, self.meter, hints, columns - 1)
        return [*rows, *([""] if rows else []), self._screen.style(line, "ok")]

    def task_rows(self, columns: int) -> list[str]:
        """Return the rows of the task list, if it is shown."""
        return self.checklist.rows(self._screen.style, columns - 1, self.is_running)

    def working(self, text: str) -> None:
        """Show a label for the current activity."""
        self._live.label = one_line(text)
        self._screen.redraw()

    def note(self, text: str, is_error: bool = False) -> None:
        """Show a message."""
        if not is_error:
            self.notes.append(text)
        self._screen.show(self._renderer.note(text, is_error))

    def prompt(self, text: str) -> None:
        """Show a prompt."""
        is_shell = text.startswith("!")
        shown = text[1:].strip() if is_shell else text
        self._screen.show(self._renderer.prompt(shown, "!" if is_shell else "❯"))

    def printed(self, text: str) -> None:
        """Show the output of the user's shell command."""
        if text.strip():
            self._screen.show(self._renderer.printed(text))

    def stopped(self, call_id: str) -> None:
        """Show the last output of an interrupted call."""
        self.printed("\n".join(self._live.last_lines(call_id)))

    def unfold(self) -> None:
        """Show the texts that were folded since the last unfolding, or their next page."""
        if self._folded:
            self._unread = [
                row for each in self._folded[-MOST_UNFOLDED:] for row in self._all(each)
            ]
            self._folded.clear()
        if not self._unread:
            self.note("nothing is folded")
            return
        page, self._unread = self._unread[:PAGE], self._unread[PAGE:]
        left = f"    … {len(self._unread):,} more lines · ctrl-o shows more"
        rest = [self._screen.style(left, "dim")] if self._unread else []
        self._screen.show(ScrollbackItem([*page, *rest], indent=4))

    def _all(self, folded: FoldedText) -> list[str]:
        lines = as_printed(folded.text).strip("\n").split("\n")
        title = self._screen.style(one_line(folded.title), "bold")
        return [f"  {title}", *(f"    {self._screen.style(line, 'output')}" for line in lines)]

    def toggle_tasks(self) -> None:
        """Show or hide the task list."""
        if self.checklist.is_empty:
            self.note("the task list is empty")
        self.checklist.toggle(self.is_running)
        self._screen.redraw()

    def past(self, entries: list[Fields]) -> None:
        """Show earlier turns."""
        for entry in entries:
            self._screen.show(self._past_renderer.render(entry))

    def start(self) -> None:
        """Start displaying a turn."""
        self.meter.start()
        self.is_running = True
        self._has_failed = False

    def finish(self) -> None:
        """Finish displaying a turn."""
        self._say(self._answer.finish())
        self._live = Live(self._live.root)
        self.is_running = False
        self.meter.settle()

    def show(self, event: Event) -> None:
        """Display an event."""
        self.meter.take(event)
        self._live.take(event)
        match event:
            case CallStarted():
                self._renderer.begin(event.call_id)
                self._live.jobs[event.call_id].is_shown = self._renderer.was_shown(event.call_id)
            case Streamed():
                self._stream(event.event)
            case Recorded():
                self._recorded(event.entry)
            case Retrying():
                self._say(self._answer.finish())
                wait = f"in {duration(event.wait)}" if event.wait >= 1 else "at once"
                self.note(f"{event.reason}; trying again {wait} (try {event.attempt})")
            case Inside(event=Recorded()):
                self._recorded_inside(event.event.entry)
            case Notice():
                self.note(event.text, event.is_error)
            case TurnEnded():
                self._ended(event)
            case _:
                pass
        self._screen.redraw()

    def _stream(self, event: Fields) -> None:
        if event.get("type") == "content_block_start":
            self._block_started = monotonic()
        delta: Fields = event.get("delta") or {}
        if delta.get("type") == "text_delta":
            self._say(self._answer.grow(str(delta["text"])))

    def _say(self, text: str) -> None:
        if text.strip():
            self._screen.show(ScrollbackItem([text], is_markdown=True))

    def _recorded(self, entry: Fields) -> None:
        content = entry["message"]["content"] if "message" in entry else None
        if entry["type"] == "assistant" and not entry.get("isApiErrorMessage"):
            # Not shown, but the renderer remembers the calls in it until their results arrive.
            self._renderer.render(entry)
            self._fold_thinking(content)
            if text_of(content or ""):
                # The recorded text is authoritative: show the part of it that was not streamed.
                self._say(self._answer.finish(text_of(content or "")))
        elif entry["type"] == "user":
            self._recorded_user(entry, content)
        elif entry["type"] == "assistant":
            self._has_failed = True
            self._screen.show(self._renderer.render(entry))

    def _recorded_inside(self, entry: Fields) -> None:
        """Update the task list if a sub-agent has changed it."""
        data = entry.get("toolUseResult")
        if is_object(data) and ("task" in data or "taskId" in data):
            self.checklist.take(self.read_tasks())

    def _fold_thinking(self, content: object) -> None:
        for block in content if is_array(content) else []:
            if block.get("type") == "thinking":
                elapsed = monotonic() - self._block_started
                self._screen.show(self._renderer.thought(str(block.get("thinking")), elapsed))

    def _recorded_user(self, entry: Fields, content: object) -> None:
        first: Fields = content[0] if is_array(content) and content else {}
        if first.get("type") == "tool_result":
            call_id = first["tool_use_id"]
            name, last = self._renderer.name(call_id), self._live.last_lines(call_id)
            seconds = self._live.ended(call_id)
            # The list itself is on the screen, so the call that changed it need not be.
            if is_tracking(name) and not first.get("is_error"):
                self.checklist.take(self.read_tasks())
                return
            self._screen.show(self._renderer.render(entry, seconds))
            if entry.get("toolDenialKind") == REJECTED:  # the rendered line lacks the output
                self.printed("\n".join(last))
        elif entry.get("isMeta") or entry.get("promptSource") in UNSEEN or _is_stop(first):
            self._screen.show(self._renderer.render(entry))

    def _ended(self, ended: TurnEnded) -> None:
        if ended.reason in LIMITS:
            self.note(LIMITS[ended.reason])
        elif ended.reason == "blocked" and ended.text:
            self.note(f"not sent: {ended.text}", is_error=True)
        elif ended.reason == "failed" and not self._has_failed:
            self.note(ended.text, is_error=True)
        elif ended.seconds >= WORTH_TELLING:
            tokens = sum(count for count in ended.usage.values() if isinstance(count, int))
            cost = running_money(ended.cost)
            self.note(f"{duration(ended.seconds)} · {tokens_text(tokens)} tokens · {cost}")


def _is_stop(block: Fields) -> bool:
    return str(block.get("text", "")).startswith(INTERRUPTION)
