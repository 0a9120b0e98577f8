"""Why a background chat could not start, and whether it runs."""

import os
from pathlib import Path

import pytest

from turnlog.agent.background.background_jobs import (
    LOCK,
    PROBLEMS,
    Job,
    JobState,
    describe_problem,
    is_locked,
)
from turnlog.format.locks import lock


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        (b"Traceback:\n  in chat\nOSError: no space left\n\n", "OSError: no space left"),
        (b"one line", "one line"),
        (b"\n", ""),
        (None, ""),
    ],
)
def test_the_last_line_that_was_printed_is_the_reason(
    tmp_path: Path, printed: bytes | None, told: str
) -> None:
    if printed is not None:
        (tmp_path / PROBLEMS).write_bytes(printed)
    job = Job(tmp_path, JobState("a1", "s1", str(tmp_path)), is_running=False)
    assert describe_problem(job) == told


@pytest.mark.parametrize("is_shared", [True, False])
def test_only_the_chat_itself_makes_it_look_running(tmp_path: Path, is_shared: bool) -> None:
    assert not is_locked(tmp_path)
    descriptor = os.open(tmp_path / LOCK, os.O_RDWR | os.O_CREAT)
    assert not is_locked(tmp_path)
    # Shared, it is the lock of another process that looks.
    lock(descriptor, is_shared=is_shared)
    assert is_locked(tmp_path) is not is_shared
    os.close(descriptor)
