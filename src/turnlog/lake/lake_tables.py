"""Present a lake as the tables of an index, on any engine; define each table on first use.

Rows are live if their unit's winning write wrote them; see `live_units`. A row that several
machines pushed counts once.
"""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Any, Protocol

from turnlog.errors import Damaged, TurnlogError, Unavailable
from turnlog.index.database import work_view
from turnlog.index.reports.dialects import Dialect, strip_comments, translate
from turnlog.index.reports.reports import Found, Parameters
from turnlog.lake.derived_tables import (
    QUARTERS,
    TEAMS,
    WINDOWS,
    quarters_table,
    teams_table,
    windows_table,
)
from turnlog.lake.lake_parts import PartPlace, decode_part, require_schema, require_version
from turnlog.lake.lake_schema import DATA_TABLES, TABLE_OF_UNITS, arrow_schema, pyarrow
from turnlog.lake.lake_storage import LakeStorage, no_lake
from turnlog.lake.live_units import list_unit_parts, read_unit_parts

DEFINED = re.compile(r"CREATE \S+ (\w+) AS")
NAMED = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)")
"""The tables that a statement names."""
TIMED = ("messages", "calls", "turns")
"""Tables of the lake that reports group by time."""
READ_OFTEN = frozenset({"files", "prompts", "calls", "messages"})
MOST_MATERIALIZED = 10_000_000
"""Tables of lakes with up to this many rows are kept in memory between statements."""
LIVE_PARTS = "SELECT DISTINCT day, machine, part FROM winners WHERE table_name = :table_name"
COMMITTED_ROWS = "SELECT sum(unit_rows) FROM winners WHERE table_name = :table_name"


class LakeEngine(Protocol):
    """An engine that runs the statements of reports."""

    dialect: Dialect
    errors: tuple[type[Exception], ...]
    """Exceptions raised for a damaged or missing part."""

    def expect(self, rows: int) -> None: ...
    def define(self, name: str, rows: Any) -> None: ...
    def attach(self, table: str, paths: Sequence[str]) -> None: ...
    def execute(self, statement: str) -> None: ...
    def run(self, statement: str, values: Parameters) -> Found: ...
    def close(self) -> None: ...


class LakeTables:
    """The tables of a lake."""

    def __init__(
        self,
        storage: LakeStorage,
        engine: LakeEngine,
        teams: Mapping[str, str],
        is_utc: bool = False,
    ) -> None:
        self.storage = storage
        self.engine = engine
        self.teams = teams
        self.parts: list[str] = []
        """Parts that were attached."""
        self.rows = 0
        """Rows of all units, live or not."""
        self._defined: set[str] = set()
        self._builders: dict[str, Callable[[], None]] = {
            f"lake_{TABLE_OF_UNITS}": self._define_units,
            **{f"lake_{table}": self._attaching(table) for table in DATA_TABLES},
            TEAMS: lambda: engine.define(TEAMS, teams_table(self.teams)),
            QUARTERS: lambda: self._define_quarters(is_utc),
            WINDOWS: self._define_windows,
        }

    def run(self, statement: str, values: Parameters) -> Found:
        """Run a portable statement; define the tables that it names first."""
        with self._explained():
            self._define_for(statement)
            columns, rows = self.engine.run(statement, values)
            return columns, list(rows)

    def _define_for(self, statement: str) -> None:
        known = _definitions()
        for name in dict.fromkeys(NAMED.findall(translate(statement, self.engine.dialect))):
            if name in self._defined:
                continue
            if build := self._builders.get(name):
                self._defined.add(name)
                build()
            elif name in known:
                self._defined.add(name)
                self._define_for(known[name])
                self.engine.execute(self._prepared(name, known[name]))

    def _prepared(self, name: str, statement: str) -> str:
        """Return a definition; in a small lake, materialize tables that several statements read."""
        if name in READ_OFTEN and self.rows <= MOST_MATERIALIZED:
            return statement.replace("{{view}}", "{{table}}")
        return statement

    def _define_units(self) -> None:
        require_version(self.storage)
        paths = list_unit_parts(self.storage)
        tables = [rows for _, rows in read_unit_parts(self.storage, paths)]
        if not tables:
            raise no_lake(self.storage.dest)
        units = pyarrow().concat_tables(tables)
        self.rows = pyarrow("compute").sum(units.column("rows")).as_py() or 0
        self.engine.expect(self.rows)
        for schema in pyarrow("compute").unique(units.column("schema")).to_pylist():
            require_schema(self.storage.dest, str(schema))
        self.engine.define(f"lake_{TABLE_OF_UNITS}", units)

    def _attaching(self, table: str) -> Callable[[], None]:
        def attach() -> None:
            _, rows = self.run(LIVE_PARTS, {"table_name": table})
            paths = sorted(PartPlace(table, *row).path for row in rows)
            self.parts += paths
            if paths:
                self.storage.require_own(paths)
                self.engine.attach(table, paths)
                self._require_rows(table, paths)
            else:
                self.engine.define(f"lake_{table}", arrow_schema(table).empty_table())

        return attach

    def _require_rows(self, table: str, paths: Sequence[str]) -> None:
        """Raise if the parts of a table do not have the rows that were committed.

        If another Parquet file replaces a part, engines read it without an error, but none of its
        rows are live: the rows of the part would silently be missing from a report.
        """
        ((committed,),) = self.run(COMMITTED_ROWS, {"table_name": table})[1]
        counted = f"SELECT count(*) FROM lake_{table} t {{{{live({table})}}}}"
        ((found,),) = self.engine.run(counted, {})[1]
        if found == committed:
            return
        self._read_parts(paths)
        raise Damaged(
            f"{self.storage.dest} has {found:,} of {committed:,} rows of {table}",
            f"turnlog lake verify {quote(self.storage.dest)}",
        )

    def _read_parts(self, paths: Sequence[str]) -> None:
        """Read parts one by one, to raise an error that names the first damaged one."""
        for path, content in self.storage.read_all(paths):
            decode_part(self.storage, path, content)

    def _define_quarters(self, is_utc: bool) -> None:
        # Include dead rows and copies: more quarters than needed do no harm, and finding out which
        # rows count takes as long as a report.
        each = (f"SELECT quarter FROM lake_{table}" for table in TIMED)
        found = self.run(" UNION ".join(each), {})[1]
        known = (quarter for (quarter,) in found if quarter is not None)
        self.engine.define(QUARTERS, quarters_table(known, is_utc))

    def _define_windows(self) -> None:
        # Only messages that count, because each may start a window.
        statement = "SELECT DISTINCT quarter FROM messages WHERE counts = 1"
        found = self.run(statement, {})[1]
        known = (quarter for (quarter,) in found if quarter is not None)
        self.engine.define(WINDOWS, windows_table(known))

    @contextmanager
    def _explained(self) -> Generator[None]:
        """If an engine failed because of an unreadable part, raise an error that names the part."""
        try:
            yield
        except TurnlogError:
            raise
        except self.engine.errors as error:
            # Engines name neither the part nor the fault: reading each part does, and raises.
            self._read_parts(self.parts)
            reason = str(error).strip().partition("\n")[0][:300]
            raise Unavailable(
                f"cannot read {self.storage.dest}: {reason}",
                f"turnlog lake verify {quote(self.storage.dest)}",
            ) from error


@cache
def _definitions() -> dict[str, str]:
    """Return the statements that define views, by the view's name."""
    text = Path(__file__).with_name("lake_views.sql").read_text("utf-8")
    view = work_view().replace("CREATE VIEW", "CREATE {{view}}")
    statements = (each.strip() for each in strip_comments(text + view).split(";"))
    return {DEFINED.findall(each)[0]: each for each in statements if each}
