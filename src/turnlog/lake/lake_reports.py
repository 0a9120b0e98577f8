"""Compute the same reports as on an index, over the sessions of all machines of a lake."""

from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from typing import NamedTuple

from turnlog.errors import UsageError
from turnlog.index.reports.groupings import DIMENSIONS
from turnlog.index.reports.reports import CARRYING, REPORTS, Report, ReportRequest, compute_report
from turnlog.lake.anonymity import anonymous_report
from turnlog.lake.lake_storage import LakeStorage, no_lake, open_storage, retried
from turnlog.lake.lake_tables import LakeEngine, LakeTables
from turnlog.lake.live_units import list_unit_parts
from turnlog.lake.teams import read_teams

ENGINES = ("duckdb", "spark")
LAKE_DIMENSIONS = {
    **DIMENSIONS,
    "user": "f.user_name",
    "machine": "concat(coalesce(f.host, 'machine'), ' ', substr(f.machine, 1, 8))",
    "team": "f.team",
}
"""SQL of each dimension: those of an index, plus user, machine and team."""


class LakeSource(NamedTuple):
    """A lake, the engine that reads it, and options of its reports."""

    dest: str
    engine: str = "duckdb"
    master: str | None = None
    """URL of a Spark cluster; by default that of spark-submit, or this machine."""
    teams: Mapping[str, str] | None = None
    """Team of each user; by default teams.toml of the lake."""
    k: int | None = None
    """Report only groups of at least this many people."""


def lake_report(source: LakeSource, request: ReportRequest, now: float | None = None) -> Report:
    """Compute a report on a lake, each message, prompt and call counted once."""
    return lake_report_batch(source, [request], now)[0]


def lake_report_batch(
    source: LakeSource, requests: list[ReportRequest], now: float | None = None
) -> list[Report]:
    """Compute several reports on one state of a lake."""
    for request in requests:
        _require_known(request.name)
    if source.k is not None and source.teams is not None:
        # Cells depend on the teams: comparing reports with other teams could single out fewer than
        # k people.
        raise UsageError(
            "with --k, the teams are those of the lake", f"ls {source.dest}/teams.toml"
        )

    def compute() -> list[Report]:
        with opened_lake(source) as tables:
            return [compute_lake_report(tables, source, each, now) for each in requests]

    return retried(compute)


def compute_lake_report(
    tables: LakeTables, source: LakeSource, request: ReportRequest, now: float | None = None
) -> Report:
    """Compute a report on open tables."""
    if source.k is not None:
        return anonymous_report(tables, request, source.k, LAKE_DIMENSIONS)
    return compute_report(tables.run, request, now, LAKE_DIMENSIONS)


def require_lake(dest: str) -> None:
    """Raise `NotFound` if there is no lake."""
    if not list_unit_parts(open_storage(dest)):
        raise no_lake(dest)


@contextmanager
def opened_lake(source: LakeSource) -> Generator[LakeTables]:
    """Open the tables of a lake."""
    storage = open_storage(source.dest)
    teams = read_teams(storage) if source.teams is None else source.teams
    with closing(_engine(source, storage)) as engine:
        yield LakeTables(storage, engine, teams, is_utc=source.k is not None)


def _engine(source: LakeSource, storage: LakeStorage) -> LakeEngine:
    if source.engine == "spark":
        from turnlog.lake.spark_engine import SparkEngine

        return SparkEngine(storage, source.master)
    from turnlog.lake.duckdb_engine import DuckdbEngine

    return DuckdbEngine(storage)


def _require_known(name: str) -> None:
    if name == CARRYING:
        message = "carrying costs need the session files, which a lake does not have"
        raise UsageError(message, "turnlog stats carrying")
    if name not in (*REPORTS, "calls"):
        raise UsageError(f"no report {name}: choose from {', '.join(REPORTS)}", "turnlog stats")
