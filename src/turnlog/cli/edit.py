"""turnlog edit: change a session in place."""

from typing import Any

import click

from turnlog.cli.arguments import json_option, session_argument
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
from turnlog.cli.terminal import echo
from turnlog.edit.service import edit_session
from turnlog.store.paths import Store


@click.command("edit")
@session_argument
@transform_options
@click.option("--dry-run", is_flag=True, help="Only tell what would be done.")
@json_option
@click.pass_obj
def command(store: Store, session: str, dry_run: bool, as_json: bool, **options: Any) -> None:
    """Change SESSION in place, as the options say; `turnlog undo` brings it back.

    Lines that the change does not concern keep their bytes. The result is checked before it is
    swapped in, and a session that a client has open is refused.
    """
    wanted = edit_options(options, dry_run=dry_run)
    opened = open_named(store, session)
    result = edit_session(store, opened, wanted, dry_run=dry_run)
    if as_json:
        change = result.record.id if result.record else None
        told = {"id": opened.id, "effect": result.effect, "change": change}
        echo_json(told | repair_as_json(wanted, result))
        return
    verb = "Would edit" if dry_run else "Edited"
    echo(f"{verb if result.is_change else 'Nothing to change in'} {opened.id}")
    print_repair(result)
    print_effect(result.effect)
    print_undo(result.record)
