"""Let the user pick a session where an argument leaves it open."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from turnlog.cli.completions import complete_session
from turnlog.cli.store_options import stores_in
from turnlog.errors import UsageError
from turnlog.store.stores import AnyStores, each_store

if TYPE_CHECKING:
    from turnlog.picker.picker import Choice

SELECTING = "--all, --project or --since"
"""Options that select sessions in place of names."""


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


def named_or_picked(
    ctx: click.Context, sessions: tuple[str, ...], is_selected: bool, options: str, example: str
) -> tuple[str, ...]:
    """Return the sessions that were named; on a terminal, let the user pick one if none was.

    Raise `UsageError` if sessions are both named and selected by options, or neither; `example` is
    a command that would do.
    """
    if sessions and is_selected:
        raise UsageError(f"SESSION cannot be combined with {options}", example)
    if sessions or is_selected:
        return sessions
    if not can_pick():
        raise UsageError(f"name a session, or use {options}", example)
    return (let_pick(stores_in(ctx), "", ctx.command.name).session.path,)


def let_pick(
    stores: AnyStores, query: str = "", purpose: str | None = None, *, every: bool = False
) -> "Choice":
    """Let the user pick a session; exit with 130, as after Ctrl-C, if none was picked."""
    if not can_pick():
        raise UsageError("the picker needs a terminal", "turnlog ls")
    from turnlog.picker.picker import PickerOptions
    from turnlog.picker.picker_screen import pick_session

    choice = pick_session(each_store(stores), PickerOptions(query, purpose, every, view_session))
    if choice is None:
        raise click.Abort
    return choice


async def pick_within(stores: AnyStores, purpose: str) -> Path | None:
    """Let the user pick a session on a terminal that a running program lends; None if they leave.

    A terminal that cannot show the picker is a `UsageError`.
    """
    if not can_pick():
        raise UsageError("the picker needs a terminal", "/resume SESSION")
    from turnlog.picker.picker import PickerOptions
    from turnlog.picker.picker_screen import pick_session_inside

    options = PickerOptions(purpose=purpose, view=view_session)
    choice = await pick_session_inside(each_store(stores), options)
    return Path(choice.session.path) if choice else None


def view_session(path: str, line: int | None) -> None:
    """Show a session in a pager; in a process of its own, on the terminal of the picker."""
    place = ["--line", str(line)] if line else []
    subprocess.run(
        [sys.executable, "-P", "-m", "turnlog", "show", "--pager", path, *place],
        stdout=sys.stderr.fileno(),
        check=False,
    )
