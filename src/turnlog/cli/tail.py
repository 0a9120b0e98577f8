"""turnlog tail: print entries as they are written."""

from pathlib import Path

import click

from turnlog.cli.arguments import AliasedOption, json_option, reveal_switch
from turnlog.cli.completions import complete_session
from turnlog.cli.entries import open_table, show_line
from turnlog.cli.store_options import with_stores
from turnlog.cli.terminal import dim, echo
from turnlog.store.session_lookup import find_session
from turnlog.store.stores import Stores
from turnlog.store.watch import watch


@click.command("tail")
@click.argument("session", required=False, shell_complete=complete_session)
@click.option(
    *("-n", "--limit"),
    type=click.IntRange(0),
    metavar="N",
    cls=AliasedOption,
    aliases=["--lines"],
    help="Start with the last N lines; by default 10 with SESSION, else 0.",
)
@reveal_switch
@json_option
@with_stores
def command(stores: Stores, session: str | None, limit: int | None, as_json: bool) -> None:
    """Follow SESSION, or all sessions, as entries are written.

    Press Ctrl-C to stop. With --json, prints one JSON object per line.

    \b
    Examples:
      turnlog tail
      turnlog tail last -n 50
      turnlog tail --json | jq -r .kind
    """
    paths = [find_session(stores, session).path] if session else _folders(stores)
    last = limit if limit is not None else 10 if session else 0
    shown = paths[0]
    table = None if as_json else open_table()
    for changed, line in watch(paths, _is_log, last):
        if changed != shown and not as_json:
            echo(dim(f"==> {changed}"))
        shown = changed
        show_line(line, table)


def _folders(stores: Stores) -> list[Path]:
    found = [store.projects for store in stores if store.projects.is_dir()]
    return found or [stores[0].projects]


def _is_log(path: Path) -> bool:
    return path.suffix == ".jsonl" and not path.name.startswith(".")
