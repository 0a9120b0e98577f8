"""Timestamps of entries as moments in time."""

from datetime import UTC, datetime


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
