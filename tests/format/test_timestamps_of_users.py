"""Points in time as users name them."""

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest

from turnlog.errors import UsageError
from turnlog.format.timestamps import Moment, parse_since, parse_until


@pytest.fixture(autouse=True)
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("when", "since", "until"),
    [
        ("2026-11-15", "2026-11-14T23:00", "2026-11-15T23:00"),
        ("20261115", "2026-11-14T23:00", "2026-11-15T23:00"),
        (date(2026, 11, 15), "2026-11-14T23:00", "2026-11-15T23:00"),
        (date(2026, 10, 25), "2026-10-24T22:00", "2026-10-25T23:00"),  # a day of 25 hours
        ("2026-11-15T06:26", "2026-11-15T05:26", "2026-11-15T05:26"),
        ("2026-11-15T06:26Z", "2026-11-15T06:26", "2026-11-15T06:26"),
        (datetime(2026, 11, 15, 6, tzinfo=UTC), "2026-11-15T06:00", "2026-11-15T06:00"),
        (datetime(2026, 11, 15, 6), "2026-11-15T05:00", "2026-11-15T05:00"),
    ],
)
def test_days_are_local_and_end_at_midnight(when: Moment, since: str, until: str) -> None:
    assert parse_since(when) == datetime.fromisoformat(f"{since}+00:00")
    assert parse_until(when) == datetime.fromisoformat(f"{until}+00:00")


def test_ages_and_named_days_are_relative_to_now() -> None:
    now = datetime.now(UTC)
    assert abs(now - timedelta(hours=12) - parse_since("12h")) < timedelta(minutes=1)
    assert parse_until("3d") - parse_since("3d") < timedelta(minutes=1)
    assert parse_until("yesterday") == parse_since("Today")


@pytest.mark.parametrize("when", ["soon", "", "3y", "2026-13-01", "9" * 30 + "d"])
def test_anything_else_is_refused(when: str) -> None:
    with pytest.raises(UsageError, match="is not a date"):
        parse_since(when)
