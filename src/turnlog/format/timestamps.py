"""Timestamps of entries as moments in time."""

from datetime import UTC, datetime, timedelta

TICK = timedelta(milliseconds=1)
"""The least by which timestamps differ."""
STEPS = ((60, "s"), (60, "m"), (24, "h"), (7, "d"), (52, "w"))


def parse_timestamp(text: str | None) -> datetime | None:
    """The moment that an entry's timestamp names, in UTC; None where it names none.

    >>> parse_timestamp("2026-11-15T06:26:50.450Z").isoformat()
    '2026-11-15T06:26:50.450000+00:00'
    """
    try:
        moment = datetime.fromisoformat(text or "")
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def seconds_of(text: str | None) -> float | None:
    """The same moment in seconds since 1970.

    >>> seconds_of("2026-11-15T06:26:50.450Z")
    1794724010.45
    """
    try:
        moment = datetime.fromisoformat(text or "")
        if moment.tzinfo is not None and 1 < moment.year < 9999:  # no conversion can overflow
            return moment.timestamp()
    except ValueError:
        return None
    converted = parse_timestamp(text)
    return converted.timestamp() if converted else None


def stamp_of(moment: datetime) -> str:
    """A moment in UTC as the client writes it.

    >>> stamp_of(datetime(2026, 11, 15, 6, 26, tzinfo=UTC))
    '2026-11-15T06:26:00.000Z'
    """
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def age(moment: datetime, now: datetime | None = None) -> str:
    """How long ago something was, short.

    >>> age(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 3, tzinfo=UTC))
    '3h'
    """
    count = max(0, int(((now or datetime.now(UTC)) - moment).total_seconds()))
    for limit, unit in STEPS:
        if count < limit:
            return f"{count}{unit}"
        count //= limit
    return f"{count}y"
