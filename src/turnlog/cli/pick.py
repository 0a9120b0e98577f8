"""turnlog pick: find a session in a full-screen picker, and resume it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from turnlog.cli.arguments import json_option
from turnlog.cli.output import echo_json
from turnlog.cli.picking import let_pick
from turnlog.cli.store_options import store_option, stores_in
from turnlog.cli.terminal import echo
from turnlog.errors import UsageError
from turnlog.store.resume_command import file_command

if TYPE_CHECKING:
    from turnlog.picker.picker import Choice


@click.command("pick")
@click.argument("query", nargs=-1)
@click.option("-p", "--print", "is_printed", is_flag=True, help="Print the id of the session.")
@click.option("-a", "--all", "every", is_flag=True, help="Start with the sessions of all projects.")
@store_option
@json_option
@click.pass_context
def command(
    ctx: click.Context, query: tuple[str, ...], is_printed: bool, every: bool, as_json: bool
) -> None:
    """Find a session in a full-screen picker, and resume it.

    Typing searches the texts of all sessions, in the syntax of `turnlog search`, with filters
    such as project:shop, since:3d, cost:>1, health:broken and live:. Press F1 for all keys. The
    picker is drawn on stderr: with --print or --json, only the chosen session goes to stdout.

    \b
    Examples:
      turnlog pick
      turnlog pick rounding bug project:shop
      claude --resume "$(turnlog pick --print)"
    """
    purpose = "print" if is_printed or as_json else None
    choice = let_pick(stores_in(ctx), " ".join(query), purpose, every=every)
    if as_json:
        echo_json(_as_json(choice))
    elif is_printed:
        echo(choice.session.id)
    else:
        _carry_out(ctx, choice)


def _as_json(choice: "Choice") -> dict[str, object]:
    session = choice.session
    return {
        "id": session.id,
        "path": session.path,
        "title": session.title,
        "project": session.project,
        "resume": file_command(Path(session.path), session.project, choice.store),
    }


def _carry_out(ctx: click.Context, choice: "Choice") -> None:
    """Run the command that was chosen."""
    from turnlog.cli import web
    from turnlog.cli.resume import ResumeOptions, resume_session

    path = choice.session.path
    if choice.action == "web":
        ctx.invoke(web.command, session=path)
        return
    if not sys.stdout.isatty():
        message = "the session cannot be resumed without a terminal on stdout"
        raise UsageError(message, "turnlog pick --print")
    resume_session(stores_in(ctx), path, ResumeOptions(is_chat=choice.action == "chat"))
