"""Timestamps of entries, parsed and formatted."""

import re
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache

from turnlog.errors import UsageError

TICK = timedelta(milliseconds=1)
"""The smallest difference between two timestamps."""
Moment = str | date
"""A point in time as users name it: a time, a day, an age (`3d`, `12h`), `today`, `yesterday`."""
AGE_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
NAMED_DAYS = {"today": 0, "yesterday": 1}
"""How many days ago each named day began."""
STEPS = ((60, "s"), (60, "m"), (24, "h"), (7, "d"), (52, "w"))


@lru_cache(256)  # a turn asks for the same few times again and again
def parse_timestamp(text: str | None) -> datetime | None:
    """Return the UTC time of an entry's timestamp; None if it is not valid.

    Times in the years 1 and 9999 count as invalid: they can overflow in the reader's time zone.

    >>> parse_timestamp("2026-11-15T06:26:50.450Z").isoformat()
    '2026-11-15T06:26:50.450000+00:00'
    """
    try:
        moment = datetime.fromisoformat(text or "")
        if moment.tzinfo is None:
            found = moment.replace(tzinfo=UTC)
        else:
            found = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    # Go writes 0001-01-01T00:00:00Z for "no time". It has no local time west of Greenwich, because
    # datetime has no year 0; nor has the end of the year 9999 east of it.
    return found if 1 < found.year < 9999 else None


def seconds_of(text: str | None) -> float | None:
    """Return a timestamp in seconds since 1970; None if it is not valid.

    >>> seconds_of("2026-11-15T06:26:50.450Z")
    1794724010.45
    """
    try:
        moment = datetime.fromisoformat(text or "")
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


def parse_since(when: Moment) -> datetime:
    """Return when a time, a day or an age begins, in UTC; raise UsageError for other texts.

    Times and days without a zone are local.

    >>> parse_since("2026-11-15T06:26Z").isoformat()
    '2026-11-15T06:26:00+00:00'
    """
    try:
        return _begin(when).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        expected = "a date such as 2026-11-01, an age such as 3d, today or yesterday"
        raise UsageError(f"{when!r} is not {expected}") from error


def parse_until(when: Moment) -> datetime:
    """Return when a time, a day or an age ends, in UTC: a day is included up to its end."""
    start = parse_since(when)
    if isinstance(when, str):
        is_day = when.lower() in NAMED_DAYS or re.fullmatch(r"\d{4}-\d\d-\d\d|\d{8}", when)
    else:
        is_day = not isinstance(when, datetime)
    # Add a calendar day, not 24 hours: days on which clocks change have 23 or 25.
    try:
        midnight = start.astimezone().replace(tzinfo=None)
    except OverflowError:
        return start
    # The last days of the year 9999 have no end that Python can represent.
    is_last = midnight.year == datetime.max.year
    return (midnight + timedelta(days=1)).astimezone(UTC) if is_day and not is_last else start


def _begin(when: Moment) -> datetime:
    if isinstance(when, datetime):
        return when
    if isinstance(when, date):
        return datetime.combine(when, time())
    if (days := NAMED_DAYS.get(when.lower())) is not None:
        return datetime.combine(date.today() - timedelta(days=days), time())
    if ago := re.fullmatch(r"(\d+)([mhdw])", when):
        return datetime.now(UTC) - timedelta(**{AGE_UNITS[ago[2]]: int(ago[1])})
    return datetime.fromisoformat(when)
