"""turnlog clone: a session as a new one, changed on the way."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from turnlog.cli.arguments import client_version_option, json_option, session_argument
from turnlog.cli.editing import (
    exhaust,
    open_journal,
    print_effect,
    print_repair,
    repair_as_json,
    require_compression,
    transform_options,
    wanted_of,
)
from turnlog.cli.output import echo_json, plain
from turnlog.cli.sessions import open_named
from turnlog.cli.terminal import echo
from turnlog.conversation.session import Session
from turnlog.edit.apply import create_session
from turnlog.edit.check.checks import needs_straightening
from turnlog.edit.clone import Clone, plan_clone
from turnlog.edit.plan_builder import prepared
from turnlog.store.catalog import describe, locate_session
from turnlog.store.paths import Store, open_store


@click.command("clone")
@session_argument
@transform_options
@client_version_option("The client that will resume the clone; by default the one that wrote it.")
@click.option("--dry-run", is_flag=True, help="Only tell what would be done.")
@json_option
@click.pass_obj
def command(
    store: Store,
    session: str,
    client_version: str | None,
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Copy SESSION to a new session, optionally transformed.

    The new one has ids of its own; sub-agents, large outputs and backups of files come along.
    SESSION itself is not touched. If the client that will resume the clone would fail or lose
    history otherwise, the clone is straightened.
    """
    opened = open_named(store, session)
    target = _straightened_for(opened, options, client_version)
    asked = wanted_of(options, dry_run=dry_run, transcript=opened.path)
    wanted = replace(asked, transforms=[*asked.transforms, "straighten"]) if target else asked
    with prepared(opened, wanted) as ready:
        # The clone gets a UUID for a name: what was wrong with the old name is mended by that.
        named = [finding for finding in ready.left if finding.kind == "not-a-uuid"]
        ready.mended.extend(named)
        ready.left[:] = [finding for finding in ready.left if finding not in named]
        require_compression(opened, session, asked, ready)
        clone = plan_clone(store, opened, ready.plan, ready.tally)
        if dry_run:
            exhaust(clone.files[clone.path])
        else:
            create_session(open_journal(), f"clone of {opened.id}", opened, clone.files)
    effect = ready.tally.effect()
    if as_json:
        told = {
            "id": clone.id,
            "path": clone.path,
            "effect": effect,
            "done": not dry_run,
            "in_store": is_in_store(clone.path),
            "straightened_for": target,
        }
        echo_json(told | repair_as_json(wanted, ready))
        return
    echo(f"{'Would clone' if dry_run else 'Cloned'} {opened.id} as {clone.id}")
    print_repair(ready)
    if target:
        echo(f"  straightened for client {target} (--no-straighten keeps the tree as it is)")
    print_effect(effect)
    if not dry_run:
        _print_resume(clone)


def _print_resume(clone: Clone) -> None:
    """Print how to resume a clone, or why the client will not find it."""
    if is_in_store(clone.path):
        echo(f"  claude --resume {clone.id}")
        return
    store = open_store()
    project = store.project_of(describe(locate_session(clone.path)).cwd or str(Path.cwd()))
    echo(f"  {plain(str(clone.path))} is not in {plain(str(store.projects))}:")
    echo("  `claude --resume` will not find it until you move it there:")
    files = f"{shlex.quote(str(clone.path.absolute().with_suffix('')))}*"
    folder = shlex.quote(str(project))
    echo(f"  mkdir -p {folder} && mv {files} {folder}")


def is_in_store(session: Path) -> bool:
    """Whether the client finds a session by its id: it is in a project of the user's own store."""
    projects = open_store().projects
    return projects.is_dir() and session.absolute().parent.parent.samefile(projects)


def _straightened_for(
    opened: Session, options: dict[str, Any], client_version: str | None
) -> str | None:
    """Return the client version that a clone must be straightened for, if the user left it open."""
    target = client_version or opened.client_version
    if options["straighten"] is not None or target is None:
        return None
    return target if needs_straightening(opened, target) else None
