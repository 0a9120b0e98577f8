"""Format text for a terminal: fit it to a width, strip control characters, print JSON."""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import Any

import msgspec

from turnlog.cli.terminal import dim, echo_masked, masked, masked_value
from turnlog.render.text_layout import NARROW, cells_of, wrap_command
from turnlog.text import one_line, safe_json, typeable

AT_ONCE = 64
"""Lines to print per write."""


def width() -> int:
    """Return the width of the terminal, even if stdout is a pipe to a pager."""
    if columns := os.environ.get("COLUMNS"):
        return (int(columns) if columns.isdecimal() else 0) or 80
    for descriptor in (1, 2, 0):
        with suppress(OSError):
            # A pseudo-terminal has no columns until a program sets its size, which some never do.
            if columns := os.get_terminal_size(descriptor).columns:
                return columns
    return 100


def plain(text: str | None, keep_indent: bool = False) -> str:
    """Return a text on one line, masked and without terminal control characters.

    >>> plain("two" + chr(10) + "lines" + chr(27) + "[2J")
    'two lines [2J'
    """
    return plain_masked(masked(text or ""), keep_indent)


def plain_masked(text: str, keep_indent: bool = False) -> str:
    """Return a text on one line like `plain`, but without masking it again."""
    if keep_indent:
        return one_line(text.expandtabs(4)).rstrip()
    return one_line(text).strip()


def wrap(text: str, room: int, indent: str = "") -> Iterator[str]:
    """Wrap prose to lines of at most `room` cells; `indent` starts each line but the first.

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
    """Wrap a message; its hint stays on one line, so that it can be copied.

    >>> wrap_hint("no such session", "(turnlog ls)", 22)
    ['no such session', '(turnlog ls)']
    """
    *lines, last = wrap(text, room)
    beside = f"{last}  {hint}" if hint else last
    return [*lines, beside] if cells_of(beside) <= room else [*lines, last, hint]


def fit(text: str, cells: int) -> str:
    """Cut or pad a text to a number of terminal cells; wide characters take two.

    >>> fit("日本語", 5), fit("ab", 5), fit("ab", 1), fit("ab", 0)
    ('日本…', 'ab   ', '…', '')
    """
    if cells <= 0:
        return ""
    # As in `cells_of`: importing rich takes longer than everything else that most commands do.
    if NARROW.fullmatch(text):
        return f"{text[: cells - 1]}…" if len(text) > cells else text.ljust(cells)
    from rich.cells import cell_len, set_cell_size

    return (
        set_cell_size(text, cells - 1) + "…"
        if cell_len(text) > cells
        else set_cell_size(text, cells)
    )


def fit_path(path: str, cells: int) -> str:
    """Truncate a path at its start to a number of cells.

    >>> fit_path("/home/ada/shop", 9), fit_path("/srv", 9)
    ('…ada/shop', '/srv')
    """
    if cells_of(path) <= cells:
        return path
    start = len(path)
    while start and cells_of(path[start - 1 :]) < cells:
        start -= 1
    return f"…{path[start:]}"


def styled_hint(text: str, hint: str, room: int) -> Iterator[str]:
    """Yield the lines of a message with a dim hint, which moves to the next line if necessary."""
    for line in wrap_hint(text, hint, room):
        message = line.removesuffix(hint)
        yield f"{message}{dim(hint)}" if hint and message != line else line


def with_title(text: str, title: str, room: int) -> list[str]:
    """Return a text followed by a title; a title that does not fit moves to a line of its own.

    >>> with_title("5e55: 3 lines", "Fix it", 30), with_title("5e55: 3 lines", "Fix it", 20)
    (['5e55: 3 lines  Fix it'], ['5e55: 3 lines', '  Fix it'])
    """
    beside = f"{text}  {title}" if title else text
    return [beside] if cells_of(beside) <= room else [text, f"  {fit(title, room - 2).rstrip()}"]


def local_time(moment: datetime | None) -> str:
    """Return a moment in local time, to the second; an empty text for None.

    >>> from datetime import UTC
    >>> local_time(datetime(2026, 11, 15, 12, 30, 5, tzinfo=UTC))[-3:], local_time(None)
    (':05', '')
    """
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S") if moment else ""


def echo_lines(lines: Iterable[str]) -> None:
    """Print lines that are masked already, in batches as they arrive."""
    left = iter(lines)
    # Each write is flushed: one per line would be slow, a single one would keep a pager waiting.
    while some := list(islice(left, AT_ONCE)):
        echo_masked("\n".join(some))


def echo_json(value: Any) -> None:
    """Print one indented JSON document."""
    echo_masked(to_json(value, indent=2))


def echo_json_line(value: Any) -> None:
    """Print one JSON object on one line."""
    echo_masked(to_json(value))


def to_json(value: Any, indent: int | None = None) -> str:
    """Return a value or typed views as masked JSON; characters invalid in UTF-8 are escaped.

    >>> to_json(["日本"]), to_json([chr(0xD800)])
    ('["日本"]', '["\\\\ud800"]')
    """
    plain_value = masked_value(msgspec.to_builtins(value, enc_hook=str))
    separators = (",", ":") if indent is None else None
    # Not msgspec's encoder: it refuses half a surrogate pair, which a session file can contain.
    text = json.dumps(plain_value, ensure_ascii=False, indent=indent, separators=separators)
    return safe_json(text)


def echo_command(command: str, indent: str = "  ") -> None:
    """Print a command to copy: wrapped on a narrow terminal, on one line in a pipe."""
    room = width() - len(indent) if sys.stdout.isatty() else 0
    for line in wrap_command(typeable(command), room):
        echo_masked(masked(f"{indent}{line}"))


def finish(bar: Any) -> None:
    """Fill a progress bar, whose last passes may have had nothing to do."""
    bar.update(bar.length - bar.pos)


class StepBar:
    """A progress bar that appears at the first step, when the total is known."""

    def __init__(self, label: str, is_hidden: bool = False) -> None:
        self._label, self._is_hidden, self._bar = label, is_hidden, None

    def __call__(self, done: int, total: int) -> None:
        """Show how many steps are done."""
        if self._is_hidden:
            return
        if self._bar is None:
            self._bar = progress_bar(total, self._label).__enter__()
        self._bar.update(done - self._bar.pos)

    def close(self) -> None:
        """End the bar, if it has appeared."""
        if self._bar:
            self._bar.__exit__(None, None, None)


def progress_bar(total: int, label: str) -> Any:
    """Return a progress bar on stderr, hidden if that is not a terminal."""
    import click

    return click.progressbar(
        length=total, label=label, file=sys.stderr, hidden=not sys.stderr.isatty()
    )
