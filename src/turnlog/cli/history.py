"""turnlog history: every change that turnlog made to the user's files."""

import click

from turnlog.cli.arguments import json_option
from turnlog.cli.editing import open_journal
from turnlog.cli.output import echo_json, local_time
from turnlog.cli.terminal import dim, echo
from turnlog.format.timestamps import parse_timestamp


@click.command("history")
@json_option
def command(as_json: bool) -> None:
    """List the changes that turnlog made, the last first."""
    records = open_journal().records()
    if as_json:
        echo_json(records)
        return
    for record in records:
        state = "undone" if record.is_undone else "" if record.is_done else "interrupted"
        time = local_time(parse_timestamp(record.time))
        echo(f"{record.id}  {dim(time)}  {record.title}  {dim(state)}".rstrip())
