"""Measure changes of one very large session, each on a fresh copy: `python bench/edits.py`."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from generate import UNITS
from long import Made, long_session
from measure import Job, measure, measure_peaks

CACHE = Path(__file__).parent.parent / ".cache/bench"
EDIT_SIZE = 500 * UNITS["MB"]
EDIT_RATE = 100 * UNITS["MB"]
"""Bytes a second that an edit should get through."""
EDITS = ("--strip-tools", "--stub-results", "--compress --keep-last 5")


def edit_jobs(
    folder: Path, turnlog: Path, environment: Mapping[str, str]
) -> tuple[list[Job], Made]:
    """The commands that change the session, and what it is like."""
    original, made = long_session(folder / "original", EDIT_SIZE)
    store, home = folder / "store", folder / "turnlog"
    copy = store / "projects" / "-home-ada-shop" / original.name
    places = {"CLAUDE_CONFIG_DIR": str(store), "TURNLOG_HOME": str(home)}

    def prepare() -> None:
        shutil.rmtree(home, ignore_errors=True)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(original, copy)
        os.utime(copy, (0, 0))  # one that was written to a moment ago is refused

    return [
        Job(
            f"turnlog edit {options}",
            (turnlog, "edit", copy, *options.split()),
            {**environment, **places},
            made.size,
            prepare,
        )
        for options in EDITS
    ], made


def peak_limit(made: Made) -> int:
    """Bytes of memory that an edit should not exceed."""
    return 4 * made.largest_turn + 200 * UNITS["MB"]


def main() -> None:
    home = CACHE / "home"
    home.mkdir(parents=True, exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
    turnlog = Path(sys.executable).parent / "turnlog"
    jobs, made = edit_jobs(CACHE / "edits", turnlog, environment)
    print(
        f"Largest turn {made.largest_turn / UNITS['MB']:.1f} MB of {made.size / UNITS['MB']:,.0f}"
    )
    measure(jobs, 3)
    measure_peaks(jobs)
    for job in jobs:
        rate, busy = made.size / job.seconds / UNITS["MB"], made.size / job.cpu_seconds
        print(
            f"{job.name:40} {job.seconds:6.2f} s {rate:5.0f} MB/s; of the processor "
            f"{job.cpu_seconds:5.2f} s {busy / UNITS['MB']:5.0f} MB/s; "
            f"peak {job.peak / UNITS['MB']:4.0f} of {peak_limit(made) / UNITS['MB']:.0f} MB"
        )


if __name__ == "__main__":
    main()
