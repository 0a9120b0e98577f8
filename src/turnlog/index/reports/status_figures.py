"""Compute the figures of a status line: cost of the session, of today and of the current window."""

import sqlite3
from datetime import date, datetime, time
from pathlib import Path
from typing import NamedTuple

from turnlog.index.reports.reports import Filters, run_report

WINDOW_HOURS = 5


class Status(NamedTuple):
    """The figures of a status line; None where unknown."""

    session_usd: float | None
    today_usd: float | None = None
    window_usd: float | None = None
    window_ends: str | None = None
    context_tokens: int | None = None
    """Tokens of the session's last request, including its answer."""
    model: str | None = None


def status_of(db: sqlite3.Connection, session: str, now: float) -> Status:
    """Return the figures for a session at a moment."""
    # Local time first: on a day when clocks change, midnight has another offset than now.
    midnight = datetime.combine(date.fromtimestamp(now), time()).astimezone()
    window = _window(db, now)
    last = db.execute(LAST_MESSAGE, (session,)).fetchone()
    return Status(
        session_usd=db.execute(SESSION_COST, (session,)).fetchone()[0],
        today_usd=db.execute(COST_SINCE, (midnight.timestamp(),)).fetchone()[0],
        window_usd=window[0],
        window_ends=window[1],
        context_tokens=last[0] if last else None,
        model=last[1] if last else None,
    )


def status_of_file(session: Path) -> Status:
    """Return the figures of a session that is in no index, from its files."""
    # Not at the top: with an index, a status line does not need these modules.
    from turnlog.conversation.charges import charges_of
    from turnlog.conversation.request_costs import prompt_tokens
    from turnlog.conversation.session import open_session
    from turnlog.conversation.turn_figures import cost_of_messages
    from turnlog.format.fields import given

    charges = [each.messages for each in charges_of(open_session(session))]
    cost, _ = cost_of_messages([message for messages in charges for message in messages])
    last = next((each for each in reversed(charges[0]) if not each.is_synthetic), None)
    if last is None:
        return Status(cost)
    tokens = prompt_tokens(last) + (given(last.usage.output_tokens) or 0)
    return Status(cost, context_tokens=tokens, model=last.model)


def _window(db: sqlite3.Connection, now: float) -> tuple[float | None, str | None]:
    since = now - WINDOW_HOURS * 3600
    for row in run_report(db, "blocks", Filters(since=since), now=now).rows:
        if row["is_active"]:
            cost, ends = row["cost_usd"], row["ends"]
            return cost if isinstance(cost, float) else None, str(ends)
    return None, None


SESSION_COST = """
SELECT sum(m.cost) FROM messages m JOIN files f ON f.id = m.file WHERE f.session = ?
"""
COST_SINCE = "SELECT total(cost) FROM messages WHERE counts = 1 AND at >= ?"
LAST_MESSAGE = """
SELECT m.input + m.cache_read + m.cache_write_5m + m.cache_write_1h + m.output, m.model
FROM messages m JOIN files f ON f.id = m.file
WHERE f.session = ? AND NOT m.is_subagent ORDER BY m.at DESC, m.line DESC LIMIT 1
"""
