"""turnlog turns: the turns of a session, one row each."""

import click

from turnlog.cli.arguments import branch_option, json_option, reveal_switch, session_argument
from turnlog.cli.output import echo_json, fit, money, plain, width
from turnlog.cli.sessions import leaf_of, open_named
from turnlog.cli.terminal import dim, echo
from turnlog.format.timestamps import parse_timestamp
from turnlog.render.views import TurnView, turn_view
from turnlog.store.paths import Store


@click.command("turns")
@session_argument
@branch_option
@reveal_switch
@json_option
@click.pass_obj
def command(store: Store, session: str, branch: str | None, as_json: bool) -> None:
    """List the turns of SESSION: prompt, calls, tokens, cost."""
    opened = open_named(store, session)
    leaf = leaf_of(opened, branch)
    turns = opened.turns if leaf is None else opened.turns_to(leaf)
    views = [turn_view(opened, turn, reveal=True) for turn in turns]
    if as_json:
        echo_json(views)
        return
    for view in views:
        echo(_row(view, width()))


def _row(view: TurnView, columns: int) -> str:
    moment = parse_timestamp(view.started)
    clock = moment.astimezone().strftime("%m-%d %H:%M") if moment else ""
    tokens = sum(getattr(view.usage, name) for name in view.usage.__struct_fields__)
    before = f"{view.n:>4}  {clock:11}  "
    failed = sum(call.ok is False for call in view.calls)
    calls = f"{len(view.calls)} calls" + (f" ({failed} failed)" if failed else "")
    after = f"  {calls:>10}  {tokens:>11,}  {money(view.cost_usd):>9}"
    mark = "" if view.kind == "typed" else f"({(view.kind or 'start').replace('_', ' ')}) "
    mark += "" if view.complete else "(no answer) "
    room = columns - len(before) - len(after)
    return f"{dim(before)}{fit(mark + plain(view.label), room)}{dim(after)}"
