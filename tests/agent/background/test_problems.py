"""Why a background chat could not start."""

from pathlib import Path

import pytest

from turnlog.agent.background.background_jobs import PROBLEMS, Job, JobState, describe_problem


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
