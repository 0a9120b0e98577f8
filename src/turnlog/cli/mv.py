"""turnlog mv: move sessions along with their project's directory."""

from pathlib import Path
from shlex import quote
from typing import Any

import click

from turnlog.cli.arguments import AliasedOption, dry_run_option, json_option
from turnlog.cli.completions import complete_session
from turnlog.cli.editing import print_undo
from turnlog.cli.output import echo_json, plain
from turnlog.cli.picking import can_pick, let_pick
from turnlog.cli.sessions import only_store
from turnlog.cli.store_options import stores_in, with_stores
from turnlog.cli.terminal import echo
from turnlog.edit.journal import Record
from turnlog.edit.move import Move, move_project, move_session
from turnlog.edit.service import move_sessions
from turnlog.errors import NotFound
from turnlog.store.paths import real_path
from turnlog.store.session_lookup import find_in_store
from turnlog.store.stores import Stores
from turnlog.text import file_size, plural


@click.command("mv")
@click.argument("source", metavar="[SESSION|OLD]", required=False, shell_complete=complete_session)
@click.argument("new", metavar="NEW", required=False, type=click.Path())
@click.option(
    "--whole-project",
    is_flag=True,
    cls=AliasedOption,
    aliases=["--project"],
    help="Move all sessions of directory OLD and its subdirectories.",
)
@dry_run_option
@json_option
@with_stores
def command(
    stores: Stores,
    source: str | None,
    new: str | None,
    whole_project: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Move SESSION to directory NEW, to resume it there.

    With --whole-project, OLD is the former directory of a project that was moved or renamed: its
    sessions, memory and prompt history move to NEW. Messages are not changed. `turnlog undo`
    reverts a move.

    \b
    Examples:
      turnlog mv last ~/src/shop
      turnlog mv --whole-project ~/old/shop ~/src/shop --dry-run
    """
    source, new = _named_or_asked(source, new, whole_project)
    target = real_path(Path(new))
    if not target.is_dir():
        raise NotFound(f"{target} is not a directory", f"mkdir -p {quote(new)}")
    if whole_project:
        move = _move_project(stores, source, str(target))
    else:
        store, path = find_in_store(stores, source)
        move = move_session(store, path, str(target))
    record = None if dry_run else move_sessions(move.store, move)
    if as_json:
        echo_json(_as_json(move, record))
    else:
        _report(move, record, dry_run)


def _named_or_asked(source: str | None, new: str | None, whole_project: bool) -> tuple[str, str]:
    """Return the source and the target of a move; on a terminal, ask for missing ones."""
    if source is not None and new is not None:
        return source, new
    ctx = click.get_current_context()
    if whole_project or not can_pick():
        missing = "NEW" if source else "SESSION|OLD"
        raise click.MissingParameter(ctx=ctx, param_hint=f"'{missing}'", param_type="argument")
    if source is not None and Path(source).is_dir():
        source, new = None, source
    if source is None:
        source = let_pick(stores_in(ctx), "", ctx.command.name).session.path
    if new is None:
        question = "Move the session to which directory?"
        new = str(click.prompt(question, default=str(Path.cwd()), err=True))
    return source, new


def _move_project(stores: Stores, old: str, new: str) -> Move:
    """Plan to move the sessions of a directory; raise UsageError if several stores have some."""
    moves: list[Move] = []
    missing: list[NotFound] = []
    for store in stores:
        try:
            moves.append(move_project(store, old, new))
        except NotFound as error:
            missing.append(error)
    if not moves:
        raise missing[0]
    only_store([move.store for move in moves], "mv --whole-project")
    return moves[0]


def _report(move: Move, record: Record | None, dry_run: bool) -> None:
    if not (record or dry_run):
        echo(f"Nothing to move: everything is in {plain(move.relocation.new)} already")
        return
    verb = "Would move" if dry_run else "Moved"
    echo(f"{verb} {plural(len(move.sessions), 'session')} to {plain(move.relocation.new)}")
    for moved in move.sessions:
        echo(f"  {moved.session.stem}  " + plain(f"{moved.old or '?'} → {moved.new}"))
    files = f"{plural(len(move.sizes), 'file')}, {file_size(sum(move.sizes))}"
    echo(f"  {files}, {plural(move.prompts, 'prompt')} of the history")
    print_undo(record)


def _as_json(move: Move, record: Record | None) -> dict[str, Any]:
    return {
        "old": move.relocation.old,
        "new": move.relocation.new,
        "sessions": [
            {"id": moved.session.stem, "old": moved.old, "new": moved.new}
            for moved in move.sessions
        ],
        "files": len(move.sizes),
        "bytes": sum(move.sizes),
        "prompts": move.prompts,
        "change": record.id if record else None,
    }
