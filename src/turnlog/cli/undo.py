"""turnlog undo: revert a change that turnlog made."""

import click

from turnlog.cli.arguments import json_option
from turnlog.cli.completions import complete_change
from turnlog.cli.output import echo_json
from turnlog.cli.terminal import echo
from turnlog.edit.journal import open_journal


@click.command("undo")
@click.argument("change", required=False, shell_complete=complete_change)
@json_option
def command(change: str | None, as_json: bool) -> None:
    """Undo CHANGE, or the last change that was not undone.

    CHANGE is an id from `turnlog history`, or the start of one. Fails if a client has the session
    open, or if the files have changed since.

    \b
    Examples:
      turnlog undo
      turnlog undo 20261115-110508
      turnlog undo --json | jq .restored
    """
    record = open_journal().undo(change)
    if as_json:
        restored = [file.path for file in record.files if file.before]
        removed = [file.path for file in record.files if not file.before]
        undone = {"id": record.id, "title": record.title, "time": record.time}
        echo_json(undone | {"restored": restored, "removed": removed})
        return
    echo(f"Undone: {record.title}")
    for file in record.files:
        echo(f"  {'restored' if file.before else 'removed'} {file.path}")
