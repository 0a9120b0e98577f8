"""Work in a detached process: it outlives its client, and reports errors at the next run."""

import os
import subprocess
import sys
import time
from pathlib import Path

from turnlog.errors import Unavailable
from turnlog.plugin.background_runs import NOTE, run_noted

PROGRAM = """
import os, sys
from pathlib import Path
from turnlog.plugin.background_runs import run_in_background

def work():
    out = folder / "out"
    out.with_suffix(".new").write_text(f"{os.getsid(0)} {os.nice(0)}")
    out.with_suffix(".new").rename(out)

folder = Path(sys.argv[1])
print(repr(run_in_background(folder, work)))
"""


def run(folder: Path) -> str:
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} was not written"
        time.sleep(0.01)
    return path.read_text()


def test_work_leaves_the_session_of_the_client_and_its_priority(tmp_path: Path) -> None:
    assert run(tmp_path) == "''"
    session, niceness = map(int, wait_for(tmp_path / "out").split())
    assert session != os.getsid(0)
    assert niceness == min(19, os.nice(0) + 10)


def test_an_error_is_noted_until_a_run_succeeds(tmp_path: Path) -> None:
    def fail() -> None:
        raise Unavailable("the disk is full", "df -h")

    run_noted(tmp_path, fail)
    assert (tmp_path / NOTE).read_text() == "the disk is full (try: df -h)"
    assert "the disk is full" in run(tmp_path)
    wait_for(tmp_path / "out")
    run_noted(tmp_path, lambda: None)
    assert not (tmp_path / NOTE).exists()
