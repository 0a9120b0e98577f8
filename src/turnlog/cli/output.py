"""Text for a terminal: columns that fit its width, ages, sizes, and text that cannot harm it."""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import Any

import msgspec

from turnlog.cli.terminal import echo_masked, masked, masked_value
from turnlog.text import one_line, safe_json

NARROW = re.compile(r"[\x20-\x7e\xa1-\xac\xae-\u02ff…❯→•–—‘’“”]*")
AT_ONCE = 64
"""Lines that are printed together."""


def width() -> int:
    """How many columns there are to fill: those of the terminal, even if a pipe is in between."""
    if columns := os.environ.get("COLUMNS"):
        return (int(columns) if columns.isdecimal() else 0) or 80
    for descriptor in (1, 2, 0):
        with suppress(OSError):
            return os.get_terminal_size(descriptor).columns
    return 100


def plain(text: str | None, keep_indent: bool = False) -> str:
    """Return a text on one line, masked, without what would move the cursor or change the screen.

    >>> plain("two" + chr(10) + "lines" + chr(27) + "[2J")
    'two lines [2J'
    """
    return plain_masked(masked(text or ""), keep_indent)


def plain_masked(text: str, keep_indent: bool = False) -> str:
    """Return a text that is masked already on one line, as `plain` does."""
    if keep_indent:
        return one_line(text.expandtabs(4)).rstrip()
    return one_line(text).strip()


def cells_of(text: str) -> int:
    """Return how many terminal cells a text takes; wide characters take two.

    >>> cells_of("日本"), cells_of("ab")
    (4, 2)
    """
    if NARROW.fullmatch(text):
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def wrap(text: str, room: int, indent: str = "") -> Iterator[str]:
    """Break prose between words into lines of at most `room` cells; later ones are indented.

    A word that does not fit on a line is cut.

    >>> list(wrap("one two three", 9, indent="  "))
    ['one two', '  three']
    """
    line = ""
    for word in text.split(" "):
        if cells_of(word) > room - len(indent):
            word = fit(word, room - len(indent))  # noqa: PLW2901
        if line.strip() and cells_of(line) + 1 + cells_of(word) > room:
            yield line
            line = indent + word
        else:
            line = f"{line} {word}" if line else word
    yield line


def wrap_hint(text: str, hint: str, room: int) -> list[str]:
    """Break prose into lines; its hint is never broken, so that it can be copied.

    >>> wrap_hint("no such session", "(turnlog ls)", 22)
    ['no such session', '(turnlog ls)']
    """
    *lines, last = wrap(text, room)
    beside = f"{last}  {hint}" if hint else last
    return [*lines, beside] if cells_of(beside) <= room else [*lines, last, hint]


def fit(text: str, cells: int) -> str:
    """Cut or pad a text to a number of terminal cells; wide characters take two.

    >>> fit("日本語", 5), fit("ab", 5)
    ('日本…', 'ab   ')
    """
    if cells <= 0:
        return ""
    if NARROW.fullmatch(text):
        return f"{text[: cells - 1]}…" if len(text) > cells else text.ljust(cells)
    from rich.cells import cell_len, set_cell_size

    return (
        set_cell_size(text, cells - 1) + "…"
        if cell_len(text) > cells
        else set_cell_size(text, cells)
    )


def fit_path(path: str, cells: int) -> str:
    """Return a path, without its start if it takes more cells.

    >>> fit_path("/home/ada/shop", 9), fit_path("/srv", 9)
    ('…ada/shop', '/srv')
    """
    if cells_of(path) <= cells:
        return path
    start = len(path)
    while start and cells_of(path[start - 1 :]) < cells:
        start -= 1
    return f"…{path[start:]}"


def local_time(moment: datetime | None) -> str:
    """A moment in the user's own time zone, to the second."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S") if moment else ""


def echo_lines(lines: Iterable[str]) -> None:
    """Print many lines that are masked already as they come, some at a time."""
    left = iter(lines)
    while some := list(islice(left, AT_ONCE)):
        echo_masked("\n".join(some))


def echo_json(value: Any) -> None:
    """Print one JSON document, laid out for people."""
    echo_masked(to_json(value, indent=2))


def echo_json_line(value: Any) -> None:
    """Print one JSON object on one line."""
    echo_masked(to_json(value))


def to_json(value: Any, indent: int | None = None) -> str:
    """Return a value, or typed views, as JSON, masked; escaped where UTF-8 could not bear it.

    >>> to_json(["日本"]), to_json([chr(0xD800)])
    ('["日本"]', '["\\\\ud800"]')
    """
    plain_value = masked_value(msgspec.to_builtins(value, enc_hook=str))
    separators = (",", ":") if indent is None else None
    text = json.dumps(plain_value, ensure_ascii=False, indent=indent, separators=separators)
    return safe_json(text)


def progress_bar(total: int, label: str) -> Any:
    """A bar on stderr, where that is a terminal."""
    import click

    return click.progressbar(
        length=total, label=label, file=sys.stderr, hidden=not sys.stderr.isatty()
    )
