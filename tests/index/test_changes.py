"""The quick check of files and the sync agree on whether there is anything to do."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.build import assistant, session, text, user
from turnlog.format.jsonl import append_lines
from turnlog.index.database import Index, open_index
from turnlog.index.ingest.change_check import fingerprint, is_current
from turnlog.index.ingest.file_states import scan_store
from turnlog.index.ingest.sync import Synced, sync, sync_session
from turnlog.index.ingest.workers import BatchLimits
from turnlog.store.archive.archive import Archive
from turnlog.store.archive.update import archive_sessions
from turnlog.store.paths import Store

ID = "11111111-0000-4000-8000-000000000000"
OTHER = "22222222-0000-4000-8000-000000000000"
SAID = session(user("hi"), assistant(text("hello")), session_id=ID)
NOTHING = Synced(0, 0, 0)


@pytest.fixture
def filled(store: Store) -> Store:
    put(store, f"-a/{ID}.jsonl")
    put(store, f"-a/{ID}/subagents/agent-1.jsonl")
    put(store, "-b/agent-2.jsonl")
    return store


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with open_index(tmp_path / "index.db") as opened:
        yield opened


def put(store: Store, name: str, content: bytes = SAID) -> Path:
    path = store.projects / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def at(store: Store, name: str = f"-a/{ID}.jsonl") -> Path:
    return store.projects / name


CHANGES: dict[str, Callable[[Store], object]] = {
    "append": lambda store: append_lines(at(store), [SAID.splitlines()[0]]),
    "touch": lambda store: os.utime(at(store), ns=(1, 1)),
    "cut": lambda store: os.truncate(at(store), 10),
    "session": lambda store: put(store, f"-a/{OTHER}.jsonl"),
    "project": lambda store: put(store, f"-c/{OTHER}.jsonl"),
    "subagent": lambda store: put(store, f"-a/{ID}/subagents/workflows/w/agent-3.jsonl"),
    "subagent grows": lambda store: append_lines(at(store, "-b/agent-2.jsonl"), [b"{}"]),
    "gone": lambda store: at(store).unlink(),
    "moved": lambda store: at(store).rename(at(store, f"-b/{ID}.jsonl")),
    "empty": lambda store: put(store, f"-a/{OTHER}.jsonl", b""),
}
NO_CHANGES: dict[str, Callable[[Store], object]] = {
    "nothing": lambda store: None,
    "another kind of file": lambda store: put(store, "-a/notes.txt"),
    "hidden": lambda store: put(store, f"-a/.{OTHER}.jsonl"),
    "a result": lambda store: put(store, f"-a/{ID}/tool-results/1.txt"),
    "a folder": lambda store: at(store, "-d").mkdir(),
}


def test_a_new_index_is_not_current(filled: Store, index: Index) -> None:
    assert not is_current(index.db, scan_store(filled))
    sync(index, filled)
    assert is_current(index.db, scan_store(filled))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen(filled: Store, index: Index, change: Callable[[Store], object]) -> None:
    sync(index, filled)
    change(filled)
    assert not is_current(index.db, scan_store(filled))
    assert sync(index, filled) != NOTHING
    assert is_current(index.db, scan_store(filled))
    assert sync(index, filled) == NOTHING


@pytest.mark.parametrize("change", NO_CHANGES.values(), ids=NO_CHANGES)
def test_what_is_no_change_is_none(
    filled: Store, index: Index, change: Callable[[Store], object]
) -> None:
    sync(index, filled)
    change(filled)
    assert is_current(index.db, scan_store(filled))
    assert sync(index, filled) == NOTHING


def test_a_store_that_is_not_there_is_empty(index: Index, tmp_path: Path) -> None:
    assert is_current(index.db, scan_store(Store(tmp_path / "nowhere")))


def test_a_file_that_was_read_in_part_is_not_current(filled: Store, index: Index) -> None:
    def stop(done: int, total: int) -> None:
        if 0 < done < total:
            raise KeyboardInterrupt

    sync(index, filled)
    append_lines(at(filled), [SAID.splitlines()[0]] * 10)
    with pytest.raises(KeyboardInterrupt):
        sync(index, filled, stop, BatchLimits(part=300, transaction=1))
    assert not is_current(index.db, scan_store(filled))
    sync(index, filled)
    assert is_current(index.db, scan_store(filled))


def test_a_file_that_is_back_as_it_was_is_read_again(filled: Store, index: Index) -> None:
    sync(index, filled)
    at(filled).rename(filled.root / "aside")
    sync(index, filled)
    (filled.root / "aside").rename(at(filled))
    assert not is_current(index.db, scan_store(filled))
    sync(index, filled)
    assert is_current(index.db, scan_store(filled))


def test_whatever_the_figures_change_by_the_fingerprint_is_taken_anew(
    filled: Store, index: Index
) -> None:
    sync(index, filled)
    before = fingerprint(index.db, scan_store(filled))
    append_lines(at(filled), [SAID.splitlines()[0]])
    sync_session(index, filled, at(filled))
    assert fingerprint(index.db, scan_store(filled)) != before
    assert is_current(index.db, scan_store(filled), words=False)


def test_what_was_archived_is_a_change(filled: Store, index: Index, tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive")
    sync(index, filled, archive=archive)
    assert is_current(index.db, scan_store(filled), archive.folder)
    archive_sessions(filled, archive)
    assert not is_current(index.db, scan_store(filled), archive.folder)
    long_ago = 1_700_000_000_000_000_000
    os.utime(archive.sessions, ns=(long_ago, long_ago))
    sync(index, filled, archive=archive)
    assert is_current(index.db, scan_store(filled), archive.folder)
    at(filled).unlink()
    sync(index, filled, archive=archive)
    assert is_current(index.db, scan_store(filled), archive.folder)
    assert not is_current(index.db, scan_store(filled))
