"""turnlog calls: list the tool calls of a session."""

from shlex import quote

import click

from turnlog.cli.arguments import json_option, output_option, reveal_switch, session_argument
from turnlog.cli.completions import complete_tool
from turnlog.cli.output import echo_json, plain
from turnlog.cli.sessions import open_named
from turnlog.cli.store_options import with_stores
from turnlog.cli.tables import Column, echo_table, with_rows
from turnlog.cli.terminal import Look, masked_value
from turnlog.conversation.call_titles import call_title
from turnlog.conversation.calls import Call
from turnlog.conversation.session import Session
from turnlog.errors import NotFound
from turnlog.render.json_views import call_view
from turnlog.render.tool_views import outcome_of
from turnlog.store.stores import Stores

FAILED = "✗"


def _look_of(mark: str) -> Look:
    return "red" if mark == FAILED else "cyan"


COLUMNS = (
    Column("line", is_number=True, look="dim"),
    Column("", is_whole=True, look=_look_of),
    Column("tool", look="bold"),
    Column("call", width=20),
    Column("outcome", expendable=1, look="dim"),
    Column("time", is_number=True, expendable=2, look="dim"),
)


@click.command("calls")
@session_argument
@click.option("--tool", metavar="NAME", shell_complete=complete_tool, help="Only this tool.")
@click.option("--errors", is_flag=True, help="Only failed calls.")
@output_option()
@reveal_switch
@json_option
@with_stores
def command(stores: Stores, session: str, tool: str | None, errors: bool, as_json: bool) -> None:
    """List the tool calls of SESSION with their outcome.

    Calls of all branches are listed, in the order of the file.

    \b
    Examples:
      turnlog calls last --errors
      turnlog calls 3f2a --tool Bash
      turnlog calls last --tool Edit --json | jq -r '.[].input.file_path'
    """
    opened = open_named(stores, session)
    chosen = [
        call
        for call in opened.calls
        if (tool is None or call.name == tool) and (call.is_error or not errors)
    ]
    if as_json:
        echo_json([call_view(opened, call, reveal=True) for call in chosen])
        return
    if not opened.calls:
        raise NotFound(f"no calls in {opened.path.name}", f"turnlog show {quote(opened.id)}")
    if not chosen:
        raise NotFound(
            f"no matching calls in {opened.path.name}", f"turnlog calls {quote(opened.id)}"
        )
    echo_table(with_rows(COLUMNS, (_cells(opened, call) for call in chosen)))


def _cells(session: Session, call: Call) -> list[str]:
    detail = session.detail(call)
    title = plain(call_title(call.name, masked_value(detail.input)))
    seconds = f"{detail.duration_ms / 1000:.1f}s" if detail.duration_ms is not None else ""
    mark = FAILED if call.is_error else "●"
    outcome = plain(outcome_of(call.name, detail))
    return [str(call.use.line), mark, plain(call.name), title, outcome, seconds]
