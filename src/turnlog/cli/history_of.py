"""turnlog history-of: the changes of one file in all sessions."""

import shlex
from pathlib import Path

import click

from turnlog.cli.arguments import json_option, limit_option, output_option, reveal_option
from turnlog.cli.file_moments import print_step
from turnlog.cli.indexing import ON_STDERR
from turnlog.cli.output import echo_json, plain
from turnlog.cli.store_options import with_stores
from turnlog.cli.suggested_commands import to_type
from turnlog.cli.terminal import echo
from turnlog.errors import NotFound
from turnlog.index.service import sessions_running, sessions_touching
from turnlog.store.stores import Stores
from turnlog.text import plural, short_id
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
    on abandoned branches and by sub-agents are included. Changes by shell commands are shown if the
    client recorded them; other sessions whose commands name the file are only counted.

    \b
    Examples:
      turnlog history-of src/app.py
      turnlog history-of /home/me/shop/README.md --json
      turnlog history-of app.py -n 3 --reverse
    """
    found = sessions_touching(stores, str(Path(path).absolute()), path, ON_STDERR)
    steps = history_of(found)
    changing = {each.session.path for each in steps}
    running = [each for each in sessions_running(stores, path, ON_STDERR) if each not in changing]
    remark = _remark(len(running), Path(path).name)
    if not steps:
        hint = _search(path) if running else "turnlog stats file"
        raise NotFound(f"no session changed {path}{remark and f'; {remark}'}", hint)
    steps = steps[-limit:] if limit else steps
    steps = steps[::-1] if reverse else steps
    if remark:
        echo(f"turnlog: {remark} (try: {to_type(_search(path))})", err=True)
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
        print_step(each.step, reveal, f"{short_id(each.session.id)}{branch} ")
    summary = f"{plural(len(steps), 'change')} in {plural(sessions, 'session')}"
    echo(f"turnlog: {summary}", err=True)


def _remark(count: int, name: str) -> str:
    """Return a note on sessions whose commands may have changed the file."""
    if not count:
        return ""
    sessions = plural(count, "session")
    return f"{sessions} ran commands that name {plain(name)}, and may have changed it"


def _search(path: str) -> str:
    return f"turnlog search {shlex.quote(plain(Path(path).name))} --tool Bash --kind input"


def _view(each: SessionStep) -> object:
    return step_view(each.step, each.session.id, reveal=True, is_active=each.is_active)
