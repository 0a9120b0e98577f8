"""turnlog turns: the turns of a session, one row each."""

from datetime import timedelta

import click

from turnlog.cli.arguments import branch_option, json_option, reveal_switch, session_argument
from turnlog.cli.output import echo_json, plain
from turnlog.cli.sessions import leaf_of, open_named
from turnlog.cli.tables import Column, echo_table, with_rows
from turnlog.conversation.prompts import RESUMED_AFTER, prompt_label
from turnlog.conversation.session import Session
from turnlog.conversation.turns import Turn
from turnlog.format.timestamps import parse_timestamp
from turnlog.render.json_views import cost_of_messages, prompt_of, turn_view, usage_view
from turnlog.render.terminal_text import times_apart
from turnlog.store.paths import Store
from turnlog.text import exact_money

COLUMNS = (
    Column("turn", is_number=True, look="dim"),
    Column("started", is_whole=True, expendable=3, look="dim"),
    Column("prompt", width=24),
    Column("time", is_number=True, expendable=5, look="dim"),
    Column("elapsed", is_number=True, expendable=6, look="dim"),
    Column("calls", is_number=True, expendable=2, look="dim"),
    Column("failed", is_number=True, expendable=4, look="red"),
    Column("tokens", is_number=True, expendable=1, look="dim"),
    Column("cost", is_number=True, look="dim"),
)
MINUTE = timedelta(minutes=1)


@click.command("turns")
@session_argument
@branch_option
@click.option(
    "--resumed-after",
    type=click.FloatRange(0, 1_000_000),
    default=RESUMED_AFTER / MINUTE,
    metavar="MINUTES",
    help="Silence after which --json calls a turn's `round` a resume; by default 5.",
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
    echo_table(with_rows(COLUMNS, (_cells(opened, turn) for turn in turns)))


def _cells(session: Session, turn: Turn) -> list[str]:
    """Describe a turn without reading its calls: their inputs and results are most of a file."""
    moment = parse_timestamp(turn.started)
    clock = moment.astimezone().strftime("%m-%d %H:%M") if moment else ""
    said = [message for message in turn.messages if not message.is_synthetic]
    usage, (cost, _) = usage_view(said), cost_of_messages(said)
    tokens = sum(getattr(usage, name) for name in usage.__struct_fields__)
    failed = sum(call.result is not None and call.is_error for call in turn.calls)
    working, elapsed = times_apart(turn.working_ms, turn.elapsed_ms)
    mark = "" if turn.kind == "typed" else f"({(turn.kind or 'start').replace('_', ' ')}) "
    mark += "" if turn.is_complete else "(no answer) "
    label = prompt_of(session, turn, reveal=True, text_of=prompt_label)
    counts = [f"{len(turn.calls):,}", f"{failed:,}" if failed else "", f"{tokens:,}"]
    times = [working, elapsed]
    return [str(turn.n), clock, mark + plain(label), *times, *counts, exact_money(cost)]
