"""turnlog undo: brings back what was before a change."""

import click

from turnlog.cli.terminal import echo
from turnlog.edit.journal import open_journal


@click.command("undo")
@click.argument("change", required=False)
def command(change: str | None) -> None:
    """Undo CHANGE, or the last change that was not undone.

    CHANGE is an id from `turnlog history`, or the start of one. Refuses while a client has the
    session open, and where files have changed since.
    """
    record = open_journal().undo(change)
    echo(f"Undone: {record.title}")
    for file in record.files:
        echo(f"  {'restored' if file.before else 'removed'} {file.path}")
