"""turnlog history: list the changes that turnlog made to files."""

import re

import click

from turnlog.cli.arguments import json_option, limit_option, output_option
from turnlog.cli.output import echo_json, local_time, plain
from turnlog.cli.tables import Column, echo_table, with_rows
from turnlog.edit.journal import Record, open_journal
from turnlog.format.timestamps import parse_timestamp

COLUMNS = (
    Column("change", is_whole=True),
    Column("time", is_whole=True, expendable=1, look="dim"),
    Column("title", width=44),
    Column("state", is_whole=True, look="dim"),
)
SESSION_ID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


@click.command("history")
@limit_option("changes", 0)
@output_option()
@json_option
def command(limit: int, as_json: bool) -> None:
    """List the changes that turnlog made, newest first.

    Each can be reverted with `turnlog undo` until `turnlog forget` deletes its backup.

    \b
    Examples:
      turnlog history -n 5
      turnlog history --json | jq -r '.[0].id'
    """
    records = open_journal().records()[: limit or None]
    if as_json:
        echo_json(records)
        return
    echo_table(with_rows(COLUMNS, map(_cells, records)))


def _cells(record: Record) -> list[str]:
    state = "undone" if record.is_undone else "" if record.is_done else "interrupted"
    # Eight characters identify a session, and leave room for the rest of the title.
    title = SESSION_ID.sub(lambda found: found[0][:8], plain(record.title))
    return [record.id, local_time(parse_timestamp(record.time)), title, state]
