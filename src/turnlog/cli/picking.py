"""Let the user pick a session where an argument leaves it open."""

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import click

from turnlog.cli.completions import complete_session
from turnlog.cli.store_options import stores_in
from turnlog.errors import UsageError
from turnlog.store.stores import AnyStores, each_store

if TYPE_CHECKING:
    from turnlog.picker.picker import Choice


class PickedArgument(click.Argument):
    """The argument SESSION: on a terminal, it may be omitted and is picked."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, required=False, shell_complete=complete_session, **attributes)

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        found: Any = super().process_value(ctx, value)
        # click marks an absent value by an object of its own. Completion parses incomplete lines,
        # and must neither ask nor fail.
        is_given = isinstance(found, str | tuple) and found not in ("", ())
        if is_given or ctx.resilient_parsing:
            return found  # pyright: ignore[reportUnknownVariableType]
        if not can_pick():
            hint = self.make_metavar(ctx).replace("[", "").replace("]", "")
            raise click.MissingParameter(ctx=ctx, param=self, param_hint=f"'{hint}'")
        path = let_pick(stores_in(ctx), "", ctx.command.name).session.path
        return (path,) if self.nargs != 1 else path


def can_pick() -> bool:
    """Return whether there is a terminal to pick a session on: stdin and stderr."""
    is_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    return is_terminal and os.environ.get("TERM") != "dumb"


def named_or_picked(ctx: click.Context, sessions: tuple[str, ...], is_all: bool) -> tuple[str, ...]:
    """Return the sessions that were named; on a terminal, let the user pick one if none was."""
    if sessions or is_all or not can_pick():
        return sessions
    return (let_pick(stores_in(ctx), "", ctx.command.name).session.path,)


def let_pick(
    stores: AnyStores, query: str = "", purpose: str | None = None, *, every: bool = False
) -> "Choice":
    """Let the user pick a session; exit with 130, as after Ctrl-C, if none was picked."""
    if not can_pick():
        raise UsageError("the picker needs a terminal", "turnlog ls")
    from turnlog.picker.start import PickerOptions, pick_session

    choice = pick_session(each_store(stores), PickerOptions(query, purpose, every, view_session))
    if choice is None:
        raise click.Abort
    return choice


def view_session(path: str, line: int | None) -> None:
    """Show a session in a pager; in a process of its own, on the terminal of the picker."""
    place = ["--line", str(line)] if line else []
    subprocess.run(
        [sys.executable, "-P", "-m", "turnlog", "show", "--pager", path, *place],
        stdout=sys.stderr.fileno(),
        check=False,
    )
