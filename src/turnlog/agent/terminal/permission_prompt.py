"""The permission prompt for a call; the call itself is shown above it.

Whatever a reply would save as rules is part of the reply's label, in full.
"""

from turnlog.agent.permissions.policy import PermissionReply, Question
from turnlog.agent.permissions.trust import IMPORTS, TRUST
from turnlog.agent.terminal.call_preview import EDITS, spelled, spelled_lines
from turnlog.agent.terminal.menu import Choices, Item
from turnlog.agent.terminal.styled_text import Style, cells, cut, one_line

ASKED = {
    "Bash": "Run this command?",
    "Edit": "Make this change?",
    "Write": "Write this file?",
    "NotebookEdit": "Make this change?",
    "Read": "Read this file?",
    "WebFetch": "Fetch this page?",
    "WebSearch": "Search the web for this?",
    "Agent": "Start this sub-agent?",
    "EnterPlanMode": "Let the model plan first, without changing anything?",
    TRUST: "Do you trust the files in this folder?",
    IMPORTS: "May this project's memory files import these?",
}
REFUSAL = "No"
FOOT = "enter to choose · esc to refuse and stop"
TOO_LONG = "rules for this are too long to show, so none are offered"
MOST_REASONS = 3
"""Maximum reasons in the question; more are listed above it."""
LONGEST = 400
"""Characters of a line of the question: what takes more is listed above it, or not offered."""


ACCEPT = PermissionReply("allow", remember=("acceptEdits",))
"""The reply that changes the mode; the chat driver translates it."""


class Asking(Choices):
    """Waits for a reply; text typed on the last item is feedback for the model."""

    def __init__(self, question: Question, offers_edits: bool = False) -> None:
        """`offers_edits` adds the reply that allows all further edits."""
        rules, head = question.verdict.remember, head_of(question)
        label = f"Yes, and don't ask again for {', '.join(map(spelled, rules))}"
        items = [Item("Yes", PermissionReply("allow"))]
        if offers_edits and question.tool in EDITS:
            items.append(Item("Yes, and accept edits from now on", ACCEPT))
        # Only what can be read in full may be agreed to for all times.
        elif rules and len(label) <= LONGEST:
            items.append(Item(label, PermissionReply("allow", remember=rules)))
        elif rules:
            head.append(TOO_LONG)
        items.append(Item(REFUSAL, PermissionReply("deny")))
        super().__init__(head, items, FOOT)

    @property
    def _is_refusing(self) -> bool:
        return self.index == len(self.items) - 1

    def press(self, key: str, text: str = "") -> None:
        if key == "escape":
            self.choose(PermissionReply("deny"))
        elif key == "enter" and self._is_refusing:
            self.choose(PermissionReply("deny", feedback=self.typed.strip()))
        elif key == "text" and self._is_refusing:
            self.typed += text
        # The number of the last item selects it without choosing it: feedback may follow.
        elif key == "text" and text == str(len(self.items)):
            self.index = len(self.items) - 1
        else:
            super().press(key, text)

    def row(self, number: int, item: Item, style: Style, columns: int) -> str:
        row = super().row(number, item, style, columns)
        if item.label != REFUSAL or not self._is_refusing:
            return row
        room = columns - cells(row) - 10
        if not self.typed:
            return f"{row}{style(cut(', and say what to do instead: type', room), 'dim')}"
        return f"{row}: {style(_end_of(one_line(self.typed), room), 'text')}▏"


def head_of(question: Question) -> list[str]:
    """Return the question, who asks, and the reasons."""
    asked = ASKED.get(question.tool, f"Let {spelled(question.tool)} run?")
    agent = ", ".join(filter(None, (spelled(question.agent_type), question.agent_id)))
    reasons = _reasons(question)
    shown = ["; ".join(reasons)] if question.verdict.reasons else reasons
    if long_reasons(question):
        shown = [f"for {len(reasons)} reasons, listed above"]
    return [f"{asked} (sub-agent {agent})" if agent else asked, *shown]


def long_reasons(question: Question) -> list[str]:
    """Return the reasons if they take too much room for the question itself."""
    reasons = _reasons(question)
    return reasons if len(reasons) > MOST_REASONS or len("; ".join(reasons)) > LONGEST else []


def _reasons(question: Question) -> list[str]:
    verdict = question.verdict
    return [*map(spelled, verdict.reasons)] or [*filter(None, spelled_lines(verdict.reason))]


def _end_of(text: str, room: int) -> str:
    """Return the visible end of a text being typed."""
    while text and cells(text) > max(5, room):
        text = text[1:]
    return text
