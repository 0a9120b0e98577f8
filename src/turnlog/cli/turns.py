"""turnlog turns: the turns of a session, one row each."""

from datetime import timedelta

import click

from turnlog.cli.arguments import branch_option, json_option, reveal_switch, session_argument
from turnlog.cli.output import echo_json, fit, money, plain, width
from turnlog.cli.sessions import leaf_of, open_named
from turnlog.cli.terminal import dim, echo
from turnlog.conversation.prompts import RESUMED_AFTER, prompt_label
from turnlog.conversation.session import Session
from turnlog.conversation.turns import Turn
from turnlog.format.timestamps import parse_timestamp
from turnlog.render.text import times_apart
from turnlog.render.views import cost_of_messages, prompt_of, turn_view, usage_view
from turnlog.store.paths import Store

MINUTE = timedelta(minutes=1)
WIDE = 100
"""Columns from which on the times of turns are shown."""


@click.command("turns")
@session_argument
@branch_option
@click.option(
    "--resumed-after",
    type=click.FloatRange(0, 1e6),
    default=RESUMED_AFTER / MINUTE,
    show_default="5",
    metavar="MINUTES",
    help="Silence that makes a turn a resume, in the `round` of --json.",
)
@reveal_switch
@json_option
@click.pass_obj
def command(
    store: Store, session: str, branch: str | None, resumed_after: float, as_json: bool
) -> None:
    """List the turns of SESSION: prompt, calls, tokens, cost."""
    opened = open_named(store, session)
    leaf = leaf_of(opened, branch)
    turns = opened.turns if leaf is None else opened.turns_to(leaf)
    if as_json:
        threshold = resumed_after * MINUTE
        echo_json([turn_view(opened, turn, reveal=True, resumed_after=threshold) for turn in turns])
        return
    for turn in turns:
        echo(_row(opened, turn))


def _row(session: Session, turn: Turn) -> str:
    """Draw a turn without reading its calls: their inputs and results are most of a file."""
    moment = parse_timestamp(turn.started)
    clock = moment.astimezone().strftime("%m-%d %H:%M") if moment else ""
    said = [message for message in turn.messages if not message.is_synthetic]
    usage, (cost, _) = usage_view(said), cost_of_messages(said)
    tokens = sum(getattr(usage, name) for name in usage.__struct_fields__)
    before = f"{turn.n:>4}  {clock:11}  "
    failed = sum(call.result is not None and call.is_error for call in turn.calls)
    calls = f"{len(turn.calls)} calls" + (f" ({failed} failed)" if failed else "")
    working, elapsed = times_apart(turn.working_ms, turn.elapsed_ms)
    times = f"  {working:>7} {elapsed and f'({elapsed})':>8}" if width() >= WIDE else ""
    after = f"{times}  {calls:>10}  {tokens:>11,}  {money(cost):>9}"
    mark = "" if turn.kind == "typed" else f"({(turn.kind or 'start').replace('_', ' ')}) "
    mark += "" if turn.is_complete else "(no answer) "
    label = prompt_of(session, turn, reveal=True, told=prompt_label)
    room = width() - len(before) - len(after)
    return f"{dim(before)}{fit(mark + plain(label), room)}{dim(after)}"
