"""turnlog rename: give a session a title."""

import click

from turnlog.cli.arguments import dry_run_option, json_option, session_argument
from turnlog.cli.editing import print_undo
from turnlog.cli.output import echo_json
from turnlog.cli.picking import can_pick
from turnlog.cli.store_options import with_stores
from turnlog.cli.terminal import echo
from turnlog.edit.service import rename_session
from turnlog.store.session_lookup import find_in_store
from turnlog.store.stores import Stores


@click.command("rename")
@session_argument
@click.argument("title", required=False)
@dry_run_option
@json_option
@with_stores
@click.pass_context
def command(
    ctx: click.Context,
    stores: Stores,
    session: str,
    title: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Set the title of SESSION to TITLE.

    The title appears in turnlog and in the client's session picker, as with /rename.

    \b
    Examples:
      turnlog rename last "Fix the rounding bug"
      turnlog rename 3f2a "Invoices" --dry-run
    """
    store, path = find_in_store(stores, session)
    if title is None:
        # Like a missing SESSION, a missing TITLE is asked for on a terminal.
        if not can_pick():
            raise click.MissingParameter(ctx=ctx, param_hint="'TITLE'", param_type="argument")
        title = str(click.prompt("New title", err=True))
    title, record = rename_session(store, path, title, dry_run=dry_run)
    if as_json:
        echo_json({"id": path.stem, "title": title, "change": record.id if record else None})
        return
    echo(f"{'Would rename' if dry_run else 'Renamed'} {path.stem} to {title}")
    print_undo(record)
