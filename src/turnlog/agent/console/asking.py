"""The question whether a call may run, in the place of the prompt; the call itself is above it."""

from turnlog.agent.console.ink import Style, cells, cut, one_line
from turnlog.agent.console.menu import Choices, Item
from turnlog.agent.console.preview import EDITS
from turnlog.agent.permissions.asking import Question, Reply
from turnlog.agent.permissions.trust import IMPORTS, TRUST

ASKED = {
    "Bash": "Run this command?",
    "Edit": "Make this change?",
    "Write": "Write this file?",
    "NotebookEdit": "Make this change?",
    "Read": "Read this file?",
    "WebFetch": "Fetch this page?",
    "WebSearch": "Search the web for this?",
    "Agent": "Start this sub-agent?",
    TRUST: "Do you trust the files in this folder?",
    IMPORTS: "May this project's memory files import these?",
}
REFUSAL = "No"
FOOT = "enter to choose · esc to refuse and stop"


ACCEPT = Reply("allow", remember=("acceptEdits",))
"""The reply that changes the mode; it never goes further as it is."""


class Asking(Choices):
    """Waits for a reply; on the last item, what is typed is what the model is told."""

    def __init__(self, question: Question, offers_edits: bool = False) -> None:
        """`offers_edits`: whether all edits to come may be allowed along with this one."""
        rules = question.verdict.remember
        items = [Item("Yes", Reply("allow"))]
        if offers_edits and question.tool in EDITS:
            items.append(Item("Yes, and accept edits from now on", ACCEPT))
        elif rules:
            label = f"Yes, and don't ask again for {', '.join(rules)}"
            items.append(Item(label, Reply("allow", remember=rules)))
        items.append(Item(REFUSAL, Reply("deny")))
        super().__init__(head_of(question), items, FOOT)

    @property
    def _is_refusing(self) -> bool:
        return self.index == len(self.items) - 1

    def press(self, key: str, text: str = "") -> None:
        if key == "escape":
            self.choose(Reply("deny"))
        elif key == "enter" and self._is_refusing:
            self.choose(Reply("deny", feedback=self.typed.strip()))
        elif key == "text" and self._is_refusing:
            self.typed += text
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
    """What is asked, and why."""
    asked = ASKED.get(question.tool, f"Let {question.tool} run?")
    agent = f" (a sub-agent, {question.agent_id})" if question.agent_id else ""
    reason = one_line(question.verdict.reason)
    return [f"{asked}{agent}", *([reason] if reason else [])]


def _end_of(text: str, room: int) -> str:
    """The end of a text that is being typed."""
    while text and cells(text) > max(5, room):
        text = text[1:]
    return text
