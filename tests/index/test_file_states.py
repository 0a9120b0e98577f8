"""A scan finds the same states in one process as in two."""

import os
import signal
import threading
from pathlib import Path

import pytest

from turnlog.format.regular_files import collect_skipped
from turnlog.index.ingest.file_states import FileStates, begin_scan, scan_store
from turnlog.store.paths import Store

NEVER = 1 << 40
FILES = (
    *(f"-a/{n:08d}-0000-4000-8000-000000000000.jsonl" for n in range(30)),
    "-a/00000000-0000-4000-8000-000000000000/subagents/agent-1.jsonl",
    "-a/00000001-0000-4000-8000-000000000000/subagents/workflows/w/agent-2.jsonl",
    "-b/subagents/agent-3.jsonl",
    "-b/agent-4.jsonl",
    "-b/notes.jsonl",
    "-c/one.jsonl",
)
OTHERS = ("-a/.hidden.jsonl", "-a/notes.txt", "-b/x/subagents/notes.jsonl", "-d/subagents")


@pytest.fixture
def filled(store: Store) -> Store:
    for name in (*FILES, *OTHERS):
        path = store.projects / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return store


def state(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


@pytest.mark.parametrize("many", [0, NEVER], ids=["two processes", "one process"])
def test_a_scan_finds_every_session_and_subagent(filled: Store, many: int) -> None:
    paths = [filled.projects / name for name in FILES]
    assert begin_scan(filled, many)().by_path == {str(path): state(path) for path in paths}


def test_two_processes_encode_what_one_does(filled: Store) -> None:
    assert begin_scan(filled, 0)().parts == begin_scan(filled, NEVER)().parts


def test_one_large_project_is_shared_as_well(filled: Store) -> None:
    first, second = (FileStates([part]).by_path for part in begin_scan(filled, 0)().parts)
    assert first
    assert second
    assert not first.keys() & second.keys()


@pytest.mark.parametrize("many", [0, NEVER], ids=["two processes", "one process"])
def test_what_is_skipped_is_told_whichever_process_skips_it(filled: Store, many: int) -> None:
    folders = [filled.projects / f"-e/{n}.jsonl" for n in range(40)]
    for folder in folders:
        folder.mkdir(parents=True)
    with collect_skipped() as skipped:
        begin_scan(filled, many)()
    assert skipped == dict.fromkeys(map(str, folders), "a directory, not a regular file")


def test_a_helper_that_is_killed_is_made_up_for(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Threads of pytest's plugins, or left by another test, would keep the scan from forking.
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    for n in range(2000):
        (filled.projects / f"-a/more-{n}.jsonl").touch()
    finish = begin_scan(filled, 0)
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    assert finish().by_path == scan_store(filled).by_path


def test_without_a_second_process_one_scans_all(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    assert len(begin_scan(filled, 0)().by_path) == len(FILES)


def test_names_are_told_by_the_time_of_the_last_change(filled: Store) -> None:
    old = filled.projects / FILES[0]
    os.utime(old, ns=(10, 10))
    assert scan_store(filled).names_before(str(filled.projects), 11) == [old.name]
    assert scan_store(filled).names_before(str(filled.projects), 10) == []


def test_paths_that_are_not_utf8_are_skipped(filled: Store) -> None:
    before = scan_store(filled).by_path
    names = (b"-a/\xff.jsonl", b"-\xfe/one.jsonl", b"-b/subagents/agent-\xff.jsonl")
    odd = [filled.projects / os.fsdecode(name) for name in names]
    for path in odd:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    with collect_skipped() as skipped:
        assert scan_store(filled).by_path == before
    assert skipped == {str(path): "its name is not UTF-8" for path in odd}
