"""The permission prompt for a call; the call itself is shown above it.

The label of a reply shows in full every rule that the reply would save.
"""

from turnlog.agent.permissions.policy import PermissionReply, Question
from turnlog.agent.permissions.trust import IMPORTS, TRUST
from turnlog.agent.terminal.call_preview import EDITS, spelled, spelled_lines
from turnlog.agent.terminal.menu import Item, TypingChoices

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
FOOT = "enter to choose · esc to refuse and stop"
TOO_LONG = "rules for this are too long to show, so none are offered"
MOST_REASONS = 3
"""Maximum reasons in the question; more are listed above it."""
LONGEST = 400
"""Maximum length of reasons and rules in the question; see `long_reasons` and `TOO_LONG`."""


ACCEPT = PermissionReply("allow", remember=("acceptEdits",))
"""The reply that accepts further edits as well; the chat driver switches the mode."""


class ReplyMenu(TypingChoices):
    """A menu of replies; the last one refuses, and text typed there becomes its feedback."""

    def press(self, key: str, text: str = "") -> None:
        if key == "escape":
            self.choose(PermissionReply("deny"))
        elif key == "enter" and self.is_typing:
            self.choose(PermissionReply("deny", feedback=self.typed.strip()))
        else:
            super().press(key, text)


class Asking(ReplyMenu):
    """Asks whether a call may run."""

    hint = ", and say what to do instead: type"

    def __init__(self, question: Question, offers_edits: bool = False) -> None:
        """`offers_edits` adds the reply that allows all further edits."""
        rules, head = question.verdict.remember, head_of(question)
        label = f"Yes, and don't ask again for {', '.join(map(spelled, rules))}"
        items = [Item("Yes", PermissionReply("allow"))]
        if offers_edits and question.tool in EDITS:
            items.append(Item("Yes, and accept edits from now on", ACCEPT, "shift-tab"))
        # Offer permanent rules only if the user can read them in full.
        elif rules and len(label) <= LONGEST:
            items.append(Item(label, PermissionReply("allow", remember=rules)))
        elif rules:
            head.append(TOO_LONG)
        items.append(Item("No", PermissionReply("deny")))
        super().__init__(head, items, FOOT)

    def press(self, key: str, text: str = "") -> None:
        values = [item.value for item in self.items]
        if key == "mode" and ACCEPT in values and self.is_in_sight(values.index(ACCEPT)):
            self.choose(ACCEPT)
        else:
            super().press(key, text)


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
