"""The first report comes from memory, and equals what the index reports later."""

import json
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from data.files import session_files
from support.index_dump import dump
from turnlog.index.database import build_lock, index_path, open_index
from turnlog.index.ingest.change_check import is_current
from turnlog.index.ingest.file_states import scan_store
from turnlog.index.ingest.first_build import write_tallied
from turnlog.index.ingest.phases import FIGURES
from turnlog.index.ingest.sync import StoreScan, plan_first_build, sync
from turnlog.index.ingest.tally import FactSpool, StoreTally, assemble, tally_file
from turnlog.index.ingest.workers import write_parts
from turnlog.index.reports.reports import OF_WORK, Filters, run_report
from turnlog.store.paths import Store

MIDDLE = 1_760_000_000.0
FILTERS = [Filters(), Filters(since=MIDDLE), Filters(until=MIDDLE), Filters(model="opus")]
REPORT = """
import json, sys
from collections.abc import Generator
from pathlib import Path
from turnlog.index import service
from turnlog.index.ingest import first_build, workers
from turnlog.store.paths import Store
workers.WORTH_SHARING = 0
assemble, assembled = first_build.assemble, []
first_build.assemble = lambda *tallied: assembled.append(1) or assemble(*tallied)
report = service.report(Store(Path(sys.argv[1])), sys.argv[2])
print(json.dumps([report, bool(assembled)]))
"""
PATIENCE = 60

Tallied = tuple[StoreScan, StoreTally]


@pytest.fixture
def filled(store: Store) -> Store:
    """Every session of the tests, and some of them a second time."""
    for number, path in enumerate(session_files()):
        copies = ("a", "b") if number % 3 == 0 else ("a",)
        for project in copies:
            folder = store.projects / f"-home-ada-{project}-{number % 5}"
            folder.mkdir(exist_ok=True)
            shutil.copy(path, folder)
            below = path.with_suffix("")
            if below.is_dir():
                shutil.copytree(below, folder / below.name, dirs_exist_ok=True)
    return store


@pytest.fixture
def tallied(filled: Store, tmp_path: Path) -> Generator[Tallied]:
    scan = StoreScan(filled, scan_store(filled))
    with open_index(tmp_path / "empty.db") as index:
        planned = plan_first_build(index.db, scan, None)
    spool = FactSpool()
    files = [file for job in planned if (file := tally_file(job, spool))]
    assert len(files) == len(planned) > 20
    yield scan, StoreTally(files, {job.source.name: job for job in planned}, spool)
    spool.close()


def test_a_tally_answers_reports_as_the_index_that_is_written_from_it(
    tallied: Tallied, tmp_path: Path
) -> None:
    scan, tally = tallied
    memory = assemble(tally)
    path = tmp_path / "index.db"
    with open_index(path):
        pass
    write_tallied(path, tally, scan, None)
    with open_index(path) as index:
        assert is_current(index.db, scan.states, words=False)
        for name in sorted(OF_WORK):
            for by in ((), ("project", "model"), ("branch",), ("session",)):
                for filters in FILTERS:
                    first = run_report(memory, name, filters, by=by)
                    assert first == run_report(index.db, name, filters, by=by)
        assert run_report(memory, "daily").total["tokens"]
        assert index.db.execute("SELECT 1 FROM messages WHERE counts = 0").fetchone()
    memory.close()


def test_an_index_written_from_a_tally_equals_one_that_was_synced(
    tallied: Tallied, tmp_path: Path
) -> None:
    scan, (files, jobs, spool) = tallied
    with open_index(tmp_path / "synced.db") as index:
        sync(index, scan.stores)
        expected = dump(index.db)
    with open_index(tmp_path / "tallied.db"):
        pass
    write_tallied(tmp_path / "tallied.db", tallied[1], scan, None)
    with open_index(tmp_path / "tallied.db") as index:
        sync(index, scan.stores)
        assert dump(index.db) == expected
    # A writer that was killed left some of the files.
    with open_index(tmp_path / "killed.db") as index:
        parts = [file.part(jobs[file.path], spool) for file in files[: len(files) // 2]]
        write_parts(index.db, FIGURES, parts)
        sync(index, scan.stores)
        assert dump(index.db) == expected


def report_apart(store: Store, name: str) -> tuple[object, bool]:
    """A report, and whether it came from memory: in a process without other threads."""
    command = [sys.executable, "-c", REPORT, str(store.root), name]
    done = subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
    report, is_from_memory = json.loads(done.stdout)
    return report, is_from_memory


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks safely")
def test_the_index_is_written_after_the_first_report(filled: Store, tmp_path: Path) -> None:
    first, is_from_memory = report_apart(filled, "daily")
    assert is_from_memory
    with build_lock(index_path(filled)):  # waits for the writer
        pass
    with open_index(tmp_path / "synced.db") as index:
        sync(index, filled, words=False)
        expected = dump(index.db)
    with open_index(index_path(filled)) as index:
        assert is_current(index.db, scan_store(filled), words=False)
        assert json.loads(json.dumps(run_report(index.db, "daily"))) == first
        assert dump(index.db) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks safely")
def test_a_second_report_waits_for_the_index(filled: Store) -> None:
    first, _ = report_apart(filled, "daily")
    assert report_apart(filled, "daily") == (first, False)


def test_reports_with_titles_or_calls_are_not_answered_from_memory(filled: Store) -> None:
    assert not report_apart(filled, "session")[1]
