"""turnlog edit: a session changed in place."""

from typing import Any

import click

from turnlog.cli.arguments import json_option, session_argument
from turnlog.cli.editing import open_journal, print_effect, transform_options, wanted_of
from turnlog.cli.output import echo_json
from turnlog.cli.sessions import open_named
from turnlog.edit.apply import replace_session, require_idle
from turnlog.edit.build import build_plan, effect_of
from turnlog.edit.plan import carry_out
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
    wanted = wanted_of(options)
    opened = open_named(store, session)
    if not (wanted.transforms or wanted.until or wanted.branch):
        raise UsageError("nothing to change: say what", "turnlog edit --help")
    plan = build_plan(opened, wanted)
    effect = effect_of(plan)
    record = None
    if not (dry_run or plan.is_empty):
        require_idle(store, opened.path)
        title = f"edit of {opened.id} ({', '.join(wanted.transforms) or 'cut'})"
        record = replace_session(open_journal(), title, opened, carry_out(plan))
    if as_json:
        echo_json({"id": opened.id, "effect": effect, "change": record.id if record else None})
        return
    click.echo(f"{'Edited' if record else 'Would edit'} {opened.id}")
    print_effect(effect)
    if record:
        click.echo(f"  turnlog undo {record.id}")
