"""turnlog live: show the running sessions of this machine."""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

import click

from turnlog.cli.arguments import json_option
from turnlog.cli.charts import bar
from turnlog.cli.output import echo_json, plain, width
from turnlog.cli.store_options import with_stores
from turnlog.cli.tables import Column, Table, with_rows
from turnlog.cli.terminal import Look, dim, echo
from turnlog.conversation.live import LiveLane, LiveReader, LiveSession
from turnlog.conversation.live_states import LiveState, StateSource
from turnlog.conversation.models import model_name
from turnlog.render.live_rows import live_row, live_summary
from turnlog.store.stores import Stores
from turnlog.text import guarded, money, percent, short_duration

LOOK_SECONDS = 0.5
"""Polling interval in seconds; the screen is drawn only if something changed."""
BAR = 8
INFERRED = "~"
WIDE = 120
"""Minimum terminal width for the full names of states."""
SHORT = {LiveState.PERMISSION: "permission", LiveState.INPUT: "input"}
LOOKS: dict[LiveState, Look] = {
    LiveState.WORKING: "green",
    LiveState.PERMISSION: "red",
    LiveState.INPUT: "yellow",
    LiveState.IDLE: "dim",
}
COLUMNS = (
    Column("state", is_whole=True),
    Column("for", is_number=True, look="dim"),
    Column("project", expendable=2, look="dim"),
    Column("title", width=24),
    Column("pid", is_number=True, expendable=7, look="dim"),
    Column("model", expendable=5, look="dim"),
    Column("context", is_whole=True, expendable=3, look="cyan"),
    Column("turns left", is_number=True, expendable=4),
    Column("cost", is_number=True),
    Column("$/h", is_number=True, expendable=1),
    Column("detail", expendable=6, look="dim"),
)


@click.command("live")
@click.option("--once", is_flag=True, help="Print the sessions once instead of following them.")
@json_option
@with_stores
def command(stores: Stores, once: bool, as_json: bool) -> None:
    """Show the running sessions of this machine with their sub-agents.

    Each is working, waiting for permission, waiting for input, or idle. The state comes from the
    client, or, marked ~, from the session's last lines. Cost is at list prices, turns left is the
    estimated number of turns until the context is compacted. Press Ctrl-C to stop.

    With --json, or if the output is not a terminal, prints once.

    \b
    Examples:
      turnlog live
      turnlog live --once
      turnlog live --json | jq -r '.[] | select(.state | startswith("waiting")) | .title'
    """
    reader = LiveReader(stores)
    if as_json:
        now = time.time()
        echo_json([live_row(session, now) for session in reader.read(now, most=None)])
    elif once or not sys.stdout.isatty():
        for line in draw(reader.read(most=None), time.time(), width()):
            echo(line)
    else:
        with suppress(KeyboardInterrupt):
            _follow(reader)


def draw(sessions: Sequence[LiveSession], now: float, room: int) -> list[str]:
    """Return the lines of the table, and a summary above it."""
    summary = live_summary(sessions)
    if not sessions:
        return [summary]
    lanes = _lanes(sessions)
    rows = [_cells(lane, now, is_wide=room >= WIDE) for lane in lanes]
    table = Table(with_rows(COLUMNS, rows), room)
    lines = [
        table.row(row, {"state": LOOKS[lane.state]}).rstrip()
        for row, lane in zip(rows, lanes, strict=True)
    ]
    is_marked = any(lane.source is StateSource.INFERRED for lane in lanes)
    notes = [dim(f"{INFERRED} inferred from the last lines")] if is_marked else []
    return [summary, table.head(), *lines, *notes]


def _lanes(sessions: Sequence[LiveSession]) -> list[LiveLane]:
    return [each for session in sessions for each in (session, *session.agents)]


def _cells(lane: LiveLane, now: float, is_wide: bool) -> list[str]:
    is_session = isinstance(lane, LiveSession)
    mark = INFERRED if lane.source is StateSource.INFERRED else " "
    name = lane.state.value if is_wide else SHORT.get(lane.state, lane.state.value)
    partial = "" if lane.is_cost_complete else "+"
    return [
        f"{mark}{name}" if is_session else f"  {mark}{name}",
        _age(now - lane.since),
        plain(lane.project) if is_session else "",
        plain(lane.title) if is_session else f"└ {plain(lane.title)}",
        str(lane.pid) if is_session else "",
        plain(model_name(lane.model).removeprefix("claude-")),
        _context(lane),
        "" if lane.turns_left is None else str(lane.turns_left),
        f"{money(lane.cost_usd)}{partial}",
        money(lane.usd_per_hour) if is_session else "",
        plain(lane.detail),
    ]


def _age(seconds: float) -> str:
    # With tenths of a second, every poll would redraw the screen.
    return short_duration(float(int(max(0.0, seconds)))).replace(".0s", "s")


def _context(lane: LiveLane) -> str:
    if not lane.context_tokens or lane.fill is None:
        return ""
    filled = bar(min(lane.fill, 1.0), 1.0, BAR)
    return f"{filled:·<{BAR}} {percent(lane.fill):>4}"


def _follow(reader: LiveReader) -> None:
    """Draw the table again whenever it has changed, until Ctrl-C."""
    from rich.console import Console, ConsoleDimensions
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    shown: object = None
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            sessions, now, size = reader.read(), time.time(), os.get_terminal_size(1)
            ages = [_age(now - lane.since) for lane in _lanes(sessions)]
            if (sessions, ages, size) != shown:
                shown = sessions, ages, size
                # By default, rich takes the size from COLUMNS and LINES, which may be wrong.
                console.size = ConsoleDimensions(size.columns, size.lines)
                lines = _cropped(draw(sessions, now, size.columns), size.lines - 1)
                lines.append(dim("Ctrl-C stops"))
                text = Text.from_ansi(guarded("\n".join(lines)), no_wrap=True, overflow="crop")
                live.update(text, refresh=True)
            time.sleep(LOOK_SECONDS)


def _cropped(lines: list[str], rows: int) -> list[str]:
    """Leave out lines that do not fit on the screen, and say how many."""
    if len(lines) <= rows:
        return [*lines]
    kept = lines[: max(1, rows - 1)]
    return [*kept, dim(f"… {len(lines) - len(kept)} more")]
