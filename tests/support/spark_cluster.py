"""A real Spark standalone cluster on loopback: a master and workers, each a process of its own.

Run a command with a cluster, whose address it gets as SPARK_MASTER:

    python tests/support/spark_cluster.py --workers 2 -- python job.py
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parent.parent.parent
SPARK = ROOT / ".cache/spark"
"""An environment with pyspark: `make .cache/spark/installed`."""
PATIENCE = 600
"""Seconds until a process has to have started; a JVM alone takes two."""
PACKAGE = "org.apache.spark.deploy"


@dataclass
class SparkCluster:
    """A running cluster."""

    url: str
    folder: Path
    """Logs, and the directories in which executors run."""
    environment: dict[str, str]
    """Environment for programs that submit jobs; see `python`."""
    master: subprocess.Popen[bytes]
    cores: int = 1
    memory: str = "1g"
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])

    @property
    def python(self) -> Path:
        """The interpreter of drivers and executors."""
        return SPARK / "bin/python"

    def add_worker(self) -> None:
        """Start a worker and wait until the master knows it."""
        number = len(self.workers)
        options = ("--cores", str(self.cores), "--memory", self.memory)
        places = ("--host", "127.0.0.1", "--webui-port", "0", "-d", str(self.folder / f"w{number}"))
        log = self.folder / f"worker-{number}.log"
        command = (f"{PACKAGE}.worker.Worker", *places, *options, self.url)
        self.workers.append(_start(self.environment, command, log))
        wait_for(lambda: "Successfully registered with master" in _text(log), log)

    def kill_worker(self, number: int) -> None:
        """Kill a worker and its executors, as if its machine had lost power."""
        worker = self.workers[number]
        # Python processes of executors leave the group of the worker.
        for pid in (worker.pid, *descendants(worker.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        worker.wait()

    def executors(self) -> list[int]:
        """Return the process ids of all executors, including their Python processes."""
        return [pid for worker in self.workers for pid in descendants(worker.pid)]

    def run(self, *command: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a Python program, given by its arguments, with the address of the cluster."""
        return subprocess.run(
            [self.python, *command],
            env=self.environment,
            check=check,
            text=True,
            capture_output=True,
        )

    def start(self, *command: str | Path) -> subprocess.Popen[str]:
        """Start a Python program with the address of the cluster."""
        pipe = subprocess.PIPE
        arguments = [self.python, *command]
        return subprocess.Popen(
            arguments, env=self.environment, text=True, stdout=pipe, stderr=pipe
        )

    def close(self) -> None:
        """End all processes of the cluster."""
        for process in (*self.workers, self.master):
            if process.poll() is None:
                # A worker starts its executors in its own process group, and leaves them behind if
                # it is killed alone.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@contextmanager
def spark_cluster(
    workers: int = 2, cores: int = 1, memory: str = "1g", **variables: str
) -> Generator[SparkCluster]:
    """Start a master and workers with `cores` each; end them when the block ends."""
    with TemporaryDirectory(prefix="spark-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        environment = _environment(folder) | variables
        log = folder / "master.log"
        at = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = _start(environment, (f"{PACKAGE}.master.Master", *at), log)
        try:
            wait_for(lambda: "New state: ALIVE" in _text(log), log)
            found = re.search(r"Starting Spark master at (spark://\S+)", _text(log))
            assert found, _text(log)
            environment["SPARK_MASTER"] = found[1]
            cluster = SparkCluster(found[1], folder, environment, master, cores, memory)
        except BaseException:
            os.killpg(master.pid, signal.SIGKILL)
            master.wait()
            raise
        try:
            for _ in range(workers):
                cluster.add_worker()
            yield cluster
        finally:
            cluster.close()


def wait_for(is_true: Callable[[], bool], log: Path) -> None:
    """Wait until a condition holds; raise with the end of a log if it never does."""
    end = time.monotonic() + PATIENCE
    while not is_true():
        if time.monotonic() > end:
            raise TimeoutError(_text(log)[-2000:])
        time.sleep(0.05)


def _environment(folder: Path) -> dict[str, str]:
    home = next((SPARK / "lib").glob("python3*/site-packages/pyspark"), None)
    if home is None:
        raise SystemExit("Spark is not set up (try: make .cache/spark/installed)")
    # Names of hosts may resolve to an address of the network: everything has to stay on loopback.
    return os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
        "SPARK_LOG_DIR": str(folder),
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": str(SPARK / "bin/python"),
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT / "tests"))),
    }


def _start(
    environment: dict[str, str], command: Sequence[str], log: Path
) -> subprocess.Popen[bytes]:
    program = Path(environment["SPARK_HOME"], "bin/spark-class")
    with log.open("wb") as output:
        return subprocess.Popen(
            [program, *command],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and those that they started."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(word) for word in task.read_text().split()]
        except OSError:  # it ended meanwhile
            continue
        for child in children:
            found += [child, *descendants(child)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a command with a Spark cluster on loopback.")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1, help="of each worker")
    parser.add_argument("--memory", default="1g", help="of each worker")
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    options = parser.parse_args()
    with spark_cluster(options.workers, options.cores, options.memory) as cluster:
        return subprocess.run(options.command, env=cluster.environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
