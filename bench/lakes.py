"""Measure lakes: pushing, raw ingestion on Spark, and a report over many messages.

    PYTHONPATH=tests python bench/lakes.py [push] [processes] [spark] [memory] [killed] [report]

Each line says what load the machine had. Figures per core are bytes by seconds of the processor,
which other programs change little. `make bench-lake` runs everything and writes bench/lakes.md.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

from generate import UNITS, generate, parse_size
from lake_rows import write_lake
from processor_times import busy_seconds, tree_seconds
from raw_store import write_raw
from spark_events import StageTimes, configure_events, last_stage

from support.spark_cluster import SparkCluster, spark_cluster, wait_for

HERE = Path(__file__).parent
CACHE = HERE.parent / ".cache/bench"
RESULTS = HERE / "lakes.md"
PYTHON = sys.executable
MEMORY = Path("/dev/shm")
"""Where lakes are written: workers of a cluster do not share one disk that syncs each part."""


def main() -> None:
    options = _options()
    chosen = options.jobs or list(JOBS)
    rows: list[str] = []
    for name in chosen:
        for row in JOBS[name](options):
            print(row, flush=True)
            rows.append(row)
    if not options.jobs:
        RESULTS.write_text("\n".join([HEAD, *rows, ""]))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure lakes.")
    parser.add_argument("jobs", nargs="*", metavar="JOB")
    parser.add_argument("--size", type=parse_size, default="4GB", help="of raw files")
    parser.add_argument("--messages", type=int, default=100_000_000, help="of the report")
    parser.add_argument("--reports", default="model,daily", help="of the lake of many messages")
    return parser.parse_args()


def _row(what: str, figure: str) -> str:
    return f"| {what} | {figure} | {os.getloadavg()[0]:.1f} |"


def _raw(size: int) -> Path:
    """Raw files of eight machines, made once."""
    folder = CACHE / f"raw-{size}"
    if not folder.with_suffix(".json").exists():
        shutil.rmtree(folder, ignore_errors=True)
        written = write_raw(folder, size, 8)
        folder.with_suffix(".json").write_text(json.dumps(written))
    return folder


def _environment(home: Path) -> dict[str, str]:
    own = {"HOME": str(home), "XDG_DATA_HOME": str(home / "data")}
    own |= {"XDG_CACHE_HOME": str(home / "cache"), "XDG_CONFIG_HOME": str(home / "config")}
    return os.environ | own


def _fresh(name: str) -> Path:
    folder = CACHE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _turnlog(environment: dict[str, str], *words: str | Path) -> dict[str, Any]:
    """Run a command that prints JSON; add the seconds of the processor."""
    before = os.times()
    done = subprocess.run(
        [PYTHON, "-m", "turnlog", *words], env=environment, check=True, capture_output=True
    )
    after = os.times()
    used = after.children_user + after.children_system
    found = json.loads(done.stdout)
    return found | {"cpu": used - before.children_user - before.children_system}


def _push(options: argparse.Namespace) -> Iterator[str]:
    """Push a store whose index is current, then once more without changes."""
    home = _fresh("lake-push")
    store = home / ".claude"
    generate(store, options.size // 2, max(1, options.size // 2 // 1_250_000))
    environment = _environment(home) | {"CLAUDE_CONFIG_DIR": str(store)}
    subprocess.run([PYTHON, "-m", "turnlog", "stats"], env=environment, check=True, stdout=-3)
    dest = home / "lake"
    start = time.perf_counter()
    done = _turnlog(environment, "lake", "push", dest, "--json")
    seconds = time.perf_counter() - start
    size = sum(path.stat().st_size for path in store.rglob("*.jsonl"))
    sessions = len(list(store.glob("projects/*/*.jsonl")))
    rate = f"{size / seconds / 1e6:.0f} MB/s, {size / done['cpu'] / 1e6:.0f} MB per CPU second"
    yield _row(f"push of {size / 1e6:.0f} MB, {sessions} sessions", rate)
    written = done["bytes"]
    yield _row("size in the lake", f"{written / sessions:,.0f} bytes per session")
    yield _row("raw : lake", f"{size / written:.0f} : 1")
    start = time.perf_counter()
    again = _turnlog(environment, "lake", "push", dest, "--json")
    assert again["parts"] == 0
    yield _row("push without changes", f"{time.perf_counter() - start:.2f} s")


def _report(options: argparse.Namespace) -> Iterator[str]:
    """Compute reports over very many messages with DuckDB."""
    folder = CACHE / f"rows-{options.messages}"
    if not folder.with_suffix(".done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        start = time.perf_counter()
        write_lake(folder, options.messages)
        print(f"written in {time.perf_counter() - start:.0f} s", file=sys.stderr)
        folder.with_suffix(".done").touch()
    size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    what = f"{options.messages / 1e6:,.0f} million messages, {size / UNITS['GB']:.1f} GB"
    environment = _environment(_fresh("lake-report"))
    for report in options.reports.split(","):
        start = time.perf_counter()
        words = ("stats", report, "--lake", folder, "--json")
        done = subprocess.Popen(
            [PYTHON, "-m", "turnlog", *words], env=environment, stdout=subprocess.PIPE
        )
        assert done.stdout
        json.loads(done.stdout.read())
        _, status, used = os.wait4(done.pid, 0)
        assert status == 0, status
        seconds = time.perf_counter() - start
        busy, peak = used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6
        figure = f"{seconds:.0f} s, {busy:.0f} CPU seconds, {peak:.1f} GB of memory"
        yield _row(f"stats {report} --lake, {what}", figure)


def _ingestion(cluster: SparkCluster, raw: Path, dest: Path) -> list[str | Path]:
    words = ("-m", "turnlog", "lake", "ingest", raw, dest, "--json")
    return [*words, "--engine", "spark", "--master", cluster.url]


def _ingest(cluster: SparkCluster, raw: Path, dest: Path) -> dict[str, Any]:
    done = cluster.run(*_ingestion(cluster, raw, dest), check=False)
    return _summary(done.returncode, done.stdout, done.stderr)


def _summary(code: int, output: str, errors: str) -> dict[str, Any]:
    if code:
        raise SystemExit(errors)
    return json.loads(output)


def _spark(options: argparse.Namespace) -> Iterator[str]:
    """Ingest the same raw files with one and with two workers of one core each."""
    raw, home = _raw(options.size), Path(mkdtemp(prefix="lake-", dir=MEMORY))
    runs: dict[int, SparkRun] = {}
    for workers in (1, 2):
        with _cluster(workers, home, home / f"events-{workers}") as cluster:
            runs[workers] = run = SparkRun.measure(cluster, raw, home / f"lake-{workers}")
        yield _row(f"Spark, {workers} worker(s), {run.size:.0f} MB", run.figures())
        yield _row(f"Spark, {workers} worker(s), processors", run.processors())
    shutil.rmtree(home)
    one, two = runs[1], runs[2]
    ratio = f"{one.size / one.written:.0f} : 1, {one.parts / one.stage.tasks:.0f} parts a task"
    yield _row("raw : lake of an ingestion", ratio)
    speed_ups = one.stage.seconds / two.stage.seconds, one.seconds / two.seconds
    figure = "{:.2f} of the tasks, {:.2f} of the whole command".format(*speed_ups)
    yield _row("speed-up by the second worker", figure)


class SparkRun(NamedTuple):
    """An ingestion on a cluster; all times are in seconds."""

    size: float
    """Megabytes of raw files."""
    seconds: float
    """Time of the whole command, from the start of the driver's process to its end."""
    stage: StageTimes
    cpu: dict[str, float]
    """Seconds of the processor, by who took them."""
    parts: int
    written: float
    """Megabytes in the lake."""

    @classmethod
    def measure(cls, cluster: SparkCluster, raw: Path, dest: Path) -> "SparkRun":
        before, workers, start = busy_seconds(), _worker_seconds(cluster), time.perf_counter()
        job = cluster.start(*_ingestion(cluster, raw, dest))
        driver = executors = 0.0
        with ThreadPoolExecutor(1) as pool:
            output = pool.submit(job.communicate)
            # Processes that have ended are not always counted by those that started them.
            while not output.done():
                driver = max(driver, tree_seconds(job.pid))
                executors = max(executors, _worker_seconds(cluster) - workers)
                time.sleep(0.5)
        seconds = time.perf_counter() - start
        summary = _summary(job.returncode, *output.result())["summary"]
        tasks = summary["cpu_seconds"]
        took = {"tasks": tasks, "executors": executors - tasks, "driver": driver}
        took |= {"others": max(0, busy_seconds() - before - sum(took.values()))}
        stage = last_stage(Path(cluster.environment["SPARK_CONF_DIR"]))
        size, written = summary["bytes"] / 1e6, summary["written"] / 1e6
        return cls(size, seconds, stage, took, summary["parts"], written)

    def figures(self) -> str:
        rate, per_core = self.size / self.stage.seconds, self.size / self.cpu["tasks"]
        whole = f"command {self.seconds:.1f} s, tasks {self.stage.seconds:.1f} s"
        return f"{whole}, {rate:.1f} MB/s, {per_core:.1f} MB per CPU second of a task"

    def processors(self) -> str:
        shares = " + ".join(f"{each:.1f}" for each in self.stage.by_executor)
        mean = self.cpu["tasks"] / self.stage.tasks
        tasks = f"{self.stage.tasks} tasks of {mean:.2f} CPU seconds"
        busy = ", ".join(f"{name} {seconds:.0f}" for name, seconds in self.cpu.items())
        return (
            f"{tasks}, the longest {self.stage.longest:.1f} s; executors busy {shares} s;"
            f" CPU seconds: {busy}"
        )


def _worker_seconds(cluster: SparkCluster) -> float:
    """Return the seconds of the processor that workers and their executors took."""
    return sum(tree_seconds(worker.pid) for worker in cluster.workers)


def _processes(options: argparse.Namespace) -> Iterator[str]:
    """Ingest machine by machine without Spark, one and two processes at a time.

    This is the most that a second worker can gain on this machine.
    """
    stores, home = sorted(_raw(options.size).iterdir()), Path(mkdtemp(prefix="lake-", dir=MEMORY))
    took: list[float] = []
    for count in (1, 2):

        def ingest(store: Path, count: int = count) -> None:
            words = ("lake", "ingest", store, home / f"lake-{count}", "--json")
            _turnlog(_environment(home), *words, "--user", store.name)

        start = time.perf_counter()
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(ingest, stores))
        took.append(time.perf_counter() - start)
    shutil.rmtree(home)
    figure = f"{took[0] / took[1]:.2f}: {took[0]:.1f} s and {took[1]:.1f} s"
    yield _row("speed-up by a second process, without Spark", figure)


def _memory(options: argparse.Namespace) -> Iterator[str]:
    """Ingest small and large inputs, and compare the memory of the tasks' processes."""
    home = _fresh("lake-memory")
    with _cluster(2, home) as cluster:
        for size in (options.size // 8, options.size):
            done = _ingest(cluster, _raw(size), home / f"lake-{size}")
            peak = done["summary"]["peak"] / 1e6
            yield _row(f"memory of a task, {size / 1e6:.0f} MB of raw files", f"{peak:.0f} MB")


def _killed(options: argparse.Namespace) -> Iterator[str]:
    """Kill a worker half-way; the live rows have to be those of a job without a loss."""
    from support.lake_machines import live_rows

    raw, home = _raw(options.size // 4), _fresh("lake-killed")
    with _cluster(2, home) as cluster:
        whole = _ingest(cluster, raw, home / "whole")
        job = cluster.start(*_ingestion(cluster, raw, home / "loss"))
        parts = (home / "loss").glob
        wait_for(lambda: any(parts("v1/units/*/*.parquet")), cluster.folder / "worker-0.log")
        cluster.kill_worker(0)
        output, errors = job.communicate()
        assert job.returncode == 0, errors
    lost = json.loads(output)
    same = all(
        _plain_rows(live_rows(whole["dest"], table)) == _plain_rows(live_rows(lost["dest"], table))
        for table in ("sessions", "turns", "messages", "calls", "compactions")
    )
    assert same
    yield _row("a worker killed half-way", f"same rows; {lost['tasks_seconds']:.0f} s")


def _plain_rows(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr({k: v for k, v in row.items() if k != "write_id"}) for row in rows)


def _cluster(
    workers: int, home: Path, events: Path | None = None
) -> AbstractContextManager[SparkCluster]:
    own = {"XDG_DATA_HOME": str(home / "data"), "XDG_CONFIG_HOME": str(home / "config")}
    logged = configure_events(events) if events else {}
    return spark_cluster(workers, 1, "1g", **own, **logged)


HEAD = """# Lakes

Measured by `make bench-lake`; see docs/lake.md for what it means for larger inputs.

| what | figure | load |
|---|---|---|"""
JOBS: dict[str, Callable[[argparse.Namespace], Iterator[str]]] = {
    "push": _push,
    "processes": _processes,
    "spark": _spark,
    "memory": _memory,
    "killed": _killed,
    "report": _report,
}

if __name__ == "__main__":
    main()
