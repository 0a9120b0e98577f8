"""Markdown tables in frames, formatted like the client's (2.1.325, observed).

A table whose rows would be too tall is written as one paragraph per cell instead.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import TableElement, TableRowElement
from rich.table import Table
from rich.text import Text

Align = Literal["left", "center", "right"]
MOST_ROWS = 200
"""Maximum rows shown of a table."""
HIGHEST = 4
"""Maximum lines of a row."""
NARROWEST = 3
"""Minimum cells of a column."""
SHORT_WORD = 8
"""Words up to this length are not broken."""
RULE = 40
"""Width of the line between two rows that are written as paragraphs."""
FOLD = "fold"
"""rich's overflow method that breaks long words instead of cutting them off."""
HEADER, BORDER = "markdown.table.header", "markdown.table.border"


class FramedTable(TableElement):
    """A table with lines between all cells."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        header = self.header.row if self.header else None
        names = _texts(header, len(header.cells) if header else 0)
        if not header or not names:
            return
        every = self.body.rows if self.body else []
        rows = [_texts(row, len(names)) for row in every[:MOST_ROWS]]
        aligns: list[Align] = [_align(cell.justify) for cell in header.cells]
        widths = column_widths([names, *rows], options.max_width)
        if widths and _height([names, *rows], widths, console) <= HIGHEST:
            yield _framed(names, rows, aligns, widths)
        else:
            yield from _paragraphs(names, rows, options.max_width, console)
        if len(every) > MOST_ROWS:
            yield Text(f"… {len(every) - MOST_ROWS:,} more rows", style="dim")


def column_widths(rows: Sequence[Sequence[Text]], room: int) -> list[int] | None:
    """Return the width of each column; None if there is no room for a frame.

    If everything fits, each column gets its natural width. Otherwise each gets the width of its
    longest word and a share of the remaining room. If even the longest words do not fit, the room
    is shared in proportion to them.
    """
    columns = list(zip(*rows, strict=True))
    room -= 3 * len(columns) + 1
    if room < NARROWEST * len(columns):
        return None
    natural = [max(NARROWEST, *(text.cell_len for text in column)) for column in columns]
    least = [max(NARROWEST, *map(_longest_word, column)) for column in columns]
    if sum(natural) <= room:
        return natural
    if sum(least) <= room:
        wanted = [more - few for more, few in zip(natural, least, strict=True)]
        spare = room - sum(least)
        return [few + spare * more // sum(wanted) for few, more in zip(least, wanted, strict=True)]
    whole = room - NARROWEST * len(columns)
    widths = [NARROWEST + whole * few // sum(least) for few in least]
    # Broken into such short pieces, words would be hard to read.
    is_legible = all(map(lambda width, few: width >= min(few, SHORT_WORD), widths, least))
    return widths if is_legible else None


def _longest_word(text: Text) -> int:
    return max((Text(word).cell_len for word in text.plain.split()), default=0)


def _height(rows: Sequence[Sequence[Text]], widths: Sequence[int], console: Console) -> int:
    """Return the number of lines of the tallest row."""
    # Estimated first: breaking a cell of a million characters would take seconds.
    for row in rows:
        for text, width in zip(row, widths, strict=True):
            if text.cell_len > HIGHEST * width:
                return HIGHEST + 1
    cells = [zip(row, widths, strict=True) for row in rows]
    return max(
        len(text.wrap(console, width, overflow=FOLD)) for row in cells for text, width in row
    )


def _framed(
    names: Sequence[Text], rows: Sequence[Sequence[Text]], aligns: list[Align], widths: list[int]
) -> Table:
    table = Table(box=box.SQUARE, show_lines=True, style=BORDER)
    for name, align, width in zip(names, aligns, widths, strict=True):
        name.justify = "center"
        table.add_column(name, HEADER, justify=align, vertical="middle", overflow=FOLD, width=width)
    for row in rows:
        for text in row:
            text.justify = None  # use the column's alignment
        table.add_row(*row)
    return table


def _paragraphs(
    names: Sequence[Text], rows: Sequence[Sequence[Text]], room: int, console: Console
) -> Iterator[Text]:
    """Yield each cell as `name: value`, with a line between rows."""
    for number, row in enumerate(rows):
        if number:
            yield Text("─" * min(RULE, room), style=BORDER)
        for name, value in zip(names, row, strict=True):
            label = Text.assemble((name.plain, HEADER), ": ") if name.plain else Text()
            # The rest of a long cell is indented.
            first, *others = (label + value).wrap(console, max(1, room - 2))
            yield first
            yield from (Text("  ") + line for line in others)


def _texts(row: TableRowElement | None, count: int) -> list[Text]:
    """Return the cells of a row, filled up with empty ones."""
    cells = [cell.content.copy() for cell in row.cells] if row else []
    return [*cells, *(Text() for _ in range(count - len(cells)))][:count]


def _align(justify: str) -> Align:
    return "center" if justify == "center" else "right" if justify == "right" else "left"
