"""Run programs: how long they take and how much memory all their processes hold together."""

import ctypes
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

SAMPLE_EVERY = 0.01
PR_SET_CHILD_SUBREAPER = 36
"""Of prctl: orphans become children of this process, which can wait for them."""


@dataclass
class Job:
    """A program to measure, and what was measured of it so far."""

    name: str
    command: Sequence[str | Path]
    environment: dict[str, str]
    size: int = 0
    """Bytes that it reads, where a rate says something."""
    prepare: Callable[[], None] = lambda: None
    """What is to be done before each run, and not measured."""
    times: list[float] = field(default_factory=list[float])
    busy: list[float] = field(default_factory=list[float])
    """Seconds of the processor, of the program and of the system for it, in each timed run."""
    left: list[float] = field(default_factory=list[float])
    """The same of background processes that outlived the program; not in its time."""
    peak: int = 0
    """Bytes of memory; 0 where it was not measured."""

    @property
    def seconds(self) -> float:
        """The best time: other work on the machine only ever adds to it."""
        return min(self.times)

    @property
    def cpu_seconds(self) -> float:
        return min(self.busy)


def measure(jobs: Sequence[Job], rounds: int) -> None:
    """Time the jobs in turn, several times over, so that all meet the same load.

    The order changes, because a job may run slower behind one that left much memory to clear.
    """
    for number in range(rounds):
        for job in Random(number).sample(jobs, len(jobs)):
            job.times.append(_time(job))


def measure_peaks(jobs: Sequence[Job]) -> None:
    """Find the most memory that a job and all that it starts hold, in runs that are not timed."""
    for job in jobs:
        _sample(job)


def _sample(job: Job) -> None:
    job.prepare()
    with _start(job) as process:
        while process.poll() is None:
            job.peak = max(job.peak, _held(_family(process.pid)))
            time.sleep(SAMPLE_EVERY)
        _require_success(job, process.returncode)


def _time(job: Job) -> float:
    job.prepare()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    others = children(os.getpid())
    start = time.perf_counter()
    with _start(job) as process:
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
    _require_success(job, process.returncode)
    job.busy.append(used.ru_utime + used.ru_stime)
    # The next job must not share the machine with what this one left behind.
    orphans = [child for child in children(os.getpid()) if child not in others]
    ends = [os.wait4(orphan, 0)[2] for orphan in orphans]
    job.left.append(sum(end.ru_utime + end.ru_stime for end in ends))
    return seconds


def _start(job: Job) -> subprocess.Popen[bytes]:
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(job.command, env=job.environment, stdout=nowhere, stderr=nowhere)


def _require_success(job: Job, code: int) -> None:
    if code:
        raise SystemExit(f"{job.name}: exit code {code}")


def _family(pid: int) -> list[int]:
    """A process and all that it started."""
    try:
        started = children(pid)
    except OSError:
        return []
    return [pid, *(member for child in started for member in _family(child))]


def children(pid: int) -> list[int]:
    """What a process started, or was left with, and has not ended."""
    tasks = list(Path(f"/proc/{pid}/task").iterdir())
    return [int(child) for task in tasks for child in _words(task / "children")]


def _held(pids: list[int]) -> int:
    """The most that processes have held: of one of them so far, or of all of them now.

    The sum counts pages that processes have in common once; a forked one shares most of its own.
    """
    most = max((_figure(pid, "status", "VmHWM:") for pid in pids), default=0)
    return max(most, sum(_figure(pid, "smaps_rollup", "Pss:") for pid in pids))


def _figure(pid: int, file: str, name: str) -> int:
    try:
        words = _words(Path(f"/proc/{pid}/{file}"))
        return int(words[words.index(name) + 1]) * 1024
    except (OSError, ValueError):  # it ended meanwhile
        return 0


def _words(path: Path) -> list[str]:
    return path.read_text().split()
