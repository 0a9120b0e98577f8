"""Print tables that fit the terminal, or CSV.

Every table of every command is drawn here. In narrow terminals, texts are truncated with an
ellipsis and expendable columns are omitted; numbers, dates and ids are never truncated.
"""

import csv
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from turnlog.cli.output import fit, fit_path, width
from turnlog.cli.terminal import Look, dim, echo, masked, masked_value, style
from turnlog.format.json_values import is_array
from turnlog.render.text_layout import cells_of
from turnlog.text import harmless

GAP = "  "
READABLE = 12
"""Minimum width of a text as long as other columns can be omitted instead."""
MEASURED = 1000
"""Number of rows that determine the column widths of a streamed table."""
NARROWEST = 4
"""Minimum width of a text, however narrow the terminal is."""


class Column(NamedTuple):
    head: str
    cells: Sequence[str] = ()
    is_number: bool = False
    """Numbers are aligned to the right and never cut."""
    is_path: bool = False
    """Paths keep their end when they are cut."""
    is_whole: bool = False
    """Dates and ids are never cut."""
    expendable: int = 0
    """Omitted in narrow terminals, the highest first; 0 is never omitted."""
    width: int = 0
    """Cells to reserve: for rows not known yet, or for a text worth more than other columns."""
    is_filling: bool = False
    """True if it takes all remaining width."""
    look: Look | Callable[[str], Look | None] | None = None
    """The look of its cells, or a function that returns the look of one."""


class Table:
    """Columns fitted to a width, and rows drawn with them."""

    def __init__(self, columns: Sequence[Column], room: int) -> None:
        self._columns = columns
        self._shown = _choose_columns(columns, room)
        self._widths = _fit_widths([columns[place] for place in self._shown], room)

    @property
    def left_out(self) -> int:
        """Number of omitted columns."""
        return len(self._columns) - len(self._shown)

    def width_of(self, head: str) -> int:
        """Return the width of a column; 0 if it is omitted."""
        heads = [self._columns[place].head for place in self._shown]
        return self._widths[heads.index(head)] if head in heads else 0

    def head(self) -> str:
        """Draw the header."""
        return dim(GAP.join(self.cells([each.head for each in self._columns])).rstrip())

    def row(self, cells: Sequence[str], looks: Mapping[str, Look | None] | None = None) -> str:
        """Draw a row; `looks` overrides the look of columns, given by their heads."""
        looks = looks or {}
        drawn: list[str] = []
        for place, padded in zip(self._shown, self.cells(cells), strict=True):
            column = self._columns[place]
            look = looks.get(column.head) or _look_of(column, cells[place])
            # A styled blank could not be stripped from the end of a line.
            bare = padded.rstrip()
            drawn.append((style(bare, look) if bare else "") + padded[len(bare) :])
        return GAP.join(drawn)

    def cells(self, cells: Sequence[str]) -> list[str]:
        """Truncate and pad the cells of a row, without those of omitted columns."""
        return [
            _padded(cells[place], width, self._columns[place])
            for place, width in zip(self._shown, self._widths, strict=True)
        ]

    def lines(self) -> Iterable[str]:
        """Yield the header, then the rows, without trailing blanks."""
        yield self.head()
        for row in zip(*(column.cells for column in self._columns), strict=True):
            yield self.row(row).rstrip()


def with_rows(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> list[Column]:
    """Return the columns, filled with the cells of rows."""
    transposed = list(zip(*rows, strict=True)) or [()] * len(columns)
    return [column._replace(cells=cells) for column, cells in zip(columns, transposed, strict=True)]


def echo_table(columns: Sequence[Column]) -> None:
    """Print a table that fits the terminal; nothing if it has no rows."""
    if columns and columns[0].cells:
        for line in Table(columns, width()).lines():
            echo(line)


def echo_rows(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print a table that fits the terminal; stream a very long one while its rows are computed."""
    rows = iter(rows)
    first = list(islice(rows, MEASURED))
    if first:
        # The widths of a long table are those of its first rows; later numbers may be wider.
        table = Table(with_rows(columns, first), width())
        for line in table.lines():
            echo(line)
        for row in rows:
            echo(table.row(row).rstrip())


def draw_table(columns: Sequence[Column], room: int) -> list[str]:
    """Return the lines of a table without colours, header first, all of the same width."""
    table = Table(columns, room)
    rows = zip(*([column.head, *column.cells] for column in columns), strict=True)
    return [GAP.join(table.cells(row)) for row in rows]


def _choose_columns(columns: Sequence[Column], room: int) -> list[int]:
    """Return the positions of the columns that fit once their texts are truncated."""
    least = [_least(column) for column in columns]
    shown = list(range(len(columns)))
    while _total([least[place] for place in shown]) > room:
        # Among equals, omit the rightmost, which is read last.
        place = max(shown, key=lambda place: (columns[place].expendable, place))
        if not columns[place].expendable:
            break
        shown.remove(place)
    return shown


def _least(column: Column) -> int:
    natural = _natural(column)
    if column.is_number or column.is_whole:
        return natural
    return max(column.width, min(natural, READABLE))


def _natural(column: Column) -> int:
    return max(column.width, cells_of(column.head), *map(cells_of, column.cells), 0)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _fit_widths(columns: Sequence[Column], room: int) -> list[int]:
    """Give each text its reserved width, then an equal share of the remaining width."""
    natural = [_natural(column) for column in columns]
    widths = [_least(column) for column in columns]
    texts = [
        place for place, column in enumerate(columns) if not (column.is_number or column.is_whole)
    ]
    if _total(widths) > room:
        for place in texts:
            widths[place] = min(natural[place], NARROWEST)
    left = max(0, room - _total(widths))
    # Columns that need least come first; the others share what those do not use.
    for count, place in enumerate(sorted(texts, key=lambda each: natural[each] - widths[each])):
        grown = min(natural[place] - widths[place], left // (len(texts) - count))
        widths[place] += grown
        left -= grown
    for place, column in enumerate(columns):
        if column.is_filling:
            widths[place] += max(0, room - _total(widths))
    return widths


def _padded(cell: str, width: int, column: Column) -> str:
    if column.is_number:
        return " " * (width - cells_of(cell)) + cell
    return fit(fit_path(cell, width) if column.is_path else cell, width)


def _look_of(column: Column, cell: str) -> Look | None:
    return column.look(cell) if callable(column.look) else column.look


def echo_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as CSV with a header; lists are joined with spaces."""
    writer = csv.writer(_Stdout(), lineterminator="\n")
    writer.writerow(map(masked, columns))
    for row in rows:
        shown = map(masked_value, row, columns)
        writer.writerow([" ".join(each) if is_array(each) else each for each in shown])


class _Stdout:
    """A file-like stdout that escapes control characters, but only on a terminal."""

    def write(self, text: str) -> int:
        return sys.stdout.write(harmless(text) if sys.stdout.isatty() else text)


def local_minute(moment: str | None) -> str:
    """Return a timestamp in local time, to the minute."""
    return datetime.fromisoformat(moment).astimezone().strftime("%Y-%m-%d %H:%M") if moment else ""
