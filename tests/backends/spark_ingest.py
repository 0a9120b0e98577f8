"""Ingest raw files on a real Spark cluster: `make test-spark`.

The lake has to be the one that a single process writes, also when a worker is killed on the way,
and turnlog has to reach workers that do not have it.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from support.build import assistant, call, result, session, text, user
from support.lake_machines import KEY, live_rows
from support.spark_cluster import ROOT, SPARK, SparkCluster, spark_cluster, wait_for
from turnlog.lake.lake_schema import DATA_TABLES

MACHINES, SESSIONS, LINES = 4, 6, 1500
FILLER = "needed to make the file long. " * 40


def main(*steps: str) -> None:
    """Run all steps, or the named ones: equal, loss, ship."""
    with TemporaryDirectory(prefix="spark-ingest-") as name:
        folder = Path(name)
        (folder / "team.key").write_bytes(KEY)
        raw = folder / "raw"
        write_raw(raw)
        truth = lake_of(run(sys.executable, folder, raw, folder / "here", {}))
        for step in steps or STEPS:
            print(f"{step}:", end=" ", flush=True)
            print(STEPS[step](folder, raw, truth), flush=True)


def equal(folder: Path, raw: Path, truth: object) -> str:
    """Ingest with two workers."""
    with spark_cluster(2, XDG_DATA_HOME=str(folder / "data")) as cluster:
        done = ingest(cluster, folder, raw, folder / "both")
    assert lake_of(done) == truth
    assert done["summary"]["malformed"] == MACHINES, done
    return f"same rows as without Spark, {done['tasks']} tasks"


def loss(folder: Path, raw: Path, truth: object) -> str:
    """Lose one of two workers half-way."""
    with spark_cluster(2, XDG_DATA_HOME=str(folder / "data")) as cluster:
        done, commits = ingest_with_a_loss(cluster, folder, raw)
    assert lake_of(done) == truth
    return f"same rows after a worker was killed, {commits} commits of {done['tasks']} tasks"


def write_raw(raw: Path) -> None:
    """Write sessions of several machines, one of them on all, and a broken line on each."""
    for machine in range(MACHINES):
        store = raw / f"user-{machine}" / "projects" / "-shop"
        store.mkdir(parents=True)
        for number in range(SESSIONS):
            content = made_session(0 if number == 0 else machine, number)
            broken = b'{"type":\n' if number == 1 else b""
            name = f"5e551011-0000-4000-8000-{machine:04d}{number:08d}.jsonl"
            (store / name).write_bytes(content + broken)


def made_session(machine: int, number: int) -> bytes:
    """Return a session whose ids say where it was written first."""
    name = f"{machine}x{number}x"
    lines: list[bytes] = [user(f"Begin {name}")]
    for turn in range(LINES // 2):
        use = call("Bash", {"command": "ls"}, f"toolu_{name}{turn}")
        lines.append(assistant(text(FILLER), use, message_id=f"msg_{name}{turn}"))
        lines.append(result(f"toolu_{name}{turn}", FILLER))
    return session(*lines, session_id=f"5e551011-0000-4000-8000-{machine:04d}{number:08d}")


def command(folder: Path, raw: Path, dest: Path, *more: str) -> list[str]:
    """Return the arguments of an ingestion in many small tasks."""
    fixed = ["--key", str(folder / "team.key"), "--task-size", "2", "--json"]
    return ["lake", "ingest", str(raw), str(dest), *fixed, *more]


def run(python: str, folder: Path, raw: Path, dest: Path, more: dict[str, str]) -> dict[str, Any]:
    """Ingest without Spark."""
    environment = os.environ | {"XDG_DATA_HOME": str(folder / "data")} | more
    words = [python, "-m", "turnlog", *command(folder, raw, dest)]
    return json.loads(
        subprocess.run(words, env=environment, check=True, capture_output=True).stdout
    )


def ingest(cluster: SparkCluster, folder: Path, raw: Path, dest: Path) -> dict[str, Any]:
    """Ingest on a cluster."""
    more = ("--engine", "spark", "--master", cluster.url)
    done = cluster.run("-m", "turnlog", *command(folder, raw, dest, *more), check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ingest_with_a_loss(
    cluster: SparkCluster, folder: Path, raw: Path
) -> tuple[dict[str, Any], int]:
    """Ingest on a cluster, and kill a worker as soon as it has committed something."""
    dest = folder / "loss"
    more = ("--engine", "spark", "--master", cluster.url)
    job = cluster.start("-m", "turnlog", *command(folder, raw, dest, *more))
    log = cluster.folder / "worker-0.log"
    try:
        wait_for(lambda: any(dest.glob("v1/units/*/*.parquet")), log)
        cluster.kill_worker(0)
        output, errors = job.communicate()
    finally:
        job.kill()
    assert job.returncode == 0, errors
    return json.loads(output), len(list(dest.glob("v1/units/*/*.parquet")))


def ship(folder: Path, raw: Path, truth: object) -> str:
    """Run spark-submit with an archive of turnlog and its dependencies, as docs/lake.md says."""
    archive = packed(folder)
    with spark_cluster(1, XDG_DATA_HOME=str(folder / "data"), PYTHONPATH="") as cluster:
        environment = cluster.environment | {"PYTHONPATH": str(ROOT / "src")}

        def called(*words: str | Path) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                words, env=environment, check=False, text=True, capture_output=True
            )

        spark = ("--engine", "spark", "--master", cluster.url)
        words = command(folder, raw, folder / "shipped", *spark)
        failed = called(SPARK / "bin/python", "-m", "turnlog", *words)
        assert failed.returncode == 1, failed.stderr
        lines = [line for line in failed.stderr.splitlines() if line.startswith("turnlog: ")]
        assert "not installed on the workers" in lines[-1], failed.stderr
        job = folder / "job.py"
        job.write_text("from turnlog.__main__ import main\n\nmain()\n")
        done = called(
            Path(environment["SPARK_HOME"], "bin/spark-submit"),
            *("--master", cluster.url, "--archives", f"{archive}#turnlog-env"),
            *("--conf", "spark.executorEnv.PYTHONPATH=turnlog-env"),
            job,
            *command(folder, raw, folder / "shipped", "--engine", "spark"),
        )
    assert done.returncode == 0, done.stderr
    # spark-submit writes what a driver prints to stderr to stdout as well.
    printed, _ = json.JSONDecoder().raw_decode(done.stdout[done.stdout.index("{") :])
    assert lake_of(printed) == truth
    return "turnlog reaches workers in an archive; without it, one line explains"


def packed(folder: Path) -> Path:
    """Return an archive with turnlog's wheel and all packages that it needs."""
    env, archive = folder / "env", folder / "env.zip"
    wheel = (sys.executable, "-m", "build", "--wheel", "--outdir", folder / "dist", ROOT)
    subprocess.run(wheel, check=True, capture_output=True)
    (built,) = (folder / "dist").glob("*.whl")
    pip = ("python3", "-m", "pip", "install", "--quiet", "--target", env, f"{built}[lake]")
    subprocess.run(pip, check=True, env=os.environ | {"PIP_CONSTRAINT": ""}, capture_output=True)
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(env.rglob("*")):
            file.write(path, path.relative_to(env))
    shutil.rmtree(env)
    return archive


def lake_of(done: dict[str, Any]) -> dict[str, list[str]]:
    """Return all live rows of a lake."""
    return {
        table: sorted(
            repr({name: value for name, value in row.items() if name != "write_id"})
            for row in live_rows(done["dest"], table)
        )
        for table in DATA_TABLES
    }


STEPS = {"equal": equal, "loss": loss, "ship": ship}

if __name__ == "__main__":
    main(*sys.argv[1:])
