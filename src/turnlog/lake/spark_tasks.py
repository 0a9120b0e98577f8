"""Run tasks on a Spark cluster: one row of bytes in, one row of bytes out, through `mapInArrow`.

Spark runs a task again if its worker dies, and maybe twice at once if it is slow. Tasks therefore
have to be idempotent; only the result of one attempt is returned.
"""

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from turnlog.errors import TurnlogError, Unavailable
from turnlog.lake.lake_schema import pyarrow

NAME = "turnlog lake ingest"
POLL = 0.5
"""Seconds between progress updates."""
INSTALL_SPARK = "pip install 'pyspark[sql]>=4'"
Work = Callable[[bytes], bytes]
Done = Callable[[int, int], None]
"""Called with the number of finished tasks, and the total."""


def run_on_spark(
    work: Work, tasks: Sequence[bytes], master: str | None = None, done: Done = lambda a, b: None
) -> list[bytes]:
    """Run a module-level function for each task on a cluster; return the results in order.

    Without `master`, the cluster is the one passed to spark-submit, or else this machine.
    """
    if not tasks:
        return []
    with _session(master) as spark:
        rows = spark.sparkContext.parallelize(list(enumerate(tasks)), len(tasks))
        frame = spark.createDataFrame(rows, "number long, task binary")
        results = frame.mapInArrow(_Mapped(work), "number long, result binary")
        with _progress(spark, len(tasks), done), _explained():
            found = results.collect()
    return [bytes(row.result) for row in sorted(found, key=lambda row: row.number)]


class _Mapped:
    """A callable for `mapInArrow` that calls `work` for each row of the batches."""

    def __init__(self, work: Work) -> None:
        self.work = work

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        pa = pyarrow()
        for batch in batches:
            for row in batch.to_pylist():
                result = pa.array([self.work(row["task"])], pa.binary())
                yield pa.RecordBatch.from_arrays(
                    [pa.array([row["number"]], pa.int64()), result], ["number", "result"]
                )


@contextmanager
def _session(master: str | None) -> Generator[Any]:
    try:
        sql: Any = import_module("pyspark.sql")
    except ImportError as error:
        raise Unavailable("Spark is not installed", INSTALL_SPARK) from error
    builder = sql.SparkSession.builder.appName(NAME)
    # turnlog prints the progress; Spark's own progress bar would garble it.
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    spark = (builder.master(master) if master else builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _progress(spark: Any, total: int, done: Done) -> Generator[None]:
    """Report finished tasks from a thread, because collecting the results blocks."""
    is_over = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def watch() -> None:
        while not is_over.wait(POLL):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            done(sum(stage.numCompletedTasks for stage in stages if stage), total)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    done(total, total)


@contextmanager
def _explained() -> Generator[None]:
    """Turn the Java exception of a failed task, with its Python traceback, into one line."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("py4j", "pyspark")):
            raise
        lines = str(error).splitlines()
        if any("No module named 'turnlog" in line for line in lines):
            message = "turnlog is not installed on the workers of the cluster"
            hint = "pip install --target env 'turnlog[lake]' && (cd env && zip -qr ../env.zip .)"
            raise Unavailable(message, hint) from error
        # The task's own exception follows its traceback, possibly with a hint below it.
        names = ("turnlog.errors.", "OSError", "PermissionError", "FileNotFoundError")
        found = [line.strip() for line in lines if line.strip().startswith(names)]
        reason = found[0].partition(": ")[2] if found else lines[0]
        raise TurnlogError(f"the Spark job failed: {reason}") from error
