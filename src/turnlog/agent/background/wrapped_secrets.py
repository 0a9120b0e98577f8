"""Mask secrets that a terminal has wrapped.

Elsewhere, secrets are found line by line. On a screen, a long key takes several rows, and all but
the first look like ordinary text.
"""

import re
from collections.abc import Sequence
from itertools import groupby

from turnlog.secrets import find_secrets, placeholder_for

MOST_ROWS = 50
"""Maximum rows of one secret."""
BAR = "│"
"""The line between two cells of a table."""
MARGIN = re.compile(r"[\s>▌▎⎿]*")
"""Characters that may precede each row of a quotation or an output."""


def mask_wrapped(text: str) -> str:
    r"""Mask secrets that continue in the next row of a screen.

    >>> mask_wrapped("see\n  ghp_0a1b2c3d4e5f6g7h8i9j\n  0k1l2m3n4o5p6q7r and more")
    'see\n  [github-token:ff74b5]\n   and more'
    """
    rows: list[str] = []
    for is_table, group in groupby(text.split("\n"), key=lambda row: BAR in row):
        together = list(group)
        rows += _without_secrets_in_cells(together) if is_table else together
    return "\n".join(_without_secrets(rows))


def _without_secrets_in_cells(rows: list[str]) -> list[str]:
    """Mask a table column by column, as a long key wraps within its column."""
    cells = [row.split(BAR) for row in rows]
    if len({len(each) for each in cells}) > 1:
        return rows
    columns = [_masked_column(column) for column in zip(*cells, strict=True)]
    return [BAR.join(row) for row in zip(*columns, strict=True)]


def _masked_column(cells: Sequence[str]) -> list[str]:
    masked = _without_secrets([cell.rstrip() for cell in cells])
    return [new.ljust(len(old)) for old, new in zip(cells, masked, strict=True)]


def _without_secrets(rows: list[str]) -> list[str]:
    rows = list(rows)
    for number in range(len(rows) - 1):
        _mask_from(rows, number)
    return rows


def _mask_from(rows: list[str], number: int) -> None:
    """Mask a secret that begins in a row and ends in one below it."""
    first, below = rows[number], _continuation(rows, number + 1)
    joined = "".join([first, *below])
    for secret in find_secrets(joined):
        left = secret.end - len(first)
        if secret.start < len(first) and left > 0:
            placeholder = placeholder_for(secret.kind, joined[secret.start : secret.end])
            rows[number] = first[: secret.start] + placeholder
            _take_away(rows, number + 1, below, left)
            return


def _continuation(rows: list[str], start: int) -> list[str]:
    """Return the rows that may continue a word, up to the first that has a space in it."""
    found: list[str] = []
    for row in rows[start : start + MOST_ROWS]:
        found.append(MARGIN.sub("", row, count=1).rstrip())
        if not found[-1] or " " in found[-1]:
            break
    return found


def _take_away(rows: list[str], start: int, below: list[str], count: int) -> None:
    """Remove the first `count` characters of the rows, but keep their indentation."""
    for number, piece in enumerate(below, start):
        indent = rows[number].rstrip().removesuffix(piece) if piece else ""
        rows[number] = indent + piece[max(0, count) :]
        count -= len(piece)
