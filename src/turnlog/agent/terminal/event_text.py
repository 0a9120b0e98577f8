"""Render recorded entries as lines for the scrollback."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from turnlog.agent.chat.mentions import describe_mention
from turnlog.agent.permissions.gate import REJECTED
from turnlog.agent.permissions.policy import Question
from turnlog.agent.permissions.verdict import QUESTIONS
from turnlog.agent.session.entry_builders import REJECTED_TEXT, text_of
from turnlog.agent.terminal.call_preview import EDITS, CallPlace, preview
from turnlog.agent.terminal.folding import FoldedText
from turnlog.agent.terminal.permission_prompt import long_reasons
from turnlog.agent.terminal.screen_protocol import ScrollbackItem
from turnlog.agent.terminal.styled_text import Style, one_line
from turnlog.conversation.call_titles import call_title
from turnlog.conversation.calls import Detail
from turnlog.conversation.nodes import SYNTHETIC
from turnlog.conversation.prompts import BASH_INPUT, INTERRUPTION, label_of
from turnlog.format.blocks import command_text
from turnlog.format.json_values import Fields, is_array, is_object
from turnlog.render.rows import CallRow
from turnlog.render.terminal_text import Terminal
from turnlog.render.tool_views import body_of, outcome_of
from turnlog.text import as_printed, duration, visible

FEW = 4
"""Lines of a call's output that are shown."""
SILENT = ("Read", "Glob", "Grep", "TodoWrite", "Agent", "Task", "Skill", "ExitPlanMode")
"""Tools whose output is not shown to the user."""
LONG_THOUGHT = 1.0
"""Minimum seconds of thinking that are worth a line."""
NOTICE = "<task-notification>"
PRINTED = ("<bash-stdout>", "<bash-stderr>")
SAID = "the user said:\n"


class ToolUse(Struct, frozen=True):
    """A call of the model."""

    name: str
    input: Fields


class EntryRenderer:
    """Renders entries of a session; remembers calls until their results arrive."""

    def __init__(
        self,
        style: Style,
        root: Path,
        is_past: bool = False,
        folded: list[FoldedText] | None = None,
    ) -> None:
        self._style = style
        self._is_past = is_past
        """True if entries come from a file, without events of running calls."""
        self._begun: set[str] = set()
        self._terminal = Terminal(style, full=False)
        self._root = root
        self._uses: dict[str, ToolUse] = {}
        self._asked: set[str] = set()
        """Calls shown to the user in a permission prompt."""
        self._folded = [] if folded is None else folded
        """Texts of which only a part was shown."""

    def render(self, entry: Fields, seconds: float | None = None) -> ScrollbackItem | None:
        """Render an entry; `seconds` is the duration to show with it."""
        match entry.get("type"):
            case "user":
                return self._user(entry, seconds)
            case "assistant":
                return self._assistant(entry)
            case "system" if entry.get("subtype") == "compact_boundary":
                return self.note("earlier messages were replaced by a summary")
            case "system" if entry.get("subtype") == "informational":
                return self.note(str(entry.get("content")))
            case _:
                return None

    def prompt(self, text: str, mark: str = "❯") -> ScrollbackItem:
        """Render a prompt."""
        first, *rest = text.strip("\n").split("\n")
        head = f"{self._style(mark, 'prompt')} {self._style(first, 'bold')}"
        return ScrollbackItem(
            [head, *(f"  {self._style(line, 'bold')}" for line in rest)], indent=2
        )

    def note(self, text: str, is_error: bool = False) -> ScrollbackItem:
        """Render a message for the user."""
        role = "error" if is_error else "dim"
        lines = [self._style(line, role) for line in text.strip().split("\n")]
        return ScrollbackItem(
            [f"{self._style('──', role)} {lines[0]}", *(f"   {each}" for each in lines[1:])], 3
        )

    def question(self, question: Question) -> list[ScrollbackItem]:
        """Render a call for its permission prompt, and the reasons if they are too long for it."""
        self._asked.add(question.call_id)
        place = CallPlace(self._root, self._root / question.place)
        shown = preview(question.tool, question.input, place)
        mark, name = self._style("●", "ok"), self._style(visible(question.tool, keep=""), "tool")
        parts = (f"{mark} {name}", self._style(shown.title, "text"))
        head = " ".join(filter(None, parts)) + f"  {self._style(shown.facts, 'dim')}"
        body = [f"    {self._style(line, role)}".rstrip() for role, line in shown.lines]
        reasons = [f"  • {self._style(each, 'dim')}" for each in long_reasons(question)]
        call = ScrollbackItem([head.rstrip(), *body])
        return [call, ScrollbackItem(reasons, is_attached=True)] if reasons else [call]

    def _did(self, name: str, detail: Detail, outcome: str, style: str, body: list[str]) -> CallRow:
        title = call_title(name, detail.input).replace(f"{self._root}/", "")
        return CallRow(
            name, title, outcome, is_error=False, duration_ms=None, style=style, body=body
        )

    def printed(self, text: str) -> ScrollbackItem:
        """Render the output of the user's shell command."""
        left = as_printed(text).strip("\n").split("\n")
        lines = [f"    {self._style(line, 'output')}" for line in left]
        return ScrollbackItem(lines, is_attached=True)

    def thought(self, text: str, seconds: float) -> ScrollbackItem | None:
        """Render thinking as one line; None if it was short, or the API withheld its text."""
        if text.strip():
            self._folded.append(FoldedText("thinking", text))
        if not text.strip() or seconds < LONG_THOUGHT:
            return None
        line = f"✻ thought for {duration(seconds)} · ctrl-o shows it"
        return ScrollbackItem([self._style(line, "dim")], indent=2, is_tight=True)

    def begin(self, call_id: str) -> None:
        """Remember a call that is about to run."""
        self._begun.add(call_id)

    def was_shown(self, call_id: str) -> bool:
        """Return whether a call was shown in a permission prompt."""
        return call_id in self._asked

    def name(self, call_id: str) -> str:
        """Return the tool name of a call."""
        return self._uses[call_id].name if call_id in self._uses else ""

    def _assistant(self, entry: Fields) -> ScrollbackItem | None:
        message: Fields = entry["message"]
        for block in message["content"] if is_array(message["content"]) else []:
            if block.get("type") == "tool_use":
                self._uses[block["id"]] = ToolUse(
                    str(block.get("name")), _object(block.get("input"))
                )
        text = text_of(message["content"]).strip()
        if entry.get("isApiErrorMessage"):
            return self.note(text, is_error=True)
        if not text or message.get("model") == SYNTHETIC:
            return None
        return ScrollbackItem([text], is_markdown=True)

    def _user(self, entry: Fields, seconds: float | None) -> ScrollbackItem | None:
        content = entry["message"]["content"]
        results = (
            [each for each in content if each.get("type") == "tool_result"]
            if is_array(content)
            else []
        )
        if results:
            return self._result(results[0], entry, seconds)
        if entry.get("isMeta"):
            return self._mentions(content)
        text = text_of(content)
        if entry.get("isCompactSummary") or not text.strip():
            return None
        return self._typed(text)

    def _mentions(self, content: object) -> ScrollbackItem | None:
        """Render the list of files that a prompt mentions."""
        texts = [str(_object(each).get("text")) for each in content] if is_array(content) else []
        found = [mention for text in texts if (mention := describe_mention(text))]
        names = [f"{done} {path.replace(f'{self._root}/', '')}" for done, path in found]
        lines = [f"  {self._style(name, 'dim')}" for name in names]
        return ScrollbackItem(lines, is_attached=True) if lines else None

    def _typed(self, text: str) -> ScrollbackItem | None:
        if text.startswith(INTERRUPTION):
            return self.note("interrupted")
        if text.startswith(PRINTED):
            return self.printed(_untagged(text))
        if text.startswith(NOTICE):
            return self.note(label_of(text))
        if shell := BASH_INPUT.search(text):
            return self.prompt(shell[1], "!")
        return self.prompt(command_text(text) or text)

    def _result(self, block: Fields, entry: Fields, seconds: float | None) -> ScrollbackItem | None:
        call_id = str(block.get("tool_use_id"))
        # A resumed session may start with the result of a call that is not shown any more.
        use = self._uses.pop(call_id, ToolUse("?", {}))
        text = as_printed(_untagged(text_of(block.get("content") or "")))
        is_asked = call_id in self._asked
        is_seen = is_asked or use.name in QUESTIONS
        stop = self._stop(call_id, text, is_seen) if entry.get("toolDenialKind") == REJECTED else ""
        if is_asked and stop:
            mark, shown = self._style("✗", "error"), self._style(stop, "dim")
            return ScrollbackItem([f"  {mark} {shown}"], is_attached=True)
        detail = Detail(
            use.input, text, entry.get("toolUseResult"), denial=entry.get("toolDenialKind")
        )
        is_error = bool(block.get("is_error"))
        did = self._outcome(use.name, detail, is_error, stop, seconds)
        # The permission prompt has already shown the first line of the call.
        lines = list(self._terminal.draw([did]))[int(is_asked) :]
        if is_asked and use.name in EDITS and not is_error:
            return None
        is_tight = len(lines) == 1
        return ScrollbackItem(lines, is_tight=is_tight, is_attached=is_asked) if lines else None

    def _stop(self, call_id: str, text: str, is_seen: bool) -> str:
        """Render a call that the user denied or interrupted."""
        feedback = text.partition(SAID)[2] if not text.startswith(REJECTED_TEXT) else ""
        if feedback:
            return f"refused: {one_line(feedback)}"
        if self._is_past:
            return "refused or interrupted"
        if call_id in self._begun:
            return "interrupted"
        return "refused" if is_seen else "not run"

    def _outcome(
        self, name: str, detail: Detail, is_error: bool, stop: str, seconds: float | None
    ) -> CallRow:
        style, body = body_of(name, detail, is_error)
        outcome = outcome_of(name, detail, is_error)
        data = _object(detail.structured)
        if stop:
            outcome, body = stop, []
        elif task := data.get("backgroundTaskId"):  # the result's text is for the model
            body = [] if self._is_past else [f"as {task}; /tasks shows it"]
        elif data.get("status") == "async_launched":
            body = []
        is_open = style == "text" and not is_error
        if is_open:
            shown = [] if name in SILENT else list(_few(body))
            if len(shown) < len(body):
                self._folded.append(
                    FoldedText(f"{name} {call_title(name, detail.input)}", "\n".join(body))
                )
            body = shown
        did = self._did(name, detail, outcome, style, body)
        milliseconds = round(seconds * 1000) if seconds else None
        return CallRow(did.name, did.title, outcome, is_error, milliseconds, style, is_open, body)


def _few(lines: list[str]) -> Iterator[str]:
    """Yield the first lines and how many are left; a single line left is shown instead."""
    shown = lines if len(lines) <= FEW + 1 else lines[:FEW]
    yield from shown
    if len(shown) < len(lines):
        yield f"… {len(lines) - len(shown)} more lines · ctrl-o shows all"


def _untagged(text: str) -> str:
    """Remove the tags that mark a text for the model."""
    for name in ("tool_use_error", "bash-stdout", "bash-stderr"):
        text = text.replace(f"<{name}>", "").replace(f"</{name}>", "")
    return text


def _object(value: Any) -> Fields:
    return value if is_object(value) else {}
