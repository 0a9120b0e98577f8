"""Run the reports' statements with Spark SQL, on a cluster or on this machine."""

from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from turnlog.errors import Unavailable
from turnlog.index.reports.dialects import SPARK, parameters_of, translate
from turnlog.index.reports.reports import Found, Parameters
from turnlog.lake.lake_schema import PRECISION, SCALE, columns_of, plain_rows
from turnlog.lake.lake_storage import LakeStorage

NAME = "turnlog stats"
INSTALL = "pip install 'pyspark[sql]>=4'"
PARTITIONS = "spark.sql.shuffle.partitions"
ROWS_EACH = 250_000
"""Rows per shuffle partition, unless the cluster's configuration sets the number of partitions."""
FEWEST, MOST = 2, 2000
KINDS = {
    "string": "STRING",
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "bool": "BOOLEAN",
    "decimal": f"DECIMAL({PRECISION}, {SCALE})",
}
"""Types of Spark SQL."""
SCHEMES = {"s3": "s3a", "gcs": "gs"}
"""URL schemes that have another name in Hadoop."""
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # Days in paths are also columns of the parts.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # Otherwise, the rows of a part that a compaction deleted would silently be missing.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.ansi.enabled": "true",
    # The driver knows the parts; listing them again would take a task for each.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
}


class SparkEngine:
    """Spark on the parts of a lake, which its executors read."""

    dialect = SPARK

    def __init__(self, storage: LakeStorage, master: str | None = None) -> None:
        try:
            sql: Any = import_module("pyspark.sql")
        except ImportError as error:
            raise Unavailable("Spark is not installed", INSTALL) from error
        self.storage = storage
        self.errors: tuple[type[Exception], ...] = _errors()
        """Exceptions raised for a damaged or missing part."""
        builder = sql.SparkSession.builder.appName(NAME)
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        self.spark = (builder.master(master) if master else builder).getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")
        # Check this before `expect` sets it.
        self.is_configured = self.spark.sparkContext.getConf().contains(PARTITIONS)

    def define(self, name: str, rows: Any) -> None:
        """Register an Arrow table under a name."""
        self.spark.createDataFrame(rows).createOrReplaceTempView(name)

    def expect(self, rows: int) -> None:
        """Choose the number of shuffle partitions: the default, 200, is slow on a small lake."""
        if not self.is_configured:
            self.spark.conf.set(PARTITIONS, str(min(MOST, FEWEST + rows // ROWS_EACH)))

    def attach(self, table: str, paths: Sequence[str]) -> None:
        """Define a table of the lake as a view of its parts."""
        schema = ", ".join(f"`{each.name}` {KINDS[each.kind]}" for each in columns_of(table))
        urls = [self._url(path) for path in paths]
        found = self.spark.read.schema(schema).parquet(*urls)
        found.createOrReplaceTempView(f"lake_{table}")

    def _url(self, path: str) -> str:
        if self.storage.is_local:
            return f"file://{self.storage.full(path)}"
        scheme = self.storage.dest.partition("://")[0]
        return f"{SCHEMES.get(scheme, scheme)}://{self.storage.full(path)}"

    def execute(self, statement: str) -> None:
        """Run a statement that defines something."""
        self.spark.sql(translate(statement, SPARK))
        if statement.startswith("CREATE {{table}} "):
            # Spark has no temporary tables: the view is kept in memory instead.
            self.spark.catalog.cacheTable(statement.split()[2])

    def run(self, statement: str, values: Parameters) -> Found:
        """Run a report's statement; return its columns and rows."""
        names = parameters_of(statement, SPARK)
        given = {name: value for name, value in values.items() if name in names}
        found = self.spark.sql(translate(statement, SPARK), args=given)
        return list(found.columns), plain_rows(found.collect())

    def close(self) -> None:
        with suppress(*self.errors):
            self.spark.stop()


def _errors() -> tuple[type[Exception], ...]:
    pyspark: Any = import_module("pyspark.errors")
    py4j: Any = import_module("py4j.protocol")
    return (pyspark.PySparkException, py4j.Py4JError, OSError)
