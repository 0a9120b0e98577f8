"""turnlog turns: list the turns of a session, one row each."""

from datetime import timedelta

import click

from turnlog.cli.arguments import (
    json_option,
    leaf_option,
    output_option,
    reveal_switch,
    session_argument,
)
from turnlog.cli.output import echo_json, plain
from turnlog.cli.sessions import leaf_of, open_lazily
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
@leaf_option
@click.option(
    "--resumed-after",
    type=click.FloatRange(0, 1_000_000),
    default=RESUMED_AFTER / MINUTE,
    metavar="MINUTES",
    help="In JSON, call a turn after this much silence a resume; by default 5.",
)
@output_option()
@reveal_switch
@json_option
@click.pass_obj
def command(
    store: Store,
    session: str,
    leaf: str | None,
    resumed_after: float,
    as_json: bool,
) -> None:
    """List the turns of SESSION with calls, tokens and cost.

    A turn is a prompt and everything done to answer it. `time` is the time spent working,
    `elapsed` includes waiting for you.

    \b
    Examples:
      turnlog turns last
      turnlog turns 3f2a --json | jq '.[] | .cost_usd'
    """
    opened = open_lazily(store, session)
    rank = leaf_of(opened, leaf)
    turns = opened.turns if rank is None else opened.turns_to(rank)
    if as_json:
        threshold = resumed_after * MINUTE
        echo_json([turn_view(opened, turn, reveal=True, resumed_after=threshold) for turn in turns])
        return
    echo_table(with_rows(COLUMNS, (_cells(opened, turn) for turn in turns)))


def _cells(session: Session, turn: Turn) -> list[str]:
    """Describe a turn without reading its calls: their inputs and results are most of a file."""
    moment = parse_timestamp(turn.started)
    clock = moment.astimezone().strftime("%m-%d %H:%M") if moment else ""
    messages = [message for message in turn.messages if not message.is_synthetic]
    usage, (cost, _) = usage_view(messages), cost_of_messages(messages)
    tokens = sum(getattr(usage, name) for name in usage.__struct_fields__)
    failed = sum(call.result is not None and call.is_error for call in turn.calls)
    working, elapsed = times_apart(turn.working_ms, turn.elapsed_ms)
    mark = "" if turn.kind == "typed" else f"({(turn.kind or 'start').replace('_', ' ')}) "
    mark += "" if turn.is_complete else "(no answer) "
    label = prompt_of(session, turn, reveal=True, text_of=prompt_label)
    counts = [f"{len(turn.calls):,}", f"{failed:,}" if failed else "", f"{tokens:,}"]
    times = [working, elapsed]
    return [str(turn.n), clock, mark + plain(label), *times, *counts, exact_money(cost)]
