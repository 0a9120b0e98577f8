"""turnlog git: export a session as a git repository."""

from dataclasses import asdict
from pathlib import Path

import click

from turnlog.cli.arguments import json_option, session_argument
from turnlog.cli.output import echo_json, plain
from turnlog.cli.output_file import outside_store
from turnlog.cli.sessions import open_named
from turnlog.cli.store_options import with_stores
from turnlog.cli.terminal import dim, echo
from turnlog.store.stores import Stores
from turnlog.text import plural
from turnlog.worktree.git_export import export_git
from turnlog.worktree.worktree import open_worktree


@click.command("git")
@session_argument
@click.option(
    "-o",
    "--output",
    "target",
    type=click.Path(path_type=Path),
    callback=outside_store,
    metavar="DIR",
    required=True,
    help="Create the repository in DIR, which must not exist or be empty.",
)
@click.option("--bare", is_flag=True, help="Create a repository without a working tree.")
@json_option
@with_stores
def command(stores: Stores, session: str, target: Path, bare: bool, as_json: bool) -> None:
    """Export SESSION as a git repository, one commit per turn.

    Turns that changed no files are left out. The prompt is the commit message, with secrets
    masked; session, turn, model and cost are trailers. Branches of the conversation become
    branches, the active one is main, and the work of sub-agents is merged in. Exporting again gives
    the same hashes. File contents are not masked.

    \b
    Examples:
      turnlog git last -o /tmp/session
      turnlog git 3f2a -o session.git --bare
    """
    done = export_git(open_worktree(open_named(stores, session)), target, bare)
    if as_json:
        echo_json(asdict(done))
        return
    what = f"{plural(done.commits, 'commit')}, {plural(done.files, 'file')}"
    echo(f"Exported {what} to {plain(str(done.path))}")
    for name, commit in done.branches.items():
        echo(f"  {commit[:10]}  {name}")
    for path in done.gaps:
        echo(f"turnlog: {plain(path)} has unknown lines in some turn", err=True)
    echo(dim(f"  git -C {plain(str(done.path))} log --stat"))
