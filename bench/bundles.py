"""Measure packing and importing sessions: `python bench/bundles.py`."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from generate import UNITS, generate
from measure import Job, measure, measure_peaks

CACHE = Path(__file__).parent.parent / ".cache/bench"
BUNDLE_SIZE = 10 * UNITS["MB"]
SESSIONS = 5
BUNDLE_RATE = 2 * UNITS["MB"]
"""Bytes a second that a redacted bundle should get through: its files are searched twice."""
UNBUNDLE_RATE = 10 * UNITS["MB"]
BUNDLE_PEAK = 400 * UNITS["MB"]


def bundle_jobs(folder: Path, turnlog: Path, environment: Mapping[str, str]) -> list[Job]:
    """The commands that pack a generated store, and that import it in an empty one."""
    store, packed, home = folder / "store", folder / "x.turnlog", folder / "home"
    if not store.is_dir():
        generate(store, BUNDLE_SIZE, SESSIONS)
    size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
    places = {**environment, "CLAUDE_CONFIG_DIR": str(store)}
    words = ("bundle", "--since", "9999d", "--yes", "-o", packed)
    other = {**environment, "CLAUDE_CONFIG_DIR": str(home / "store"), "TURNLOG_HOME": str(home)}

    def prepare() -> None:
        shutil.rmtree(home, ignore_errors=True)
        for project in _names_in(store):
            (home / project).mkdir(parents=True, exist_ok=True)

    unbundle = (turnlog, "unbundle", packed, "--into", home, "--allow-broken")
    return [
        Job("turnlog bundle --as-is", (turnlog, *words, "--as-is"), places, size),
        Job("turnlog bundle", (turnlog, *words), places, size),
        Job("turnlog unbundle", unbundle, other, size, prepare),
    ]


def _names_in(store: Path) -> list[str]:
    """Return the names of the projects: the last part of each directory."""
    from turnlog.edit.move import directory_of

    found = (directory_of(path) for path in store.glob("projects/*/*.jsonl"))
    return sorted({Path(directory).name for directory in found if directory} | {"store"})


def measure_bundles(folder: Path, turnlog: Path, environment: Mapping[str, str]) -> list[Job]:
    """Time the jobs; a bundle is there before it is imported."""
    jobs = bundle_jobs(folder, turnlog, environment)
    for job in jobs:  # in this order, not at random: an import needs its bundle
        measure([job], 3)
        measure_peaks([job])
    return jobs


def main() -> None:
    home = CACHE / "home"
    home.mkdir(parents=True, exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    turnlog = Path(sys.executable).parent / "turnlog"
    for job in measure_bundles(CACHE / "bundles", turnlog, environment):
        rates = [job.size / each / UNITS["MB"] for each in (job.seconds, job.cpu_seconds)]
        print(
            f"{job.name:30} {job.seconds:6.2f} s {rates[0]:5.1f} MB/s; of the processor "
            f"{job.cpu_seconds:5.2f} s {rates[1]:5.1f} MB/s; peak {job.peak / UNITS['MB']:4.0f} MB"
        )


if __name__ == "__main__":
    main()
