"""Forms for elicitation requests of MCP servers: one question per value, then a confirmation.

Everything in a request is untrusted text: it is shown, but never counts as the user's answer.
"""

import re
from collections.abc import Callable
from typing import Any

from turnlog.agent.mcp.elicitation import URL, ElicitAnswer, Elicitation
from turnlog.agent.terminal.menu import Choices, Item
from turnlog.agent.terminal.screen_protocol import ScreenInterface, ScrollbackItem
from turnlog.agent.terminal.styled_text import Style, one_line
from turnlog.format.json_values import Fields, is_array, is_object, objects_in
from turnlog.text import visible

MOST_FIELDS, MOST_OPTIONS = 20, 50
"""Maximum number of values in a form, and of options per value; larger forms are declined."""
LONGEST_URL = 2_000
LONGEST_MESSAGE = 4_000
LONGEST = 400
"""Maximum characters of a name, title or description, and of a value when it is shown again."""
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d{1,3})?")
TYPED, SKIPPED = "typed", "skipped"
DECLINE = "decline"
FOOT = "enter to choose · esc to cancel"
REFUSE = Item("Decline", DECLINE)


class ValueMenu(Choices):
    """Waits for a value that is typed on the first item."""

    typed: str

    def __init__(self, head: list[str], is_required: bool, usual: str = "") -> None:
        skip = [] if is_required else [Item("Leave it out", SKIPPED)]
        super().__init__(head, [Item("Answer", TYPED), *skip, REFUSE], FOOT)
        self.typed = usual

    def press(self, key: str, text: str = "") -> None:
        if key == "text" and not self.index:
            self.typed += text
        elif key == "text":
            self.index, self.typed = 0, self.typed + text
        else:
            super().press(key, text)

    def row(self, number: int, item: Item, style: Style, columns: int) -> str:
        row = super().row(number, item, style, columns)
        return row if number else f"{row}: {style(one_line(self.typed), 'text')}▏"


async def ask_for_input(screen: ScreenInterface, request: Elicitation) -> ElicitAnswer:
    """Ask the user for the input that a server requests."""
    if not is_presentable(request):
        return ElicitAnswer("decline")
    title = f"{screen.style('●', 'ok')} MCP server {_shown(request.server)} asks"
    # Show the message in full: users must see what they agree to.
    about = [ScrollbackItem([title, f"  {one_line(visible(request.message))}"])]
    if request.mode == URL:
        return await _ask_to_visit(screen, request, about)
    fields = request.schema.get("properties")
    named = fields if is_object(fields) else {}
    required = request.schema.get("required")
    needed = set(map(str, required)) if is_array(required) else set[str]()
    content: Fields = {}
    for name, field in named.items():
        value = await _ask_value(screen, name, field, name in needed, about)
        if value is None or value is DECLINE:
            return ElicitAnswer("cancel" if value is None else "decline")
        if value is not SKIPPED:
            content[name] = value
        given = "left out" if value is SKIPPED else _shown(str(value))
        about = [ScrollbackItem([f"  {_shown(name)}: {given}"])]
    return await _confirm(screen, request.server, content, about)


def is_presentable(request: Elicitation) -> bool:
    """Return whether a request can be shown completely; only then can it be accepted."""
    if len(request.message) > LONGEST_MESSAGE:
        return False
    if request.mode == URL:
        is_web = request.url.startswith(("https://", "http://"))
        return is_web and len(request.url) <= LONGEST_URL
    fields = request.schema.get("properties")
    named: Fields = fields if is_object(fields) else {}
    return len(named) <= MOST_FIELDS and all(_is_short(*field) for field in named.items())


def _is_short(name: str, field: Any) -> bool:
    """Return whether the texts and options of a field are short enough to be shown in full."""
    about: Fields = field if is_object(field) else {}
    texts = [name, str(about.get("title") or ""), str(about.get("description") or "")]
    options = _options(about)
    texts += [each.label for each in options]
    return len(options) <= MOST_OPTIONS and all(len(visible(text)) <= LONGEST for text in texts)


async def _ask_to_visit(
    screen: ScreenInterface, request: Elicitation, about: list[ScrollbackItem]
) -> ElicitAnswer:
    # Show the URL in full: its host may come late, after a long user name.
    about = [*about, ScrollbackItem([f"  {visible(request.url)}"])]
    items = [Item("I have opened this address", "accept"), REFUSE]
    action = await screen.ask(Choices(["Open this address in your browser?"], items, FOOT), about)
    return ElicitAnswer(action or "cancel")


async def _ask_value(
    screen: ScreenInterface, name: str, field: Any, is_required: bool, about: list[ScrollbackItem]
) -> Any:
    """Return the user's value, `DECLINE` or `SKIPPED`; None if the user cancelled."""
    about_field: Fields = field if is_object(field) else {}
    head = [_shown(str(about_field.get("title") or name))]
    head += [_shown(text)] if (text := str(about_field.get("description") or "")) else []
    if options := _options(about_field):
        skip = [] if is_required else [Item("Leave it out", SKIPPED)]
        menu = Choices(head, [*options, *skip, REFUSE], FOOT)
        return await screen.ask(menu, about)
    usual = about_field.get("default")
    while True:
        menu = ValueMenu(head, is_required, "" if usual is None else str(usual))
        chosen = await screen.ask(menu, about)
        if chosen is not TYPED:
            return chosen
        try:
            return read_value(about_field, menu.typed.strip())
        except ValueError as error:
            # Keep the typed text, so that the user can correct it.
            usual, about = menu.typed, [ScrollbackItem([f"  not accepted: {error}"])]


def _options(field: Fields) -> list[Item]:
    """Return the values to choose from, if a field has a list of them."""
    if field.get("type") == "boolean":
        return [Item("Yes", value=True), Item("No", value=False)]
    values, titles = field.get("enum"), field.get("enumNames")
    # Two spellings of the same thing: `oneOf` with titles, or `enum` with the older `enumNames`.
    listed = field.get("oneOf")
    if is_array(listed):
        pairs = [(each.get("const"), each.get("title")) for each in objects_in(listed)]
    else:
        names = titles if is_array(titles) else []
        given = values if is_array(values) else []
        pairs = [(each, names[at] if at < len(names) else each) for at, each in enumerate(given)]
    return [Item(_shown(str(title)), str(value)) for value, title in pairs]


def read_value(field: Fields, text: str) -> Any:
    """Convert typed text to a field's type; raise `ValueError` with the reason if it is invalid.

    >>> read_value({"type": "integer", "minimum": 1}, "3"), read_value({"type": "string"}, "3")
    (3, '3')
    """
    kind = field.get("type")
    if kind in ("integer", "number"):
        return _number(field, text, int if kind == "integer" else float)
    if kind == "array":
        return _several(field, text)
    shortest, longest = field.get("minLength"), field.get("maxLength")
    if isinstance(shortest, int) and len(text) < shortest:
        raise ValueError(f"it needs at least {shortest} characters")
    if isinstance(longest, int) and len(text) > longest:
        raise ValueError(f"it may have at most {longest} characters")
    return text


def _number(field: Fields, text: str, read: Callable[[str], int | float]) -> int | float:
    # Python reads `1_000`, `infinity` and `٣` as numbers as well, and slows down on thousands of
    # digits.
    if not NUMBER.fullmatch(text) or len(text) > LONGEST:
        raise ValueError("it is not a number")
    try:
        value = read(text)
    except ValueError:
        raise ValueError("it is not a whole number") from None
    least, most = field.get("minimum"), field.get("maximum")
    if isinstance(least, int | float) and value < least:
        raise ValueError(f"it must be {least} or more")
    if isinstance(most, int | float) and value > most:
        raise ValueError(f"it must be {most} or less")
    return value


def _several(field: Fields, text: str) -> list[str]:
    """Split a text at commas; raise `ValueError` for a value that the field does not list."""
    items = field.get("items")
    options = _options(items) if is_object(items) else []
    known = {str(each.value) for each in options}
    known |= _any_of(items) if is_object(items) else set[str]()
    values = [each.strip() for each in text.split(",") if each.strip()]
    if known and (wrong := [each for each in values if each not in known]):
        raise ValueError(
            f"{_shown(wrong[0])} is not one of: {', '.join(map(_shown, sorted(known)))}"
        )
    return values


def _any_of(items: Fields) -> set[str]:
    return {str(each.get("const")) for each in objects_in(items.get("anyOf"))}


async def _confirm(
    screen: ScreenInterface, server: str, content: Fields, about: list[ScrollbackItem]
) -> ElicitAnswer:
    """Show the values, and ask for confirmation before they leave this machine."""
    rows = [f"  {_shown(name)}: {_shown(str(value))}" for name, value in content.items()]
    shown = [ScrollbackItem(rows)] if rows else about
    items = [Item("Yes", "accept"), REFUSE]
    head = [f"Send this to {_shown(server)}?" if rows else "Do you agree?"]
    action = await screen.ask(Choices(head, items, FOOT), shown)
    return ElicitAnswer(action or "cancel", content if action == "accept" else None)


def _shown(text: str) -> str:
    plain = one_line(visible(text))
    return plain if len(plain) <= LONGEST else f"{plain[:LONGEST]}…"
