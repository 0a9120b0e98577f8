"""The client's hook: how long the client waits for it, and what its sender takes.

A session of 100 MB and one of 1 MB, both sent before, get one more turn before each run. Neither
figure should depend on how long a session is.
"""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from statistics import median
from uuid import uuid4

from generate import UNITS
from long import long_session
from measure import Job, children

HERE = Path(__file__).parent
RUNS = 21
SUBREAPER = 36
"""The option of prctl that makes a process the parent of what its children leave behind."""
SAID = "One more turn is done."
LARGE, SMALL = 100 * UNITS["MB"], UNITS["MB"]
LEEWAY = 0.15
"""Seconds for which the client may wait for the hook longer than for bare Python."""
FILE_RATE = 25 * UNITS["MB"]
"""Bytes of sessions for each second that writing their traces to a file may take."""
GROWTH = 1.25
"""How many times the sender may take for the large session what it takes for the small one."""


class Typical(Job):
    """A job told by the middle of its times: who waits meets that, not the best."""

    @property
    def seconds(self) -> float:
        return median(self.times)

    @property
    def cpu_seconds(self) -> float:
        return median(self.busy)


class Growing:
    """A session that gets one turn after the other, with a store and a state of its own."""

    def __init__(self, folder: Path, size: int, environment: Mapping[str, str]) -> None:
        original, _ = long_session(folder / "original", size)
        self.path = folder / "store" / "projects" / "-home-ada-shop" / original.name
        self.home = folder / "turnlog"
        shutil.rmtree(self.home, ignore_errors=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(original, self.path)
        places = {"CLAUDE_CONFIG_DIR": str(folder / "store"), "TURNLOG_HOME": str(self.home)}
        places["CLAUDE_PROJECT_DIR"] = "/home/ada/shop"
        self.environment = {**environment, **places}
        self.parent = _last_uuid(self.path)

    def add_turn(self) -> dict[str, object]:
        """Add a turn; what the client then tells its hook."""
        message = {"id": f"msg_{uuid4().hex}", "role": "assistant", "model": "claude-opus-5"}
        message |= {"content": [{"type": "text", "text": SAID}], "stop_reason": "end_turn"}
        self._add("user", message={"role": "user", "content": "one more turn"})
        self._add("assistant", message=message)
        self._add("system", subtype="stop_hook_summary", hookCount=1)
        return {
            "session_id": self.path.stem,
            "transcript_path": str(self.path),
            "hook_event_name": "Stop",
            "last_assistant_message": SAID,
        }

    def _add(self, kind: str, **fields: object) -> None:
        uuid = str(uuid4())
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds")[:23] + "Z"
        line = {"parentUuid": self.parent, "isSidechain": False, "type": kind, **fields}
        line |= {"uuid": uuid, "timestamp": stamp, "sessionId": self.path.stem}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.parent = uuid

    def require_all_sent(self) -> None:
        if list((self.home / "trace" / "spool").glob("*.note")):
            raise SystemExit(f"the hook's sender left something of {self.path}")


def _last_uuid(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(-UNITS["MB"] // 4, os.SEEK_END)
        return json.loads(file.read().splitlines()[-1])["uuid"]


class Measured:
    """The hook on one session: what the client waits for, and the sender that it leaves behind."""

    def __init__(self, name: str, session: Growing, command: Sequence[str | Path]) -> None:
        self.session = session
        self.command = command
        self.hook = Typical(f"turnlog hook run, {name}", command, session.environment)
        self.sender = Typical(f"its sender's CPU time, {name}", command, session.environment)

    def run(self) -> None:
        told = json.dumps(self.session.add_turn()).encode()
        before = set(children(os.getpid()))
        _time(self.hook, told)
        for left in set(children(os.getpid())) - before:
            _, _, used = os.wait4(left, 0)
            self.sender.times.append(used.ru_utime + used.ru_stime)
            self.sender.busy.append(used.ru_utime + used.ru_stime)
        self.session.require_all_sent()

    def forget(self) -> None:
        for job in (self.hook, self.sender):
            job.times.clear()
            job.busy.clear()


def _time(job: Job, told: bytes) -> None:
    """Run a job as the client does: until it has ended and its pipes are closed."""
    start = time.perf_counter()
    with subprocess.Popen(
        job.command,
        env=job.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdin, "piped"
        assert process.stdout, "piped"
        process.stdin.write(told)
        process.stdin.close()
        if process.stdout.read():
            raise SystemExit(f"{job.name}: it is not silent")
        _, status, used = os.wait4(process.pid, 0)
        job.times.append(time.perf_counter() - start)
        job.busy.append(used.ru_utime + used.ru_stime)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{job.name}: exit code {process.returncode}")


@contextmanager
def sink() -> Generator[str]:
    """The address of a backend in another process."""
    with subprocess.Popen([sys.executable, HERE / "sink.py"], stdout=subprocess.PIPE) as process:
        assert process.stdout, "piped"
        try:
            yield process.stdout.readline().decode().strip()
        finally:
            process.terminate()


def measure_hook(
    folder: Path, turnlog: Path, environment: Mapping[str, str], url: str
) -> tuple[Job, Measured, Measured]:
    """Bare Python, and the hook on a large session and on a small one, all in turn."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    command = (turnlog, "hook", "run", "--to", url)
    sizes = {"100 MB": LARGE, "1 MB": SMALL}
    large, small = [
        Measured(name, Growing(folder / name.replace(" ", ""), size, environment), command)
        for name, size in sizes.items()
    ]
    bare = Typical("python -c pass, beside it", (sys.executable, "-c", "pass"), dict(environment))
    for each in (large, small):
        each.run()  # sends all there is
        each.forget()
    jobs = [lambda: _time(bare, b""), large.run, small.run]
    for number in range(RUNS):
        for job in Random(number).sample(jobs, len(jobs)):
            job()
    return bare, large, small


def file_job(store: Path, turnlog: Path, environment: Mapping[str, str]) -> Job:
    """All sessions of a store, written to a file."""
    return Job(
        "turnlog trace --all, to a file",
        (turnlog, "trace", "--all", "--to", str(store.parent / "traces.json")),
        {**environment, "CLAUDE_CONFIG_DIR": str(store)},
    )


def backfill_job(store: Path, turnlog: Path, environment: Mapping[str, str], url: str) -> Job:
    """All sessions of a store, sent to a backend that has none of them."""
    home = store.parent / "backfilled"
    return Job(
        "turnlog trace --all, to a backend",
        (turnlog, "trace", "--all", "--to", url),
        {**environment, "CLAUDE_CONFIG_DIR": str(store), "TURNLOG_HOME": str(home)},
        prepare=lambda: shutil.rmtree(home, ignore_errors=True),
    )
