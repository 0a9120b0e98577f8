"""turnlog context: print the messages that the client would send on resume."""

import click

from turnlog.cli.arguments import (
    AliasedOption,
    json_option,
    output_option,
    reveal_switch,
    session_argument,
)
from turnlog.cli.output import echo_json, plain, width
from turnlog.cli.sessions import leaf_of, open_named
from turnlog.cli.store_options import with_stores
from turnlog.cli.suggested_commands import to_type
from turnlog.cli.tables import Column, Table
from turnlog.cli.terminal import Look, echo, masked_value
from turnlog.conversation.session import Session
from turnlog.edit.check.checks import name_of
from turnlog.format.json_values import Fields
from turnlog.store.stores import Stores


@click.command("context")
@session_argument
@click.option(
    "--at", metavar="UUID", help="Stop at this entry instead of the end of the active branch."
)
@click.option(
    "--all-history",
    is_flag=True,
    cls=AliasedOption,
    aliases=["--from-start"],
    help="Include history before compactions and missing parents, which the client omits.",
)
@output_option()
@reveal_switch
@json_option
@with_stores
def command(
    stores: Stores,
    session: str,
    at: str | None,
    all_history: bool,
    as_json: bool,
) -> None:
    """Print the messages the client would send to resume SESSION.

    Reminders and the system prompt, which the client generates for every request, are not
    included.

    \b
    Examples:
      turnlog context last
      turnlog context last --json > messages.json
      turnlog context 3f2a --at 9b1c04d2 --all-history
    """
    opened = open_named(stores, session)
    leaf = leaf_of(opened, at)
    messages = opened.history(leaf) if all_history else opened.context(leaf)
    if not all_history:
        _report_cut(opened, leaf)
    if as_json:
        echo_json(messages)
        return
    table = Table(COLUMNS, width())
    echo(table.head())
    for message in masked_value(messages):
        for block in message["content"]:
            echo(table.row(_cells(message["role"], block)).rstrip())


def _report_cut(opened: Session, leaf: int | None) -> None:
    """Print on stderr where the client starts because a parent is missing."""
    start = opened.late_start(leaf)
    if start:
        hint = to_type(f"turnlog context {name_of(opened.path)} --all-history")
        echo(
            f"turnlog: line {start.line} names a parent that is missing: the client starts there "
            f"(try: {hint})",
            err=True,
        )


def _cells(role: str, block: Fields) -> list[str]:
    kind = str(block.get("type"))
    text = block.get("text") or block.get("thinking") or block.get("content") or block.get("input")
    name = f"{block.get('name')}: " if kind == "tool_use" else ""
    return [plain(f"{role} {kind}"), plain(f"{name}{text or ''}")]


def _look_of(label: str) -> Look:
    return "green" if label.startswith("user") else "cyan"


COLUMNS = (
    Column("message", width=22, look=_look_of),
    Column("content", width=16, is_filling=True),
)
