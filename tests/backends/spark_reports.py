"""Compare every report of an index, of DuckDB and of Spark on a real standalone cluster.

    python tests/backends/spark_reports.py [--engine duckdb|spark] [STORE …]

Each STORE is pushed to a lake of its own. Without one, two machines share a lake: they have the
sessions of the tests, and some of them both. Every column has to be equal.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from support.report_equality import ALL_REQUESTS, NOW, count_values, differences
from turnlog.index.reports.reports import Filters, Report, ReportRequest, compute_report
from turnlog.lake.lake_reports import LAKE_DIMENSIONS, LakeSource, opened_lake
from turnlog.lake.lake_schema import CONSENTS
from turnlog.store.paths import Store

ENGINES = ("duckdb", "spark")
MEMORY = "1500m"


def lake_reports(source: LakeSource, requests: Iterable[ReportRequest]) -> list[Report]:
    """Compute reports one after the other, and print how long each takes."""
    found: list[Report] = []
    with opened_lake(source) as tables:
        for request in requests:
            started = time.monotonic()
            found.append(compute_report(tables.run, request, NOW, LAKE_DIMENSIONS))
            took = time.monotonic() - started
            print(f"  {source.engine} {request.name}: {took:.1f} s", file=sys.stderr, flush=True)
    return found


def run_driver(dest: str, requests: str, output: str) -> None:
    """Compute reports with Spark; runs in the environment that has it."""
    asked = [
        ReportRequest(name, Filters(*filters), tuple(by))
        for name, filters, by in json.loads(Path(requests).read_bytes())
    ]
    source = LakeSource(dest, "spark", os.environ["SPARK_MASTER"])
    Path(output).write_text(json.dumps(lake_reports(source, asked)))


def spark_reports(dest: str, requests: Sequence[ReportRequest], folder: Path) -> list[Report]:
    """Compute reports on a cluster of a master and two workers."""
    from support.spark_cluster import spark_cluster

    asked, answer = folder / "requests.json", folder / "answer.json"
    asked.write_text(json.dumps(requests))
    with spark_cluster(workers=2, memory=MEMORY) as cluster:
        driver = cluster.start(Path(__file__), "--driver", dest, asked, answer)
        _, messages = driver.communicate()
    if driver.returncode:
        raise SystemExit(messages[-3000:])
    print("".join(line + "\n" for line in messages.splitlines() if line.startswith("  spark")))
    return [Report(*each) for each in json.loads(answer.read_bytes())]


def index_reports(stores: Sequence[Store], folder: Path) -> list[Report]:
    """Compute reports with one index over all stores."""
    from turnlog.index.database import open_index
    from turnlog.index.ingest.sync import sync
    from turnlog.index.reports.reports import run_report

    with open_index(folder / "index.db") as index:
        sync(index, tuple(stores), words=False)
        return [
            run_report(index.db, each.name, each.filters, by=each.by, now=NOW)
            for each in ALL_REQUESTS
        ]


def sample_machines(folder: Path) -> tuple[str, list[Store]]:
    """Return a lake of two machines that have some sessions in common."""
    from data.files import session_files
    from support.lake_machines import PushingMachine

    dest = str(folder / "lake")
    files = session_files()
    stores: list[Store] = []
    for name, some in (("ada", files[::2] + files[:9]), ("bob", files[1::2] + files[5:12])):
        machine = PushingMachine(folder / name, dest, consents=frozenset(CONSENTS))
        for number, path in enumerate(some):
            project = machine.store.projects / f"-home-ada-{number % 5}"
            project.mkdir(exist_ok=True)
            shutil.copy(path, project / path.name)
        machine.push()
        stores.append(machine.store)
    return dest, stores


def pushed_store(root: Path, folder: Path) -> tuple[str, list[Store]]:
    """Return a lake that a store was pushed to."""
    from support.lake_machines import PushingMachine

    dest = str(folder / "lake")
    machine = PushingMachine(folder / "machine", dest, consents=frozenset(CONSENTS))
    machine.store = Store(root)
    machine.push()
    return dest, [machine.store]


def check(root: Path | None, engines: Sequence[str]) -> int:
    """Compare the reports of all engines; return the number of differences."""
    from support.lake_machines import KEY
    from turnlog.lake.lake_names import LakeNames, NameFilter

    keep = NameFilter(LakeNames(KEY, None, None, frozenset(CONSENTS)))
    with TemporaryDirectory() as name:
        folder = Path(name)
        dest, stores = pushed_store(root, folder) if root else sample_machines(folder)
        expected = index_reports(stores, folder)
        values, total = count_values(expected), 0
        for engine in engines:
            if engine == "spark":
                found = spark_reports(dest, ALL_REQUESTS, folder)
            else:
                found = lake_reports(LakeSource(dest), ALL_REQUESTS)
            lines = differences(expected, found, keep)
            total += len(lines)
            print(f"{root or 'samples'}: {values:,} values, {len(lines)} differ: index, {engine}")
            print("".join(f"  {line[:300]}\n" for line in lines[:20]), end="")
    return total


def main() -> int:
    if sys.argv[1:2] == ["--driver"]:
        run_driver(*sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, action="append")
    parser.add_argument("stores", nargs="*", type=Path, metavar="STORE")
    options = parser.parse_args()
    engines = options.engine or ENGINES
    return min(1, sum(check(root, engines) for root in options.stores or [None]))


if __name__ == "__main__":
    sys.exit(main())
