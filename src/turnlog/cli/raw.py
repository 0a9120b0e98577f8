"""turnlog raw: print one line of a session file byte for byte."""

import json
import sys
from itertools import islice
from shlex import quote

import click

from turnlog.cli.arguments import json_option, output_option, session_argument
from turnlog.cli.store_options import with_stores
from turnlog.cli.terminal import echo_masked, echo_plain
from turnlog.errors import NotFound
from turnlog.format.jsonl import read_lines
from turnlog.store.session_lookup import find_session
from turnlog.store.stores import Stores
from turnlog.text import safe_json


@click.command("raw")
@session_argument
@click.option(
    "--line",
    "number",
    metavar="N",
    type=click.IntRange(1),
    required=True,
    help="Line number, from 1.",
)
@output_option()
@json_option
@with_stores
def command(stores: Stores, session: str, number: int, as_json: bool) -> None:
    """Print one line of SESSION byte for byte.

    On a terminal, secrets are masked and control characters escaped. --json prints the line as a
    string, with its number and byte offset.

    \b
    Examples:
      turnlog raw last --line 3 | jq .
      turnlog raw 3f2a --line 1 -o line.json
    """
    path = find_session(stores, session).path
    line = next(islice(read_lines(path), number - 1, None), None)
    if line is None:
        count = sum(1 for _ in read_lines(path))
        raise NotFound(
            f"{path} has {count} lines, no line {number}", f"turnlog entries {quote(session)}"
        )
    text = line.raw.decode("utf-8", "backslashreplace")
    if as_json:
        echo_masked(safe_json(json.dumps({"line": number, "offset": line.offset, "raw": text})))
    elif sys.stdout.isatty():
        echo_plain(text.rstrip("\n"))
    else:
        sys.stdout.buffer.write(line.raw)
