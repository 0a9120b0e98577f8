"""turnlog statusline: one line for the client's status line."""

import click

from turnlog.cli.status import print_status
from turnlog.store.paths import Store


@click.command("statusline")
@click.pass_obj
def command(store: Store) -> None:
    """Print one line for the client's status line: cost, window, context.

    Reads the JSON that the client gives a status line on stdin. In the client's settings.json:

    \b
      "statusLine": {"type": "command", "command": "turnlog statusline"}
    """
    print_status(store)
