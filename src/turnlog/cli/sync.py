"""turnlog sync: update the index."""

import click

from turnlog.cli.arguments import json_option
from turnlog.cli.indexing import ON_STDERR
from turnlog.cli.output import echo_json
from turnlog.cli.store_options import with_stores
from turnlog.cli.terminal import echo
from turnlog.index.sync_policy import sync_index
from turnlog.store.stores import Stores
from turnlog.text import file_size, plural


@click.command("sync")
@json_option
@with_stores
def command(stores: Stores, as_json: bool) -> None:
    """Update the index of all sessions.

    `search`, `stats` and `sql` do this automatically. The index is derived from the session files
    and can be deleted at any time.

    \b
    Examples:
      turnlog sync
      turnlog sync --json | jq -r .index
    """
    path, done = sync_index(stores, ON_STDERR)
    if as_json:
        echo_json({"index": path, **done._asdict()})
        return
    read = f"{plural(done.read, 'file')} read ({file_size(done.bytes)})" if done.read else ""
    gone = f"{plural(done.removed, 'file')} gone" if done.removed else ""
    echo(", ".join(part for part in (read, gone) if part) or "nothing has changed")
    echo(f"{path}  {file_size(path.stat().st_size)}")
