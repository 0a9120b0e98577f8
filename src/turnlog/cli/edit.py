"""turnlog edit: change a session in place."""

from typing import Any

import click

from turnlog.cli.arguments import dry_run_option, json_option, session_argument
from turnlog.cli.editing import (
    edit_options,
    print_effect,
    print_repair,
    print_undo,
    repair_as_json,
    transform_options,
)
from turnlog.cli.output import echo_json
from turnlog.cli.sessions import open_named
from turnlog.cli.store_options import with_stores
from turnlog.cli.terminal import echo
from turnlog.edit.service import edit_session
from turnlog.store.stores import Stores, holder_of


@click.command("edit")
@session_argument
@transform_options
@dry_run_option
@json_option
@with_stores
def command(stores: Stores, session: str, dry_run: bool, as_json: bool, **options: Any) -> None:
    """Transform SESSION in place; `turnlog undo` reverts it.

    Unaffected lines stay byte-identical. The result is checked before it replaces the file. A
    session that a client has open is refused.

    \b
    Examples:
      turnlog edit last --strip-tools --keep-last 3 --dry-run
      turnlog edit 3f2a --repair
      turnlog edit last --keep-until 5
      turnlog edit last --compress --with-model
    """
    edits = edit_options(options, dry_run=dry_run)
    opened = open_named(stores, session)
    result = edit_session(holder_of(stores, opened.path), opened, edits, dry_run=dry_run)
    if as_json:
        change = result.record.id if result.record else None
        view = {"id": opened.id, "effect": result.effect, "change": change}
        echo_json(view | repair_as_json(edits, result))
        return
    verb = "Would edit" if dry_run else "Edited"
    echo(f"{verb if result.is_change else 'Nothing to change in'} {opened.id}")
    print_repair(result)
    print_effect(result.effect)
    print_undo(result.record)
