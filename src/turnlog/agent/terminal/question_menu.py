"""Menus for questions of the model: options to choose from, and plans to approve."""

from collections.abc import Sequence

from turnlog.agent.permissions.policy import PermissionReply, Question
from turnlog.agent.terminal.call_preview import TAB, spelled_lines
from turnlog.agent.terminal.menu import Item, TypingChoices
from turnlog.agent.terminal.permission_prompt import FOOT, ReplyMenu
from turnlog.agent.terminal.screen_protocol import ScreenInterface, ScrollbackItem
from turnlog.agent.terminal.styled_text import Style
from turnlog.agent.tools.ask_user_question import ASK_USER_QUESTION, AskInput, UserQuestion
from turnlog.format.json_values import Fields
from turnlog.text import visible

QUESTION, PLAN = ASK_USER_QUESTION.name, "ExitPlanMode"
OTHER = "Something else"
SEVERAL = "space to mark, enter when done · esc to refuse and stop"
ACCEPTING = (
    {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
    {"type": "setMode", "mode": "default", "destination": "session"},
)
"""Permission updates for the two ways to approve a plan."""


class OptionMenu(TypingChoices):
    """A menu to choose one or more options; text typed on the last item is a custom answer."""

    def __init__(self, question: UserQuestion, place: str = "") -> None:
        items = [
            Item(visible(each.label), each.label, each.description) for each in question.options
        ]
        self._is_several = question.multi_select
        self._marked: set[int] = set()
        about = " · ".join(filter(None, (visible(question.header, keep=""), place)))
        head = [visible(question.question), *([about] if about else [])]
        super().__init__(head, [*items, Item(OTHER, "")], SEVERAL if self._is_several else FOOT)

    def press(self, key: str, text: str = "") -> None:
        is_number = key == "text" and text.isdecimal() and 0 < int(text) < len(self.items)
        if key == "enter":
            self._finish()
        elif key == "text" and text == " " and self._is_several and not self.is_typing:
            self._marked ^= {self.index}
        elif is_number and not self.is_typing:
            self.index = int(text) - 1
            if self._is_several:
                self._marked ^= {self.index}
            else:
                self._finish()
        else:
            super().press(key, text)

    def _finish(self) -> None:
        typed = [self.typed.strip()] if self.is_typing and self.typed.strip() else []
        # Enter on the empty line of "Something else" is a slip, not an answer.
        if self.is_typing and not typed:
            return
        chosen = sorted(self._marked) if self._marked or typed else [self.index]
        self.choose(", ".join([*(self.items[each].value for each in chosen), *typed]))

    def row(self, number: int, item: Item, style: Style, columns: int) -> str:
        row = super().row(number, item, style, columns)
        if not self._is_several or number == len(self.items) - 1:
            return row
        return row.replace(". ", ". ☒ " if number in self._marked else ". ☐ ", 1)


async def ask_questions(screen: ScreenInterface, question: Question) -> PermissionReply:
    """Ask the questions of a call one by one; return its approval with the answers."""
    given: AskInput = ASK_USER_QUESTION.read(question.input)
    answers: dict[str, str] = {}
    count = len(given.questions)
    for number, each in enumerate(given.questions, 1):
        place = f"question {number} of {count}" if count > 1 else ""
        answer = await screen.ask(OptionMenu(each, place), [])
        if answer is None:
            return PermissionReply("deny")
        answers[each.question] = answer
    updated: Fields = question.input | {"answers": answers}
    return PermissionReply("allow", updated_input=updated)


class PlanMenu(ReplyMenu):
    """Asks for approval of a plan; feedback says what to change."""

    def __init__(self, question: Question) -> None:
        accept, ask = (PermissionReply("allow", updates=(each,)) for each in ACCEPTING)
        items = [
            Item("Yes, and accept edits from now on", accept),
            Item("Yes, and ask before each change", ask),
            Item("No, keep planning", PermissionReply("deny")),
        ]
        super().__init__(["Start with this plan?"], items, FOOT)


def plan_items(question: Question, columns: int) -> Sequence[ScrollbackItem]:
    """Return the plan that a call shows: as Markdown, or its source if Markdown would hide a part.

    The model gets the plan as it is written: with the comments and HTML that a rendering omits.
    """
    from turnlog.agent.terminal.markdown_stream import shows_all

    plan = str(question.input.get("plan")).expandtabs(TAB)
    source = spelled_lines(plan)
    if source == plan.split("\n") and shows_all(plan, columns):
        return [ScrollbackItem([plan], is_markdown=True)]
    return [ScrollbackItem(source, indent=0)]
