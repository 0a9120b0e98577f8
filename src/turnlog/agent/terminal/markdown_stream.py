"""Render streamed Markdown: finished blocks once, only the unfinished tail again.

A block is finished when another one has begun after a blank line: nothing that follows can change
its layout.
"""

import re
from functools import lru_cache
from io import StringIO
from typing import TYPE_CHECKING

from turnlog.agent.terminal.styled_text import printable

if TYPE_CHECKING:
    from rich.markdown import Markdown
    from rich.theme import Theme

FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
PADDING = re.compile(r" *((?:\x1b\[[0-9;]*m)*) *$")
WIDEST = 100
"""Maximum line length: longer lines are hard to read on any terminal."""


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
    """A streamed text."""

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
        """Return the rest; `whole` is the recorded text, if any."""
        # The finished part is in the scrollback and cannot be taken back.
        rest = self.tail
        if whole is not None and whole.startswith(self.text[: self._shown]):
            rest = whole[self._shown :]
        self.text, self._shown = "", 0
        return rest


def end_of(tail: str, lines: int) -> str:
    """Return the last lines of a tail with their code fence; more would not be visible.

    >>> end_of("```py\\n1\\n2\\n3\\n", 3)
    '```py\\n2\\n3\\n'
    """
    every = tail.splitlines(keepends=True)
    if len(every) <= lines:
        return tail
    head = every[:1] if FENCE.match(every[0]) else []
    return "".join([*head, *every[len(head) - lines :]])


@lru_cache(maxsize=8)
def draw(text: str, columns: int, is_coloured: bool) -> str:
    """Render Markdown for a terminal."""
    from rich.console import Console

    written = StringIO()
    console = Console(
        file=written,
        width=max(10, min(columns, WIDEST)),
        # Drawn into a string, which rich would take for a file without colours.
        force_terminal=True,
        no_color=not is_coloured,
        color_system="standard",
        legacy_windows=False,
        highlight=False,
        emoji=False,
        theme=_theme(),
    )
    console.print(_document(printable(text)), end="")
    lines = [PADDING.sub(r"\1", line) for line in written.getvalue().split("\n")]
    return "\n".join(lines).strip("\n")


def _theme() -> "Theme":
    from rich.theme import Theme

    quiet = {"markdown.code": "cyan", "markdown.block_quote": "dim", "markdown.hr": "dim"}
    links = {"markdown.link": "cyan", "markdown.link_url": "dim", "markdown.item.number": "dim"}
    tables = {"markdown.table.header": "bold", "markdown.table.border": "dim"}
    return Theme(quiet | links | tables | {"markdown.item.bullet": "dim"})


@lru_cache(maxsize=1)
def _kind() -> "type[Markdown]":
    """Return a Markdown class with plain headings and code without boxes and padding."""
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import CodeBlock, Heading, Markdown, TableElement
    from rich.syntax import Syntax
    from rich.table import Table
    from rich.text import Text

    class PlainHeading(Heading):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            yield Text(self.text.plain, style="bold underline" if self.tag == "h1" else "bold")

    class PlainCode(CodeBlock):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            code = str(self.text).rstrip("\n")
            yield Syntax(
                code, self.lexer_name, theme="ansi_dark", background_color="default", word_wrap=True
            )

    class PlainTable(TableElement):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for part in super().__rich_console__(console, options):
                if isinstance(part, Table):
                    # The edges of a table would take two columns without adding anything.
                    part.show_edge = False
                yield part

    class Document(Markdown):
        elements = Markdown.elements | {
            "heading_open": PlainHeading,
            "fence": PlainCode,
            "code_block": PlainCode,
            "table_open": PlainTable,
        }

    return Document


def _document(text: str) -> "Markdown":
    # No hyperlinks: the text of a link could show one address and lead to another.
    return _kind()(text, code_theme="ansi_dark", hyperlinks=False)
