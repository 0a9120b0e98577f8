"""turnlog raw: the bytes of one line."""

import sys
from itertools import islice

import click

from turnlog.cli.arguments import session_argument
from turnlog.cli.terminal import echo
from turnlog.errors import NotFound
from turnlog.format.jsonl import read_lines
from turnlog.store.paths import Store
from turnlog.store.session_lookup import find_session
from turnlog.text import harmless


@click.command("raw")
@session_argument
@click.option("--line", "number", type=click.IntRange(1), required=True, help="Counts from 1.")
@click.pass_obj
def command(store: Store, session: str, number: int) -> None:
    """Print line N of SESSION, byte for byte.

    On a terminal, control characters are spelled out.
    """
    path = find_session(store, session).path
    line = next(islice(read_lines(path), number - 1, None), None)
    if line is None:
        count = sum(1 for _ in read_lines(path))
        raise NotFound(f"{path} has {count} lines, no line {number}", f"turnlog entries {session}")
    if sys.stdout.isatty():
        echo(harmless(line.raw.decode("utf-8", "backslashreplace").rstrip("\n")))
    else:
        sys.stdout.buffer.write(line.raw)
