"""Text for a terminal."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from turnlog.cli.output import finish, fit, progress_bar
from turnlog.format.timestamps import age
from turnlog.text import file_size

NOW = datetime(2026, 11, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("past", "text"),
    [
        (timedelta(seconds=5), "5s"),
        (timedelta(minutes=59), "59m"),
        (timedelta(hours=23), "23h"),
        (timedelta(days=6), "6d"),
        (timedelta(days=20), "2w"),
        (timedelta(days=800), "2y"),
        (timedelta(seconds=-5), "0s"),
    ],
)
def test_an_age_has_one_unit(past: timedelta, text: str) -> None:
    assert age(NOW - past, NOW) == text


def test_wide_characters_take_two_cells() -> None:
    assert fit("日本語", 6) == "日本語"
    assert fit("日本語", 4) == "日 …"
    assert fit("abc", 0) == ""


def test_a_terminal_that_has_no_size_yet_has_room_for_text() -> None:
    leader, follower = os.openpty()
    program = "from turnlog.cli.output import width; print(width())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=follower,
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"},
        check=True,
    )
    os.close(leader)
    os.close(follower)
    assert int(done.stdout) >= 80


def test_sizes_are_short() -> None:
    assert [file_size(n) for n in (0, 999, 1000, 123_456, 5_000_000)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "123 kB",
        "5.0 MB",
    ]


def test_a_progress_bar_ends_full_though_passes_were_left_out() -> None:
    with progress_bar(30, "redacting") as bar:
        bar.update(10)
        finish(bar)
    assert (bar.pos, bar.finished) == (30, True)
