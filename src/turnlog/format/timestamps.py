"""Timestamps of entries, parsed and formatted."""

from datetime import UTC, datetime, timedelta

TICK = timedelta(milliseconds=1)
"""The smallest difference between two timestamps."""
STEPS = ((60, "s"), (60, "m"), (24, "h"), (7, "d"), (52, "w"))


def parse_timestamp(text: str | None) -> datetime | None:
    """Return the UTC time of an entry's timestamp; None if it is not valid.

    >>> parse_timestamp("2026-11-15T06:26:50.450Z").isoformat()
    '2026-11-15T06:26:50.450000+00:00'
    """
    try:
        moment = datetime.fromisoformat(text or "")
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def seconds_of(text: str | None) -> float | None:
    """Return a timestamp in seconds since 1970; None if it is not valid.

    >>> seconds_of("2026-11-15T06:26:50.450Z")
    1794724010.45
    """
    try:
        moment = datetime.fromisoformat(text or "")
        # Fast path: away from the years 1 and 9999, no time zone conversion can overflow.
        if moment.tzinfo is not None and 1 < moment.year < 9999:
            return moment.timestamp()
    except ValueError:
        return None
    converted = parse_timestamp(text)
    return converted.timestamp() if converted else None


def stamp_of(moment: datetime) -> str:
    """Format a UTC time in the client's format.

    >>> stamp_of(datetime(2026, 11, 15, 6, 26, tzinfo=UTC))
    '2026-11-15T06:26:00.000Z'
    """
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def age(moment: datetime, now: datetime | None = None) -> str:
    """Format the time since a moment, rounded down to one unit.

    >>> age(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 3, tzinfo=UTC))
    '3h'
    """
    count = max(0, int(((now or datetime.now(UTC)) - moment).total_seconds()))
    for limit, unit in STEPS:
        if count < limit:
            return f"{count}{unit}"
        count //= limit
    return f"{count}y"
