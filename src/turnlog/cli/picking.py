"""Let the user pick a session if the command line names none."""

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
"""Options that select sessions instead of naming them."""


class PickedArgument(click.Argument):
    """The argument SESSION; if it is omitted on a terminal, the user picks a session."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, required=False, shell_complete=complete_session, **attributes)

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        found: Any = super().process_value(ctx, value)
        # click passes a sentinel for an absent value. Completion parses incomplete lines, and must
        # neither ask nor fail.
        is_given = isinstance(found, str | tuple) and found not in ("", ())
        if is_given or ctx.resilient_parsing:
            return found  # pyright: ignore[reportUnknownVariableType]
        if not can_pick():
            hint = self.make_metavar(ctx).replace("[", "").replace("]", "")
            raise click.MissingParameter(ctx=ctx, param=self, param_hint=f"'{hint}'")
        path = let_pick(stores_in(ctx), "", ctx.command.name).session.path
        return (path,) if self.nargs != 1 else path


def can_pick() -> bool:
    """Return whether stdin and stderr are a terminal that can show the picker."""
    is_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    return is_terminal and os.environ.get("TERM") != "dumb"


def named_or_picked(
    ctx: click.Context, sessions: tuple[str, ...], is_selected: bool, options: str, example: str
) -> tuple[str, ...]:
    """Return the sessions that were named; on a terminal, let the user pick one if none was.

    Raise `UsageError` if sessions are both named and selected by options, or if they are neither
    and there is no terminal; `example` is the command in the hint.
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
    """Let the user pick a session inside a running terminal program; None if they cancel.

    Raise `UsageError` if the terminal cannot show the picker.
    """
    if not can_pick():
        raise UsageError("the picker needs a terminal", "/resume SESSION")
    from turnlog.picker.picker import PickerOptions
    from turnlog.picker.picker_screen import pick_session_inside

    options = PickerOptions(purpose=purpose, view=view_session)
    choice = await pick_session_inside(each_store(stores), options)
    return Path(choice.session.path) if choice else None


def view_session(path: str, line: int | None) -> None:
    """Show a session in a pager, in a separate process on the picker's terminal."""
    place = ["--line", str(line)] if line else []
    subprocess.run(
        [sys.executable, "-P", "-m", "turnlog", "show", "--pager", path, *place],
        stdout=sys.stderr.fileno(),
        check=False,
    )
