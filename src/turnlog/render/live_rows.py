"""Running sessions as JSON, the same for `turnlog live --json` and the web app."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from turnlog.conversation.live import ORDER, LiveLane, LiveSession
from turnlog.format.json_values import Fields
from turnlog.format.timestamps import stamp_of
from turnlog.text import money, plural


def live_row(lane: LiveLane, now: float) -> Fields:
    """Return a session or sub-agent as JSON, with timestamps and the fill level of its context."""
    row: Fields = msgspec.to_builtins(lane)
    row["since"] = _stamp(lane.since)
    row["seconds"] = round(max(0.0, now - lane.since), 1)
    row["fill"] = lane.fill
    row["activity"] = [[_stamp(start), _stamp(end)] for start, end in lane.activity]
    if isinstance(lane, LiveSession):
        row["started"] = _stamp(lane.started)
        row["agents"] = [live_row(agent, now) for agent in lane.agents]
    return row


def live_summary(sessions: Sequence[LiveSession]) -> str:
    """Return one line about all running sessions.

    >>> live_summary([])
    'No session is running.'
    """
    if not sessions:
        return "No session is running."
    counts = Counter(session.state for session in sessions)
    states = [f"{counts[state]} {state}" for state in ORDER if counts[state]]
    agents = sum(len(session.agents) for session in sessions)
    rate = sum(session.usd_per_hour for session in sessions)
    parts = [plural(len(sessions), "session"), *states]
    parts += [plural(agents, "sub-agent")] if agents else []
    return " · ".join([*parts, f"{money(rate)}/h"])


def _stamp(seconds: float | None) -> str | None:
    return stamp_of(datetime.fromtimestamp(seconds, UTC)) if seconds is not None else None
