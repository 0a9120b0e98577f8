"""Run the reports' statements with DuckDB, in this process."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from turnlog.errors import Unavailable
from turnlog.index.reports.dialects import DUCKDB, parameters_of, translate
from turnlog.index.reports.reports import Found, Parameters
from turnlog.lake.lake_schema import arrow_schema, plain_rows, pyarrow
from turnlog.lake.lake_storage import LakeStorage

MEMORY = "4GB"
"""Memory limit of a report; DuckDB spills the rest to a temporary directory."""


class DuckdbEngine:
    """DuckDB on the parts of a lake; parts in an object store are read through Arrow."""

    dialect = DUCKDB

    def __init__(self, storage: LakeStorage) -> None:
        duckdb: Any = import_module("duckdb")
        self.storage = storage
        self.errors: tuple[type[Exception], ...] = (duckdb.Error, OSError)
        """Exceptions raised for a damaged or missing part."""
        self.exhausted: type[Exception] = duckdb.OutOfMemoryException
        """Raised if neither memory nor the temporary directory can hold a report."""
        # Ignore the user's configuration: neither install nor load extensions.
        self.db = duckdb.connect(
            ":memory:",
            config={"autoinstall_known_extensions": False, "autoload_known_extensions": False},
        )
        # Reports do not say where nulls sort; they rely on SQLite's order.
        self.db.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
        self.db.execute("SET TimeZone = 'UTC'")
        self.db.execute("SET preserve_insertion_order = false")
        # DuckDB would take 80 % of all memory, and spill the rest to `.tmp` in the working
        # directory. A report over 100 million messages starved everything else on a machine.
        self.scratch = TemporaryDirectory(prefix="turnlog-lake-", ignore_cleanup_errors=True)
        self.db.execute(f"SET temp_directory = {_quoted(self.scratch.name)}")
        self.db.execute(f"SET memory_limit = '{MEMORY}'")

    def define(self, name: str, rows: Any) -> None:
        """Register an Arrow table under a name."""
        self.db.register(name, rows)

    def expect(self, rows: int) -> None:
        """Do nothing: DuckDB needs no hint about the size of a lake."""

    def attach(self, table: str, paths: Sequence[str]) -> None:
        """Define a table of the lake as a view of its parts."""
        schema = arrow_schema(table)
        full = [self.storage.full(path) for path in paths]
        if self.storage.is_local:
            self.db.register(f"no_{table}", schema.empty_table())
            self.db.execute(_local_view(table, full))
            return
        dataset = pyarrow("dataset").dataset(
            full, schema=schema, filesystem=self.storage.files, format="parquet"
        )
        self.db.register(f"lake_{table}", dataset)

    def execute(self, statement: str) -> None:
        """Run a statement that defines something."""
        with self._limits_explained():
            self.db.execute(translate(statement, DUCKDB))

    def run(self, statement: str, values: Parameters) -> Found:
        """Run a report's statement; return its columns and rows."""
        names = parameters_of(statement, DUCKDB)
        # DuckDB refuses values that a statement does not use.
        given = {name: value for name, value in values.items() if name in names}
        with self._limits_explained():
            found = self.db.execute(translate(statement, DUCKDB), given)
            columns = [column for column, *_ in found.description]
            return columns, plain_rows(found.fetchall())

    @contextmanager
    def _limits_explained(self) -> Generator[None]:
        """Raise `Unavailable` if memory and disk space run out: no part of the lake is damaged."""
        try:
            yield
        except self.exhausted as error:
            folder = Path(self.scratch.name).parent
            message = f"a report on {self.storage.dest} needs more space than {folder} has"
            raise Unavailable(message, f"df -h {folder}") from error

    def close(self) -> None:
        self.db.close()
        self.scratch.cleanup()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _local_view(table: str, paths: Sequence[str]) -> str:
    """Return SQL for a view of local parts, which DuckDB reads much faster than through Arrow."""
    listed = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
    # The empty table has all columns: those that older parts lack are null.
    return (
        f"CREATE TEMP VIEW lake_{table} AS SELECT * FROM no_{table} UNION ALL BY NAME"
        f" SELECT * FROM read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"
    )
