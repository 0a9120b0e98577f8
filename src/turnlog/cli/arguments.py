"""Arguments and options that commands share; each option has one spelling and one meaning."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from turnlog.cli.completions import complete_project
from turnlog.cli.output_file import redirect_output
from turnlog.cli.picking import PickedArgument
from turnlog.cli.terminal import reveal_secrets
from turnlog.errors import UsageError
from turnlog.format.timestamps import parse_since, parse_until

if TYPE_CHECKING:
    from click.parser import _OptionParser  # pyright: ignore[reportPrivateUsage]

WHEN = "a date, an age (3d, 12h), today or yesterday"
REVEAL = "Show secrets instead of masking them."

Decorator = Callable[[Any], Any]


class AliasedOption(click.Option):
    """An option with former spellings that still work, but appear in no help or completion."""

    def __init__(self, *args: Any, aliases: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.aliases = tuple(aliases)

    def add_to_parser(self, parser: "_OptionParser", ctx: click.Context) -> None:
        # click derives the parser, the help and the completion from `opts`: only the parser may
        # see the aliases.
        visible = self.opts
        self.opts = [*visible, *self.aliases]
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts = visible


def chosen_format(given: dict[str, Any]) -> str:
    """Take --format, --json and --csv from parsed options; return `table`, `json` or `csv`."""
    form, is_json, is_csv = (given.pop(name) for name in ("form", "as_json", "as_csv"))
    chosen = {name for name, is_set in ((form, form), ("json", is_json), ("csv", is_csv)) if is_set}
    if len(chosen) > 1:
        raise click.UsageError(f"choose one output format, not {' and '.join(sorted(chosen))}")
    return chosen.pop() if chosen else "table"


class Since(click.ParamType[datetime]):
    """A date, a time, an age or a named day: `2026-11-01`, `3d`, `12h`, `yesterday`."""

    name = "when"
    parse = staticmethod(parse_since)

    def convert(self, value: Any, param: Any, ctx: Any) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return self.parse(value)
        except UsageError as error:
            self.fail(error.message, param, ctx)


class Until(Since):
    """Like `Since`, but a day is included up to its end."""

    parse = staticmethod(parse_until)


class ClientVersion(click.ParamType[str]):
    """A version of the client, such as 2.1.45."""

    name = "version"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        if not re.fullmatch(r"\d+(\.\d+){1,3}", value):
            self.fail(f"{value!r} is not a client version such as 2.1.45", param, ctx)
        return value


def client_version_option(help_text: str) -> Decorator:
    """Return the option that names the client version to resume a session with."""
    return click.option(
        "--for", "client_version", type=ClientVersion(), metavar="VERSION", help=help_text
    )


def since_option(subject: str) -> Decorator:
    """Return the option that leaves out anything older than a moment."""
    return click.option("--since", type=Since(), help=f"Only {subject} since WHEN: {WHEN}.")


def until_option(subject: str) -> Decorator:
    """Return the option that leaves out anything newer than a moment."""
    return click.option("--until", type=Until(), help=f"Only {subject} until WHEN, inclusive.")


def limit_option(
    subject: str, default: int | None, note: str = "", is_long_only: bool = False
) -> Decorator:
    """Return the option that limits how many results are printed; 0 means no limit."""
    return click.option(
        *(("--limit",) if is_long_only else ("-n", "--limit")),
        type=click.IntRange(0),
        default=default,
        show_default=default is not None,
        metavar="N",
        help=f"Print at most N {subject}; 0 for all{note}.",
    )


def output_option(is_exposed: bool = False, is_long_only: bool = False) -> Decorator:
    """Return the option that writes a command's output to a file instead of stdout."""
    return click.option(
        *(("--output",) if is_long_only else ("-o", "--output")),
        metavar="FILE",
        type=click.Path(dir_okay=False, allow_dash=True),
        callback=redirect_output,
        expose_value=is_exposed,
        help="Write to FILE instead of stdout.",
    )


def into_option(help_text: str) -> Decorator:
    """Return the option that names a directory to write to; `--to` is its former name."""
    return click.option(
        "--into",
        type=click.Path(path_type=Path),
        metavar="DIR",
        cls=AliasedOption,
        aliases=["--to"],
        help=help_text,
    )


def all_option(help_text: str) -> Decorator:
    """Return the option that selects every session instead of named ones."""
    return click.option("-a", "--all", "every", is_flag=True, help=help_text)


session_argument = click.argument("session", cls=PickedArgument)
"""On a terminal, the user picks a session if none is named."""
project_option = click.option(
    "--project",
    metavar="TEXT",
    shell_complete=complete_project,
    help="Only projects whose directory is TEXT or contains it.",
)
leaf_option = click.option(
    "--leaf",
    metavar="UUID",
    cls=AliasedOption,
    aliases=["--branch"],
    help="Use the branch that ends at UUID instead of the active one.",
)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Show what would change without changing anything."
)
yes_option = click.option(
    "-y", "--yes", is_flag=True, help="Do not ask for confirmation; required without a terminal."
)
format_option = click.option(
    "--format", "form", type=click.Choice(["table", "json", "csv"]), help="Output format."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
csv_option = click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")


def _reveal(ctx: click.Context, param: click.Parameter, is_wanted: bool) -> bool:
    reveal_secrets(is_wanted)
    return is_wanted


reveal_option = click.option("--reveal", is_flag=True, callback=_reveal, help=REVEAL)
reveal_switch = click.option(
    "--reveal", is_flag=True, callback=_reveal, expose_value=False, help=REVEAL
)
"""For commands that only print: it applies to their output, and is not passed to them."""
