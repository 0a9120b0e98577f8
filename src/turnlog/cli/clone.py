"""turnlog clone: a session as a new one, changed on the way."""

from typing import Any

import click

from turnlog.cli.arguments import json_option, session_argument
from turnlog.cli.editing import open_journal, print_effect, transform_options, wanted_of
from turnlog.cli.output import echo_json
from turnlog.cli.sessions import open_named
from turnlog.edit.apply import create_session
from turnlog.edit.build import build_plan, effect_of
from turnlog.edit.clone import plan_clone
from turnlog.store.paths import Store


@click.command("clone")
@session_argument
@transform_options
@click.option("--dry-run", is_flag=True, help="Only tell what would be done.")
@json_option
@click.pass_obj
def command(store: Store, session: str, dry_run: bool, as_json: bool, **options: Any) -> None:
    """Make of SESSION a new session, changed as the options say.

    The new one has ids of its own; sub-agents, large outputs and backups of files come along.
    SESSION itself is not touched.
    """
    opened = open_named(store, session)
    plan = build_plan(opened, wanted_of(options))
    effect = effect_of(plan)
    clone = plan_clone(store, opened, plan)
    if not dry_run:
        create_session(open_journal(), f"clone of {opened.id}", opened, clone.files)
    if as_json:
        echo_json({"id": clone.id, "path": clone.path, "effect": effect, "done": not dry_run})
        return
    click.echo(f"{'Would clone' if dry_run else 'Cloned'} {opened.id} as {clone.id}")
    print_effect(effect)
    if not dry_run:
        click.echo(f"  claude --resume {clone.id}")
