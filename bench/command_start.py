"""Measure what permissions add to the start of a command: verdict, masks and sandbox.

    PYTHONPATH=bench python bench/command_start.py

Each round runs `:` in bare bash and as a call of Bash. The aims are for the fastest round, because
the machine may do other work; the CPU time includes all processes. Prints a table.
"""

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from everyday_commands import RULES, Case, workspace_of

from turnlog.agent.tools.bash import BASH
from turnlog.agent.workspace.access import Tier
from turnlog.agent.workspace.sandbox import masks
from turnlog.agent.workspace.sandbox.bubblewrap import why_unavailable
from turnlog.agent.workspace.tool import Grant

ROUNDS = 60
COLD_ROUNDS = 7
FILES_PER_DIRECTORY = 20


def main() -> None:
    """Measure and print a table."""
    print("| start of a command | added ms, best (median) | added CPU ms | against the aim |")
    print("|---|---:|---:|---|")
    read, denied = Case("read", 0, Tier.READ), Case("denied", 0, Tier.READ, (), RULES[1])
    write = Case("write", 0, Tier.WRITE)
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        places = {n: Path(folder).resolve() / f"{n}/work" for n in (20, 2_000, 50_000)}
        for files, place in places.items():
            write_history(place, files, min(files, 10_000))
        small, middle, large = places.values()
        assert why_unavailable() == ""
        show("read sandbox, no rules", small, read, 10)
        show("write sandbox, no rules", small, write, 10)
        show("a Read deny, cached", small, denied, 20)
        show("a Read deny, cached, 2,000 files", middle, denied, 20)
        show("a Read deny, 2,000 files and commits", middle, denied, 100, forget)
        show("a Read deny, cached, 50,000 files", large, denied)
        show("a Read deny, 50,000 files, 10,000 commits", large, denied, 500, forget)
        show("write sandbox, 50,000 files", large, write)


def show(
    name: str,
    place: Path,
    case: Case,
    aim: int | None = None,
    before: Callable[[], None] = lambda: None,
) -> None:
    """Measure a case beside bare bash, and print its row."""
    bare, own = list[tuple[float, float]](), list[tuple[float, float]]()
    loop, caller = asyncio.new_event_loop(), Caller(place, case)
    loop.run_until_complete(caller.call())
    for _ in range(ROUNDS if before.__name__ == "<lambda>" else COLD_ROUNDS):
        bare.append(timed(lambda: subprocess.run(["bash", "-c", ":"], cwd=place, check=True)))
        before()
        own.append(timed(lambda: loop.run_until_complete(caller.call())))
    best = 1000 * (min(own)[0] - min(bare)[0])
    median, cpu = (
        1000 * (statistics.median(each[n] for each in own) - statistics.median(e[n] for e in bare))
        for n in (0, 1)
    )
    mark = "" if aim is None else f"{'✓' if best <= aim else '✗'} {best / aim:.2f} × {aim} ms"
    print(f"| {name} | {best:.1f} ({median:.1f}) | {cpu:.1f} | {mark} |", flush=True)


class Caller:
    """Calls Bash in one place as a session does."""

    def __init__(self, place: Path, case: Case) -> None:
        self.workspace, self.consent = workspace_of(place, case)
        self.given = BASH.read({"command": ":"})

    async def call(self) -> None:
        """Judge and run a command that does nothing."""
        accesses = BASH.touches(self.given, self.workspace)
        verdict = await asyncio.to_thread(self.consent.decide, "Bash", accesses, self.workspace)
        profile = self.consent.profile(verdict.basis, self.workspace)
        grant = Grant(verdict.basis, None, None, profile)
        outcome = await BASH.execute(self.given, self.workspace, lambda text: None, grant)
        assert not outcome.is_error, outcome.content


def forget() -> None:
    """Forget what is known about files and commits, as at the start of a session."""
    for each in (masks._WALKS, masks._HISTORIES, masks._CLEAN, masks._COMMITTED):
        each.clear()


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds that something takes, on the clock and of processors."""
    cpu, start = cpu_seconds(), perf_counter()
    run()
    return perf_counter() - start, cpu_seconds() - cpu


def cpu_seconds() -> float:
    """Return the processor time of this process and its children that have ended."""
    used = [resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def write_history(folder: Path, files: int, commits: int) -> None:
    """Create a repository with some files and commits, checked out, and `.env` beside them."""
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
    lines = list[str]()
    for number in range(commits):
        changed = [*range(number, files, commits)]
        lines.append(f"commit refs/heads/main\ncommitter A <a@example.com> {10**9 + number} +0000")
        lines.append("data 1\nx")
        for file in changed:
            inner = file // FILES_PER_DIRECTORY
            lines.append(f"M 100644 inline d{inner // FILES_PER_DIRECTORY}/d{inner}/f{file}.py")
            lines.append(f"data {len(str(file))}\n{file}")
    text = "\n".join([*lines, ""]).encode()
    subprocess.run(["git", "fast-import", "--quiet"], cwd=folder, input=text, check=True)
    subprocess.run(["git", "reset", "-q", "--hard"], cwd=folder, check=True)
    (folder / ".env").write_text("API_KEY=1234\n")


if __name__ == "__main__":
    sys.exit(main())
