"""Render streamed Markdown: draw finished blocks once, redraw only the unfinished tail.

A block is finished when another one has begun after a blank line: nothing that follows can change
its layout.
"""

import re
from collections import Counter
from functools import lru_cache
from io import StringIO
from typing import TYPE_CHECKING

from turnlog.agent.terminal.styled_text import printable
from turnlog.text import SGR

if TYPE_CHECKING:
    from rich.markdown import Markdown
    from rich.theme import Theme

FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
CYAN, BLUE = "cyan", "blue"
"""Colours of code and links on a dark and on a light background."""
WIDEST = 100
"""Maximum line length: longer lines are hard to read on any terminal."""
DELIMITERS = re.compile(r"[\s:|-]*-[\s:|-]*")
"""The line below the head of a table."""
PADDING = re.compile(r" *((?:\x1b\[[0-9;]*m)*) *$")


def split_finished(text: str) -> tuple[str, str]:
    """Split a growing text into its finished part and its tail.

    >>> split_finished("one\\n\\ntwo\\n\\n  more of two\\n\\nthr")
    ('one\\n\\ntwo\\n\\n  more of two\\n\\n', 'thr')
    >>> split_finished("```\\na\\n\\nb")
    ('', '```\\na\\n\\nb')
    """
    place = end = 0
    fence = ""
    is_blank = True
    for line in text.splitlines(keepends=True):
        found = FENCE.match(line)
        if fence:
            closes = found and found[1].startswith(fence) and not found[2].strip()
            fence = "" if closes else fence
        else:
            # An indented line after a blank one may still belong to the list item above.
            if is_blank and line[:1] not in " \t\r\n":
                end = place
            fence = found[1] if found else ""
        is_blank = not line.strip() and not fence
        place += len(line)
    return text[:end], text[end:]


class MarkdownStream:
    """A Markdown text that arrives in pieces."""

    def __init__(self) -> None:
        self.text = ""
        self._shown = 0
        """Number of characters returned as finished."""

    @property
    def tail(self) -> str:
        """The unfinished tail."""
        return self.text[self._shown :]

    def grow(self, piece: str) -> str:
        """Append a piece; return the text that it finishes."""
        is_new_line = "\n" in piece or self.text.endswith("\n")
        self.text += piece
        # A fast path, taken for nearly every token: a block can only end with a line.
        if not is_new_line:
            return ""
        finished, _ = split_finished(self.tail)
        self._shown += len(finished)
        return finished

    def finish(self, whole: str | None = None) -> str:
        """Return the remaining text and start over; `whole` is the recorded text, if any."""
        # The finished part is in the scrollback and cannot be taken back.
        rest = self.tail
        if whole is not None and whole.startswith(self.text[: self._shown]):
            rest = whole[self._shown :]
        self.text, self._shown = "", 0
        return rest


def end_of(tail: str, lines: int) -> str:
    """Return the last lines of a tail with their code fence or the head of their table.

    >>> end_of("```py\\n1\\n2\\n3\\n", 3)
    '```py\\n2\\n3\\n'
    >>> end_of("|a|\\n|-|\\n|1|\\n|2|\\n", 3)
    '|a|\\n|-|\\n|2|\\n'
    """
    every = tail.splitlines(keepends=True)
    if len(every) <= lines:
        return tail
    is_table = "|" in every[0] and DELIMITERS.fullmatch(every[1].strip()) is not None
    head = every[: 2 if is_table else 1] if is_table or FENCE.match(every[0]) else []
    return "".join([*head, *every[len(head) - lines :]])


@lru_cache(maxsize=8)
def draw(text: str, columns: int, is_coloured: bool, is_light: bool = False) -> str:
    """Render Markdown for a terminal; `is_light` if its background is light."""
    from rich.console import Console

    written = StringIO()
    console = Console(
        file=written,
        width=max(10, min(columns, WIDEST)),
        # The output goes into a string, which rich would take for a file without colours.
        force_terminal=True,
        no_color=not is_coloured,
        color_system="standard",
        legacy_windows=False,
        highlight=False,
        emoji=False,
        theme=_theme(BLUE if is_light else CYAN),
    )
    console.print(_document(printable(text), is_light), end="")
    lines = [PADDING.sub(r"\1", line) for line in written.getvalue().split("\n")]
    return "\n".join(lines).strip("\n")


def shows_all(text: str, columns: int) -> bool:
    """Return whether the rendering of a text shows every letter and digit of it.

    HTML, the addresses of images, titles of links, definitions and surplus cells of a table vanish;
    of a code fence, only the name of a known language may.

    >>> shows_all("1. *Read* it", 80), shows_all("Read it <!-- and delete it -->", 80)
    (True, False)
    """
    drawn = re.sub(SGR, "", draw(text, columns, is_coloured=False))
    fences = (token.info.strip() for token in _document(text, is_light=False).parsed if token.info)
    names = (letter for info in fences if _is_language(info) for letter in info)
    return _letters(drawn) + Counter(filter(str.isalnum, names)) == _letters(text)


def _letters(text: str) -> Counter[str]:
    return Counter(filter(str.isalnum, text))


def _is_language(name: str) -> bool:
    from pygments.lexers import find_lexer_class_by_name
    from pygments.util import ClassNotFound

    try:
        find_lexer_class_by_name(name)
    except ClassNotFound:
        return False
    return True


def _theme(colour: str) -> "Theme":
    from rich.theme import Theme

    quiet = {"markdown.code": colour, "markdown.block_quote": "dim", "markdown.hr": "dim"}
    links = {"markdown.link": colour, "markdown.link_url": "dim", "markdown.item.number": "dim"}
    tables = {"markdown.table.header": "bold", "markdown.table.border": "dim"}
    return Theme(quiet | links | tables | {"markdown.item.bullet": "dim"})


@lru_cache(maxsize=2)
def _kind(code_theme: str) -> "type[Markdown]":
    """Return a Markdown class with plain headings, framed tables and code without padding.

    List numbers keep their dot, so that copied text is still a list.
    """
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import CodeBlock, Heading, ListItem, Markdown
    from rich.segment import Segment
    from rich.syntax import Syntax
    from rich.text import Text

    from turnlog.agent.terminal.framed_tables import FramedTable

    class PlainHeading(Heading):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            yield Text(self.text.plain, style="bold underline" if self.tag == "h1" else "bold")

    class NumberedItem(ListItem):
        def render_number(
            self, console: Console, options: ConsoleOptions, number: int, last_number: int
        ) -> RenderResult:
            # As wide as rich draws it: a number, a dot and a space instead of two spaces.
            drawn = super().render_number(console, options, number, last_number)
            text = f"{number}.".rjust(len(str(last_number)) + 1)
            numeral = Segment(f"{text} ", console.get_style("markdown.item.number"))
            for place, segment in enumerate(drawn):
                yield segment if place else numeral

    class PlainCode(CodeBlock):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            code = str(self.text).rstrip("\n")
            yield Syntax(
                code, self.lexer_name, theme=code_theme, background_color="default", word_wrap=True
            )

    class Document(Markdown):
        elements = Markdown.elements | {
            "heading_open": PlainHeading,
            "fence": PlainCode,
            "code_block": PlainCode,
            "table_open": FramedTable,
            "list_item_open": NumberedItem,
        }

    return Document


def _document(text: str, is_light: bool) -> "Markdown":
    code_theme = "ansi_light" if is_light else "ansi_dark"
    # No hyperlinks: the text of a link could show one address and lead to another.
    return _kind(code_theme)(text, code_theme=code_theme, hyperlinks=False)
