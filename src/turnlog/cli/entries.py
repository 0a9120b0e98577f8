"""turnlog entries: list the entries of a session file, one row per line."""

from typing import Any

import click

from turnlog.cli.arguments import json_option, output_option, reveal_switch, session_argument
from turnlog.cli.output import echo_json_line, fit, plain, plain_masked, width
from turnlog.cli.preview import preview
from turnlog.cli.store_options import with_stores
from turnlog.cli.tables import GAP, Column, Table
from turnlog.cli.terminal import Look, echo_masked, style
from turnlog.format.decode import decode_line
from turnlog.format.entries import Entry
from turnlog.format.fields import given
from turnlog.format.jsonl import Line, read_lines
from turnlog.format.kinds import kind_of
from turnlog.format.timestamps import parse_timestamp
from turnlog.render.text_layout import cells_of
from turnlog.store.session_lookup import find_session
from turnlog.store.stores import Stores
from turnlog.text import file_size

CONTENT = "content"
SPEAKERS: dict[str, Look] = {"user": "green", "assistant": "cyan"}
COLUMNS = (
    Column("line", is_number=True, width=6, look="dim"),
    Column("time", is_whole=True, expendable=1, width=8, look="dim"),
    Column("size", is_number=True, expendable=2, width=7, look="dim"),
    Column("kind", is_whole=True, width=22, look=SPEAKERS.get),
    Column(CONTENT, width=8, is_filling=True),
)
"""The widths are fixed, because rows are printed while lines are read."""


@click.command("entries")
@session_argument
@output_option()
@reveal_switch
@json_option
@with_stores
def command(stores: Stores, session: str, as_json: bool) -> None:
    """List the entries of SESSION, one row per line.

    With --json, prints one JSON object per line. `turnlog raw` prints a line itself.

    \b
    Examples:
      turnlog entries last
      turnlog entries 3f2a --json | jq -r .kind | sort | uniq -c
    """
    table = None if as_json else open_table()
    for line in read_lines(find_session(stores, session).path):
        show_line(line, table)


def open_table() -> Table:
    """Print the header of a table of entries."""
    table = Table(COLUMNS, width())
    echo_masked(table.head())
    return table


def show_line(line: Line, table: Table | None) -> None:
    """Print the entries of a line as rows of a table; without a table, as JSON."""
    decoded = decode_line(line)
    problem = "; ".join(decoded.problems)
    entries: tuple[Entry | None, ...] = decoded.entries
    for entry in entries or ((None,) if problem else ()):
        if table:
            echo_masked(_row(table, line, entry, problem))
        else:
            echo_json_line(_fields(line, entry) | ({"problem": problem} if problem else {}))


def _fields(line: Line, entry: Entry | None) -> dict[str, Any]:
    kind = kind_of(entry) if entry else None
    return {
        "line": line.number or None,
        "offset": line.offset,
        "type": kind.partition("/")[0] if kind else None,
        "subtype": given(getattr(entry, "subtype", None)),
        "kind": kind,
        "uuid": given(getattr(entry, "uuid", None)),
        "parent_uuid": given(getattr(entry, "parent_uuid", None)),
        "timestamp": entry.when if entry else None,
    }


def _row(table: Table, line: Line, entry: Entry | None, problem: str) -> str:
    moment = parse_timestamp(entry.when) if entry else None
    clock = moment.astimezone().strftime("%H:%M:%S") if moment else ""
    room = table.width_of(CONTENT)
    warning = fit(plain(problem), min(room, cells_of(plain(problem)))) if problem else ""
    left = room - cells_of(warning) - (len(GAP) if warning else 0)
    # Twice the room: `plain_masked` collapses line breaks and strips blanks, and a text that was
    # cut must still be too long for `fit`, which then adds an ellipsis.
    text = plain_masked(preview(entry, 2 * left)) if entry and left > 0 else ""
    about = fit(text, left).rstrip()
    kind = _kind(kind_of(entry)) if entry else "-"
    row = table.row([str(line.number or ""), clock, file_size(len(line.raw)), kind, ""])
    content = GAP.join(filter(None, (style(warning, "red") if warning else "", about)))
    return row[: len(row) - room] + content


def _kind(kind: str) -> str:
    return plain(kind).removeprefix("system/")
