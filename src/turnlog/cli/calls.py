"""turnlog calls: the tool calls of a session."""

from dataclasses import replace

import click

from turnlog.cli.arguments import json_option, reveal_switch, session_argument
from turnlog.cli.output import echo_json, fit, plain, width
from turnlog.cli.sessions import open_named
from turnlog.cli.terminal import dim, echo, masked_value, style
from turnlog.conversation.calls import Call
from turnlog.conversation.session import Session
from turnlog.errors import NotFound
from turnlog.render.tools import outcome_of, title_of
from turnlog.render.views import call_view
from turnlog.store.paths import Store


@click.command("calls")
@session_argument
@click.option("--tool", metavar="NAME", help="Only calls of this tool.")
@click.option("--errors", is_flag=True, help="Only calls that failed.")
@reveal_switch
@json_option
@click.pass_obj
def command(store: Store, session: str, tool: str | None, errors: bool, as_json: bool) -> None:
    """List the tool calls of SESSION, of all its branches."""
    opened = open_named(store, session)
    chosen = [
        call
        for call in opened.calls
        if (tool is None or call.name == tool) and (call.is_error or not errors)
    ]
    if as_json:
        echo_json([call_view(opened, call, reveal=True) for call in chosen])
        return
    if not chosen:
        raise NotFound(f"no such calls in {opened.path.name}", f"turnlog calls {opened.id}")
    for call in chosen:
        echo(_row(opened, call))


def _row(session: Session, call: Call) -> str:
    detail = session.detail(call)
    title = plain(title_of(call.name, replace(detail, input=masked_value(detail.input))))
    mark = style("✗", "red") if call.is_error else style("●", "cyan")
    seconds = f"{detail.duration_ms / 1000:.1f}s" if detail.duration_ms is not None else ""
    after = f"  {plain(outcome_of(call.name, detail)):>14}  {seconds:>7}"
    before = f"{call.use.line:>6}  "
    room = width() - len(before) - 2 - 12 - 1 - len(after)
    name = style(fit(plain(call.name), 12), "bold")
    return f"{dim(before)}{mark} {name} {fit(title, room)}{dim(after)}"
