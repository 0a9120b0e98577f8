"""What the commands' arguments and options have in common."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from turnlog.cli.terminal import reveal_secrets
from turnlog.format.regular_files import collect_skipped
from turnlog.store.paths import Store, open_store

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Since(click.ParamType[datetime]):
    """A date, a time, or how long ago: `2026-11-01`, `3d`, `12h`."""

    name = "when"

    def convert(self, value: Any, param: Any, ctx: Any) -> datetime:
        if isinstance(value, datetime):
            return value
        if ago := re.fullmatch(r"(\d+)([mhdw])", value):
            return datetime.now(UTC) - timedelta(**{UNITS[ago[2]]: int(ago[1])})
        try:
            return datetime.fromisoformat(value).astimezone(UTC)
        except ValueError:
            self.fail(
                f"{value!r} is not a date such as 2026-11-01 or an age such as 3d", param, ctx
            )


class Until(Since):
    """As Since; a date alone is the end of that day."""

    def convert(self, value: Any, param: Any, ctx: Any) -> datetime:
        is_day = isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d|\d{8}", value)
        moment = super().convert(value, param, ctx)
        # By the calendar, as some days have 23 or 25 hours.
        midnight = moment.astimezone().replace(tzinfo=None)
        return (midnight + timedelta(days=1)).astimezone(UTC) if is_day else moment


class ClientVersion(click.ParamType[str]):
    """A version of the client, such as 2.1.45."""

    name = "version"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        if not re.fullmatch(r"\d+(\.\d+){1,3}", value):
            self.fail(f"{value!r} is not a client version such as 2.1.45", param, ctx)
        return value


def client_version_option(help_text: str) -> Callable[[Any], Any]:
    """The option that names the client to resume a session with."""
    return click.option(
        "--for", "client_version", type=ClientVersion(), metavar="VERSION", help=help_text
    )


def complete_session(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Complete the id of a session in the shell, with its title as help."""
    from click.shell_completion import CompletionItem

    from turnlog.cli.output import plain
    from turnlog.store.catalog import describe, list_sessions

    store = ctx.obj if isinstance(ctx.obj, Store) else open_store()
    with collect_skipped():  # a shell shows nothing but completions
        found = [each for each in list_sessions(store) if each.id.startswith(incomplete)]
    return [CompletionItem(each.id, help=plain(describe(each).title)) for each in found[:50]]


session_argument = click.argument("session", shell_complete=complete_session)
branch_option = click.option(
    "--branch", metavar="UUID", help="The branch that ends here; by default the active one."
)


def _reveal(ctx: click.Context, param: click.Parameter, is_wanted: bool) -> bool:
    reveal_secrets(is_wanted)
    return is_wanted


reveal_option = click.option(
    "--reveal", is_flag=True, callback=_reveal, help="Show secrets, which are masked."
)
reveal_switch = click.option(
    "--reveal",
    is_flag=True,
    callback=_reveal,
    expose_value=False,
    help="Show secrets, which are masked.",
)
"""For commands that only print: what they print is revealed."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
csv_option = click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
