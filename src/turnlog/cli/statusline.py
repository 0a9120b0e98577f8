"""turnlog statusline: print a status line for the client."""

import click

from turnlog.cli.status import print_status
from turnlog.cli.store_options import pass_stores
from turnlog.store.stores import Stores


@click.command("statusline")
@pass_stores
def command(stores: Stores) -> None:
    """Print a status line for the client: model, cost, context.

    Reads the JSON that the client passes to status line commands on stdin. Add this to the
    client's settings.json:

    \b
      "statusLine": {"type": "command", "command": "turnlog statusline"}

    \b
    Examples:
      echo '{"session_id": "3f2a"}' | turnlog statusline
    """
    print_status(stores)
