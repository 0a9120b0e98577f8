"""Node tables next to the index: written once, read by everyone, never trusted."""

import multiprocessing
import os
import random
import signal
import stat
import time
from pathlib import Path

import pytest

from support.build import assistant, call, result, session, text, user
from turnlog.conversation.session import Session, open_session
from turnlog.conversation.table_session import TableSession
from turnlog.index import session_tables
from turnlog.index.database import discard_index, index_path, tables_folder
from turnlog.index.session_tables import open_cached_session
from turnlog.render.rows import ViewOptions, rows_of
from turnlog.store.paths import Store

FORK = multiprocessing.get_context("fork")
TURNS = 40


def turn(number: int) -> list[bytes]:
    return [
        user(f"prompt {number}"),
        assistant(call("Bash", {"command": "ls"}, f"toolu_{number}"), message_id=f"a{number}"),
        result(f"toolu_{number}", "a file"),
        assistant(text(f"answer {number}"), message_id=f"b{number}"),
    ]


def content(turns: int) -> bytes:
    return session(*(raw for number in range(turns) for raw in turn(number)))


@pytest.fixture
def path(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session that counts as large, in a store whose index is in a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(session_tables, "SMALLEST", 0)
    folder = store.root / "projects" / "-home-ada"
    folder.mkdir(parents=True)
    path = folder / "5e551011-0000-4000-8000-000000000000.jsonl"
    path.write_bytes(content(TURNS))
    return path


def shown(session: Session) -> list[str]:
    return list(map(str, rows_of(session, ViewOptions(full=True))))


def tables(store: Store) -> list[Path]:
    return sorted(tables_folder(index_path(store)).iterdir())


def test_the_second_opening_uses_the_table(store: Store, path: Path) -> None:
    first, second = open_cached_session(store, path), open_cached_session(store, path)
    assert not isinstance(first, TableSession)
    assert isinstance(second, TableSession)
    assert shown(first) == shown(second) == shown(open_session(path))


def test_small_sessions_have_no_table(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_tables, "SMALLEST", path.stat().st_size + 1)
    open_cached_session(store, path)
    assert not tables_folder(index_path(store)).exists()


def test_tables_are_private(store: Store, path: Path) -> None:
    before = os.umask(0)
    try:
        open_cached_session(store, path)
    finally:
        os.umask(before)
    (table,) = tables(store)
    assert stat.S_IMODE(table.stat().st_mode) == 0o600
    assert stat.S_IMODE(table.parent.stat().st_mode) == 0o700


def test_only_appended_lines_are_read(store: Store, path: Path) -> None:
    open_cached_session(store, path)
    path.write_bytes(content(TURNS + 3))
    grown = open_cached_session(store, path)
    assert isinstance(grown, TableSession)
    assert len(grown.turns) == TURNS + 3
    assert grown.nodes_in_memory < 20
    assert shown(grown) == shown(open_session(path))


@pytest.mark.parametrize("change", ["edited", "replaced", "shortened", "moved away"])
def test_a_changed_file_is_read_anew(store: Store, path: Path, change: str) -> None:
    open_cached_session(store, path)
    changed = content(TURNS).replace(b"prompt 7", b"PROMPT 7")
    if change == "edited":
        path.write_bytes(changed)
        os.utime(path, ns=(0, 1))
    elif change == "replaced":
        path.with_suffix(".new").write_bytes(changed + b"\n")
        path.with_suffix(".new").replace(path)
    elif change == "shortened":
        path.write_bytes(content(3))
    else:
        other = path.with_name("6e551011-0000-4000-8000-000000000000.jsonl")
        path = path.rename(other)
    opened = open_cached_session(store, path)
    assert shown(opened) == shown(open_session(path))
    again = open_cached_session(store, path)
    assert isinstance(again, TableSession)
    assert shown(again) == shown(opened)


def test_a_long_tail_becomes_part_of_the_table(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_cached_session(store, path)
    path.write_bytes(content(3 * TURNS))
    monkeypatch.setattr(session_tables, "LONGEST_TAIL", 1000)
    open_cached_session(store, path)
    again = open_cached_session(store, path)
    assert isinstance(again, TableSession)
    assert again.tail_size < 2000


def test_tables_are_deleted_with_the_index(store: Store, path: Path) -> None:
    open_cached_session(store, path)
    index_path(store).touch()
    discard_index(index_path(store))
    assert tables(store) == []


def test_tables_are_deleted_although_there_is_no_index(store: Store, path: Path) -> None:
    open_cached_session(store, path)
    discard_index(index_path(store))
    assert tables(store) == []


def test_discarding_an_absent_index_leaves_no_files(store: Store, path: Path) -> None:
    index = index_path(store)
    index.parent.mkdir(parents=True)
    discard_index(index)
    assert list(index.parent.iterdir()) == []


def test_an_index_without_tables_is_deleted(store: Store, path: Path) -> None:
    index = index_path(store)
    index.parent.mkdir(parents=True)
    index.touch()
    discard_index(index)
    assert not index.exists()


def test_tables_of_deleted_sessions_and_too_many_tables_are_removed(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_tables, "MOST_TABLES", 3)
    copies = [
        path.with_name(f"{number}e551011-0000-4000-8000-000000000000.jsonl") for number in range(5)
    ]
    for copy in copies:
        copy.write_bytes(content(3))
        open_cached_session(store, copy)
    assert len(tables(store)) == 3
    copies[-1].unlink()
    open_cached_session(store, path)
    assert [table.name[:8] for table in tables(store)] == ["2e551011", "3e551011", "5e551011"]


def test_a_cache_that_cannot_be_written_does_no_harm(
    store: Store, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert shown(open_cached_session(store, path)) == shown(open_session(path))


def open_often(store: Store, path: Path, rounds: int) -> None:
    for _ in range(rounds):
        assert len(open_cached_session(store, path).turns) >= TURNS


def test_processes_may_open_and_append_at_once(store: Store, path: Path) -> None:
    workers = [FORK.Process(target=open_often, args=(store, path, 30)) for _ in range(2)]
    for worker in workers:
        worker.start()
    lines = content(2 * TURNS).splitlines(keepends=True)
    for number in range(4 * TURNS, 8 * TURNS):
        with path.open("ab") as file:
            file.write(lines[number])
        if number % 10 == 0:
            for table in tables(store) if tables_folder(index_path(store)).exists() else []:
                table.unlink(missing_ok=True)
        time.sleep(0.002)
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert shown(open_cached_session(store, path)) == shown(open_session(path))


def build_repeatedly(store: Store, path: Path) -> None:
    while True:
        for table in tables(store) if tables_folder(index_path(store)).exists() else []:
            table.unlink(missing_ok=True)
        open_cached_session(store, path)


def test_killed_while_writing_a_table_is_whole_or_absent(store: Store, path: Path) -> None:
    expected = shown(open_session(path))
    for _ in range(15):
        worker = FORK.Process(target=build_repeatedly, args=(store, path))
        worker.start()
        time.sleep(random.uniform(0.02, 0.1))
        assert worker.pid
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
        assert shown(open_cached_session(store, path)) == expected
        assert shown(open_cached_session(store, path)) == expected
    assert len(tables(store)) == 1
