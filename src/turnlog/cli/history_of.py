"""turnlog history-of: the changes of one file in all sessions."""

from pathlib import Path

import click

from turnlog.cli.arguments import json_option, limit_option, output_option, reveal_option
from turnlog.cli.file_states import print_step
from turnlog.cli.indexing import ON_STDERR
from turnlog.cli.output import echo_json, plain
from turnlog.cli.store_options import with_stores
from turnlog.cli.terminal import echo
from turnlog.errors import NotFound
from turnlog.index.service import sessions_touching
from turnlog.store.stores import Stores
from turnlog.text import plural
from turnlog.worktree.across_sessions import SessionStep, history_of
from turnlog.worktree.state_views import step_view


@click.command("history-of")
@click.argument("path")
@limit_option("changes, the latest", 0)
@click.option("--reverse", is_flag=True, help="Print the latest change first.")
@output_option()
@reveal_option
@json_option
@with_stores
def command(
    stores: Stores, path: str, limit: int, reverse: bool, reveal: bool, as_json: bool
) -> None:
    """Show how PATH changed in all sessions: when, why and the diff.

    PATH is a file, or the last parts of its path if no file of that name was changed here. Changes
    on abandoned branches and by sub-agents are included. Changes that only shell commands made are
    shown for sessions that also read or changed the file with a tool.

    \b
    Examples:
      turnlog history-of src/app.py
      turnlog history-of /home/me/shop/README.md --json
      turnlog history-of app.py -n 3 --reverse
    """
    found = sessions_touching(stores, str(Path(path).absolute()), path, ON_STDERR)
    steps = history_of(found)
    if not steps:
        raise NotFound(f"no session changed {path}", "turnlog stats file")
    steps = steps[-limit:] if limit else steps
    steps = steps[::-1] if reverse else steps
    if as_json:
        echo_json([_view(each) for each in steps])
        return
    sessions = len({each.session.path for each in steps})
    if len(found) == 1:
        echo(plain(next(iter(found))))
    for each in steps:
        if len(found) > 1:
            echo(plain(each.step.version.path))
        branch = "" if each.is_active else " (abandoned branch)"
        print_step(each.step, reveal, f"{each.session.id[:8]}{branch} ")
    summary = f"{plural(len(steps), 'change')} in {plural(sessions, 'session')}"
    echo(f"turnlog: {summary}", err=True)


def _view(each: SessionStep) -> object:
    return step_view(each.step, each.session.id, reveal=True, is_active=each.is_active)
