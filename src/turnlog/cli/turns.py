"""turnlog turns: list the turns of a session, one row each."""

from collections.abc import Iterator, Sequence
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
from turnlog.cli.store_options import with_stores
from turnlog.cli.tables import Column, echo_rows
from turnlog.conversation.prompts import RESUMED_AFTER, prompt_label, round_of, turn_marks
from turnlog.conversation.session import Session
from turnlog.conversation.turn_figures import TurnFigures, outline_of
from turnlog.format.entries import User
from turnlog.format.timestamps import parse_timestamp
from turnlog.render.json_views import turn_view
from turnlog.render.terminal_text import times_apart
from turnlog.store.stores import Stores
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
PART = 200
"""Turns to read at once."""


@click.command("turns")
@session_argument
@leaf_option
@click.option(
    "--resumed-after",
    type=click.FloatRange(0, 1_000_000),
    default=RESUMED_AFTER / MINUTE,
    metavar="MINUTES",
    help="Count a turn as resumed after a pause of this length; by default 5.",
)
@output_option()
@reveal_switch
@json_option
@with_stores
def command(
    stores: Stores,
    session: str,
    leaf: str | None,
    resumed_after: float,
    as_json: bool,
) -> None:
    """List the turns of SESSION with calls, tokens and cost.

    A turn is a prompt and everything done to answer it; the first one and those after a pause are
    marked. `time` is the time spent working, `elapsed` includes waiting for you.

    \b
    Examples:
      turnlog turns last
      turnlog turns 3f2a --json | jq '.[] | .cost_usd'
    """
    opened = open_lazily(stores, session)
    rank = leaf_of(opened, leaf)
    threshold = resumed_after * MINUTE
    if as_json:
        turns = opened.turns if rank is None else opened.turns_to(rank)
        echo_json([turn_view(opened, turn, reveal=True, resumed_after=threshold) for turn in turns])
        return
    echo_rows(COLUMNS, _rows(opened, rank, threshold))


def _rows(session: Session, leaf: int | None, resumed_after: timedelta) -> Iterator[list[str]]:
    """Yield a row for each turn, read in parts: a session may have 500,000 turns."""
    turns = session.turns if leaf is None else session.turns_to(leaf)
    for start in range(0, len(turns), PART):
        if leaf is None:
            outline = session.outline(start, start + PART)
            prompts = session.prompts(start, start + PART)
        else:
            outline = outline_of(turns[start : start + PART])
            prompts = [turn.prompt for turn in turns[start : start + PART]]
        figures = map(TurnFigures, *outline.values())
        entries = session.entries(filter(None, prompts))
        for n, (turn, prompt) in enumerate(zip(figures, prompts, strict=True), start + 1):
            entry = next(entries) if prompt else None
            label = prompt_label(entry) if isinstance(entry, User) else ""
            follows = round_of(turn.kind, n, turn.idle_ms, resumed_after)
            marks = turn_marks(follows, turn.kind or "start")
            yield _cells(n, turn, marks, label)


def _cells(n: int, turn: TurnFigures, marks: Sequence[str], label: str) -> list[str]:
    moment = parse_timestamp(turn.started)
    clock = moment.astimezone().strftime("%m-%d %H:%M") if moment else ""
    working, elapsed = times_apart(turn.working_ms, turn.elapsed_ms)
    marks = [*marks, *([] if turn.is_complete else ["no answer"])]
    mark = f"({', '.join(marks)}) " if marks else ""
    failed = f"{turn.failed:,}" if turn.failed else ""
    figures = [f"{turn.calls:,}", failed, f"{turn.tokens:,}", exact_money(turn.cost_usd)]
    return [str(n), clock, mark + plain(label), working, elapsed, *figures]
