"""Whatever interrupts a sync, the next one yields the right figures."""

import multiprocessing
import os
import random
import resource
import sqlite3
import time
from pathlib import Path

import pytest

from support.build import assistant, call, result, session, text, user
from support.index_dump import dump
from turnlog.errors import Unavailable
from turnlog.index.database import open_index, writing
from turnlog.index.ingest.change_check import is_current
from turnlog.index.ingest.file_states import scan_store
from turnlog.index.ingest.sync import sync
from turnlog.index.ingest.workers import BatchLimits
from turnlog.store.paths import Store

FORK = multiprocessing.get_context("fork")


def turn(number: int) -> list[bytes]:
    usage = {"input_tokens": number, "output_tokens": 2 * number}
    return [
        user(f"prompt {number}", uuid=f"u{number}"),
        assistant(
            call("Bash", {"command": "ls"}, f"t{number}"), message_id=f"m{number}", usage=usage
        ),
        result(f"t{number}", "a lot of output " * 50),
        assistant(text("done"), message_id=f"n{number}", usage=usage),
    ]


@pytest.fixture
def filled(tmp_path: Path) -> Store:
    """Forty sessions; each shares a turn with the next."""
    store = Store(tmp_path / "store")
    for number in range(40):
        name = f"{number:08}-0000-4000-8000-000000000000"
        path = store.projects / "-home-ada" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(session(*turn(number), *turn(number + 1), session_id=name))
    return store


def synced(path: Path, store: Store) -> None:
    with open_index(path) as index:
        sync(index, store, limits=BatchLimits(part=500, transaction=1))


@pytest.mark.parametrize(("worth_sharing", "rounds"), [(0, 20), (1 << 40, 100)])
def test_killed_at_any_moment_a_sync_is_made_good_by_the_next(
    worth_sharing: int,
    rounds: int,
    filled: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("turnlog.index.ingest.workers.WORTH_SHARING", worth_sharing)
    started = time.perf_counter()
    synced(tmp_path / "whole.db", filled)
    whole = time.perf_counter() - started
    with open_index(tmp_path / "whole.db") as index:
        expected = dump(index.db)
    reached: set[tuple[int, int]] = set()
    for number in range(rounds):
        path = tmp_path / f"{number}.db"
        child = FORK.Process(target=synced, args=(path, filled))
        child.start()
        child.join(random.uniform(0, 1.2 * whole))
        child.kill()
        child.join()
        with open_index(path) as index:
            reached.add(
                index.db.execute("SELECT count(*), sum(words_reached) FROM files").fetchone()
            )
            sync(index, filled)
            assert dump(index.db) == expected
    assert len(reached) > 3


def test_a_first_build_killed_before_its_end_is_not_taken_for_current(
    filled: Store, tmp_path: Path
) -> None:
    states = scan_store(filled)
    with open_index(tmp_path / "index.db") as index:
        sync(index, filled)
        expected = dump(index.db)
        assert is_current(index.db, states)
    with open_index(tmp_path / "killed.db") as index:
        with pytest.raises(Stopped):
            sync(index, filled, stop_at_end)
        assert index.db.execute("SELECT count(*) FROM files").fetchone() == (40,)
        assert not is_current(index.db, states, words=False)
        sync(index, filled)
        assert dump(index.db) == expected


def stop_at_end(done: int, total: int) -> None:
    if done == total:
        raise Stopped


@pytest.mark.parametrize("worth_sharing", [0, 1 << 40])
def test_two_syncs_at_once_give_what_one_gives(
    worth_sharing: int, filled: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnlog.index.ingest.workers.WORTH_SHARING", worth_sharing)
    synced(tmp_path / "whole.db", filled)
    for number in range(5):
        path = tmp_path / f"{number}.db"
        children = [FORK.Process(target=synced, args=(path, filled)) for _ in range(3)]
        for child in children:
            child.start()
        for child in children:
            child.join()
        assert [child.exitcode for child in children] == [0, 0, 0]
        with open_index(path) as index, open_index(tmp_path / "whole.db") as whole:
            assert dump(index.db) == dump(whole.db)


class Stopped(Exception):
    pass


def test_who_is_late_and_stops_early_takes_nothing_away(filled: Store, tmp_path: Path) -> None:
    small = BatchLimits(part=500, transaction=1)

    def stop(done: int, total: int) -> None:
        if done:
            raise Stopped

    def overtaken(done: int, total: int) -> None:
        if done:
            stop(done, total)
        with open_index(path) as other:
            sync(other, filled, limits=small)

    path = tmp_path / "index.db"
    with open_index(path) as index, pytest.raises(Stopped):
        sync(index, filled, overtaken, limits=small)
    synced(tmp_path / "whole.db", filled)
    with open_index(path) as index, open_index(tmp_path / "whole.db") as whole:
        assert dump(index.db) == dump(whole.db)


def test_a_damaged_index_is_made_anew_with_a_notice(filled: Store, tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    path.write_bytes(b"this is no database" * 1000)
    with open_index(path) as index:
        assert index.notice
        sync(index, filled)
        assert index.db.execute("SELECT count(*) FROM files").fetchone() == (40,)


def test_an_index_of_another_version_is_made_anew_with_a_notice(
    filled: Store, tmp_path: Path
) -> None:
    path = tmp_path / "index.db"
    synced(path, filled)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE about SET value = 'older' WHERE name = 'version'")
    db.close()
    with open_index(path) as index:
        assert index.notice
        assert index.db.execute("SELECT count(*) FROM files").fetchone() == (0,)
    with open_index(path) as index:
        assert index.notice is None


def test_no_room_is_one_clear_error_and_leaves_a_sound_index(filled: Store, tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    synced(path, filled)
    with open_index(path) as index:
        expected = dump(index.db)
    more = filled.projects / "-home-ada" / "99999999-0000-4000-8000-000000000000.jsonl"
    more.write_bytes(session(*(line for number in range(500) for line in turn(number))))

    def limited(queue: "multiprocessing.Queue[str]") -> None:
        room = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        try:
            synced(path, filled)
        except Unavailable as error:
            queue.put(error.message)

    queue = FORK.Queue()
    child = FORK.Process(target=limited, args=(queue,))
    child.start()
    child.join()
    assert str(path) in queue.get(timeout=5)
    more.unlink()
    with open_index(path) as index:
        sync(index, filled)
        assert dump(index.db) == expected


def test_an_index_that_cannot_be_written_to_is_one_clear_error(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.write_text("a file where the folder should be")
    with (
        pytest.raises((Unavailable, NotADirectoryError, FileExistsError)),
        open_index(folder / "i.db"),
    ):
        pass


def test_a_lock_that_is_held_is_one_clear_error(
    filled: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnlog.index.database.PATIENCE", 0.05)
    path = tmp_path / "index.db"
    synced(path, filled)
    with open_index(path) as holder, writing(holder.db):
        os.utime(next(iter(filled.session_files())))
        with pytest.raises(Unavailable, match="locked by another process"):
            synced(path, filled)


def test_a_cache_that_is_no_folder_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"")
    with (
        pytest.raises(Unavailable, match=r"cannot create .*cache/turnlog: Not a directory") as told,
        open_index(tmp_path / "cache" / "turnlog" / "index.db"),
    ):
        pass
    assert "XDG_CACHE_HOME" in told.value.line
