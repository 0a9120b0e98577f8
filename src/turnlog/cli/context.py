"""turnlog context: what the client would send to the model."""

import click

from turnlog.cli.arguments import json_option, reveal_switch, session_argument
from turnlog.cli.output import echo_json, fit, plain, width
from turnlog.cli.sessions import leaf_of, open_named
from turnlog.cli.terminal import echo, masked_value, style
from turnlog.conversation.session import Session
from turnlog.edit.check import name_of
from turnlog.format.values import Fields
from turnlog.store.paths import Store


@click.command("context")
@session_argument
@click.option("--at", metavar="UUID", help="At this entry; by default where the session goes on.")
@click.option(
    "--all-history",
    "--from-start",
    "all_history",
    is_flag=True,
    help="Include what the client leaves out: history before a compaction or a missing parent.",
)
@reveal_switch
@json_option
@click.pass_obj
def command(store: Store, session: str, at: str | None, all_history: bool, as_json: bool) -> None:
    """Print the messages that the client would send when it resumes SESSION.

    Left out is what the client makes anew each time: reminders, and the next prompt.
    """
    opened = open_named(store, session)
    leaf = leaf_of(opened, at)
    messages = opened.history(leaf) if all_history else opened.context(leaf)
    if not all_history:
        _report_cut(opened, leaf)
    if as_json:
        echo_json(messages)
        return
    for message in masked_value(messages):
        for block in message["content"]:
            echo(_row(message["role"], block))


def _report_cut(opened: Session, leaf: int | None) -> None:
    """Print on stderr where the client starts because a parent is missing."""
    start = opened.late_start(leaf)
    if start:
        echo(
            f"turnlog: line {start.line} names a parent that is missing: the client starts there "
            f"(try: turnlog context {name_of(opened.path)} --all-history)",
            err=True,
        )


def _row(role: str, block: Fields) -> str:
    kind = str(block.get("type"))
    text = block.get("text") or block.get("thinking") or block.get("content") or block.get("input")
    label = fit(plain(f"{role} {kind}"), 22)
    name = f"{block.get('name')}: " if kind == "tool_use" else ""
    colour = "green" if role == "user" else "cyan"
    shown = plain(f"{name}{text or ''}")
    return f"{style(label, colour)}  {fit(shown, width() - 24)}"
