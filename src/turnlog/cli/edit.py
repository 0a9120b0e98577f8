"""turnlog edit: a session changed in place."""

from typing import Any

import click

from turnlog.cli.arguments import json_option, session_argument
from turnlog.cli.editing import (
    exhaust,
    open_journal,
    print_effect,
    print_repair,
    repair_as_json,
    transform_options,
    wanted_of,
)
from turnlog.cli.output import echo_json
from turnlog.cli.sessions import open_named
from turnlog.cli.terminal import echo
from turnlog.edit.apply import replace_session, require_idle
from turnlog.edit.plan import carry_out
from turnlog.edit.plan_builder import prepared
from turnlog.errors import UsageError
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
    wanted = wanted_of(options, dry_run=dry_run)
    opened = open_named(store, session)
    if not (wanted.transforms or wanted.until or wanted.branch):
        raise UsageError("nothing to change: say what", "turnlog edit --help")
    if not dry_run:
        require_idle(store, opened.path)
    record = None
    with prepared(opened, wanted) as ready:
        lines = carry_out(ready.plan, ready.tally)
        if dry_run:
            exhaust(lines)
        else:
            title = f"edit of {opened.id} ({', '.join(wanted.transforms) or 'cut'})"
            record = replace_session(open_journal(), title, opened, lines)
    effect = ready.tally.effect()
    if as_json:
        told = {"id": opened.id, "effect": effect, "change": record.id if record else None}
        echo_json(told | repair_as_json(wanted, ready))
        return
    is_changed = ready.mended or effect.is_change if dry_run else record
    verb = "Would edit" if dry_run else "Edited"
    echo(f"{verb if is_changed else 'Nothing to change in'} {opened.id}")
    print_repair(ready)
    print_effect(effect)
    if record:
        echo(f"  turnlog undo {record.id}")
