"""turnlog clone: copy a session to a new one, optionally transformed."""

import shlex
from pathlib import Path
from typing import Any

import click

from turnlog.cli.arguments import (
    client_version_option,
    dry_run_option,
    json_option,
    session_argument,
)
from turnlog.cli.editing import (
    edit_options,
    print_effect,
    print_repair,
    repair_as_json,
    transform_options,
)
from turnlog.cli.output import echo_command, echo_json, plain
from turnlog.cli.root import samples_store
from turnlog.cli.sessions import open_named
from turnlog.cli.store_options import with_stores
from turnlog.cli.suggested_commands import to_type
from turnlog.cli.terminal import echo
from turnlog.edit.clone import Clone
from turnlog.edit.service import clone_session, is_in_store
from turnlog.store.catalog import describe, locate_session
from turnlog.store.paths import Store, client_store
from turnlog.store.resume_command import file_command
from turnlog.store.stores import Stores, holder_of


@click.command("clone")
@session_argument
@transform_options
@client_version_option(
    "Client version that will resume the clone; by default the one that wrote SESSION."
)
@dry_run_option
@json_option
@with_stores
def command(
    stores: Stores,
    session: str,
    client_version: str | None,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Copy SESSION to a new session, optionally transformed.

    The clone gets new ids and copies of sub-agents, large outputs and file backups. SESSION is not
    changed. If the client would otherwise refuse the clone or lose history, its entries are
    relinked into one chain (--straighten).

    \b
    Examples:
      turnlog clone last
      turnlog clone 3f2a --strip-tools --strip-thinking
      turnlog clone last --keep-until 4 --dry-run
    """
    opened = open_named(stores, session)
    edits = edit_options(options, dry_run=dry_run, transcript=opened.path)
    store = holder_of(stores, opened.path)
    result = clone_session(store, opened, edits, client_version=client_version, dry_run=dry_run)
    clone, target = result.clone, result.straightened_for
    if as_json:
        view = {
            "id": clone.id,
            "path": clone.path,
            "effect": result.effect,
            "done": not dry_run,
            "in_store": is_in_store(clone.path),
            "straightened_for": target,
        }
        echo_json(view | repair_as_json(edits, result))
        return
    echo(f"{'Would clone' if dry_run else 'Cloned'} {opened.id} as {clone.id}")
    print_repair(result)
    if target:
        echo(f"  straightened for client {target} (--no-straighten keeps the tree as it is)")
    print_effect(result.effect)
    if not dry_run:
        _print_resume(clone, store)


def _print_resume(clone: Clone, holder: Store) -> None:
    """Print how to resume a clone, or why the client will not find it."""
    directory = describe(locate_session(clone.path)).cwd
    is_in_holder = clone.path.is_relative_to(holder.projects) and holder != samples_store()
    if is_in_store(clone.path) or is_in_holder:
        command = file_command(clone.path, directory, None if is_in_store(clone.path) else holder)
        echo_command(command or to_type(f"turnlog check {clone.id}"))
        return
    store = client_store()
    project = store.project_of(directory or str(Path.cwd()))
    echo(f"  {plain(str(clone.path))} is not in {plain(str(store.projects))}:")
    echo("  `claude --resume` will not find it until you move it there:")
    files = f"{shlex.quote(str(clone.path.absolute().with_suffix('')))}*"
    folder = shlex.quote(str(project))
    echo(f"  mkdir -p {folder} && mv {files} {folder}")
