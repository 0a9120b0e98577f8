"""Tables for a terminal, fitted to its width, or as CSV; and figures as people read them."""

import csv
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rich.cells import cell_len

from turnlog.cli.output import fit
from turnlog.cli.terminal import masked, masked_value
from turnlog.format.values import is_array
from turnlog.text import harmless

GAP = "  "
NARROWEST = 8
"""Cells below which a text is not cut."""


class Column(NamedTuple):
    head: str
    cells: list[str]
    is_number: bool = False
    """Numbers stand to the right, and are never cut."""
    is_path: bool = False
    """Of paths the end is kept."""


def draw_table(columns: Sequence[Column], room: int) -> list[str]:
    """The lines of a table, heads first, all of one width; the longest texts are cut if need be."""
    widths = _fit_widths(columns, room)
    rows = zip(*([column.head, *column.cells] for column in columns), strict=True)
    return [
        GAP.join(
            _padded(cell, width, column)
            for cell, width, column in zip(row, widths, columns, strict=True)
        )
        for row in rows
    ]


def _fit_widths(columns: Sequence[Column], room: int) -> list[int]:
    widths = [max(map(cell_len, (column.head, *column.cells))) for column in columns]
    texts = [rank for rank, column in enumerate(columns) if not column.is_number]
    while sum(widths) + len(GAP) * (len(widths) - 1) > room and texts:
        widest = max(texts, key=lambda rank: widths[rank])
        if widths[widest] <= NARROWEST:
            break
        widths[widest] -= 1
    return widths


def _padded(cell: str, width: int, column: Column) -> str:
    if column.is_number:
        return " " * (width - cell_len(cell)) + cell
    if column.is_path and cell_len(cell) > width:
        return fit(f"…{_end(cell, width - 1)}", width)
    return fit(cell, width)


def _end(text: str, cells: int) -> str:
    """The last of a text that takes so many cells, or one less."""
    start = len(text)
    while start and cell_len(text[start - 1 :]) <= cells:
        start -= 1
    return text[start:]


def echo_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as CSV, with a line of heads; lists are words with spaces between them."""
    writer = csv.writer(_Stdout(), lineterminator="\n")
    writer.writerow(map(masked, columns))
    for row in rows:
        shown = map(masked_value, row, columns)
        writer.writerow([" ".join(each) if is_array(each) else each for each in shown])


class _Stdout:
    """Standard output: a pipe gets data as it is, a terminal nothing that could control it."""

    def write(self, text: str) -> int:
        return sys.stdout.write(harmless(text) if sys.stdout.isatty() else text)


def short_count(number: float | None) -> str:
    """A count in at most five characters.

    >>> [short_count(n) for n in (0, 999, 1234, 45_678, 999_960, 1_234_567_890)]
    ['0', '999', '1.2k', '46k', '1.0M', '1.2B']
    """
    if number is None:
        return ""
    for unit in ("", "k", "M", "B"):
        if number < 999.5 or unit == "B":
            break
        number /= 1000
    return f"{number:.1f}{unit}" if unit and number < 9.95 else f"{number:.0f}{unit}"


def dollars(amount: float | None) -> str:
    """An amount of dollars, up to a thousand to the cent; a question mark where it is not known.

    >>> dollars(12.5), dollars(1234.5), dollars(0.001), dollars(None)
    ('$12.50', '$1,234', '<$0.01', '?')
    """
    if amount is None:
        return "?"
    if 0 < amount < 0.005:
        return "<$0.01"
    return f"${amount:.2f}" if amount < 999.995 else f"${amount:,.0f}"


def span(seconds: float | None) -> str:
    """How long something took.

    >>> span(0.25), span(42), span(125), span(7500), span(400_000)
    ('0.2s', '42s', '2m', '2h05', '111h')
    """
    if seconds is None:
        return ""
    if seconds < 9.95:
        return f"{seconds:.1f}s" if seconds else "0s"
    if seconds < 59.5:
        return f"{seconds:.0f}s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes}m"
    return f"{minutes // 60}h{minutes % 60:02d}" if minutes < 6000 else f"{minutes // 60}h"


def percent(share: float | None) -> str:
    """A share of one; less than half a percent is not nothing.

    >>> percent(0.256), percent(0.001), percent(0)
    ('26%', '<1%', '0%')
    """
    if share is None:
        return ""
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


def local_minute(moment: str | None) -> str:
    """A time in the user's own time zone."""
    return datetime.fromisoformat(moment).astimezone().strftime("%Y-%m-%d %H:%M") if moment else ""
