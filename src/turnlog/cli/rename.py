"""turnlog rename: give a session a title."""

import click

from turnlog.cli.arguments import json_option, session_argument
from turnlog.cli.editing import print_undo
from turnlog.cli.output import echo_json
from turnlog.cli.sessions import own_file
from turnlog.cli.terminal import echo
from turnlog.edit.service import rename_session
from turnlog.store.paths import Store


@click.command("rename")
@session_argument
@click.argument("title")
@click.option("--dry-run", is_flag=True, help="Only tell what would be done.")
@json_option
@click.pass_obj
def command(store: Store, session: str, title: str, dry_run: bool, as_json: bool) -> None:
    """Call SESSION by TITLE, as /rename does: in turnlog, and in the picker of the client."""
    path = own_file(store, session)
    title, record = rename_session(store, path, title, dry_run=dry_run)
    if as_json:
        echo_json({"id": path.stem, "title": title, "change": record.id if record else None})
        return
    echo(f"{'Would rename' if dry_run else 'Renamed'} {path.stem} to {title}")
    print_undo(record)
