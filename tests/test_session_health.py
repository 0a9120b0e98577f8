"""Sessions that need attention: which ones are listed, and for how long the client keeps them."""

import os
import time
from pathlib import Path

import pytest

from support.build import assistant, session, user
from turnlog.index.sync_policy import synced_index
from turnlog.session_health import expiring, unresumable
from turnlog.store.archive.archive import open_archive
from turnlog.store.archive.update import archive_sessions
from turnlog.store.catalog import locate_session
from turnlog.store.paths import Store

DAY = 86400
KEPT = 30
"""Days that the client keeps sessions by default."""
IDS = [f"{digit * 8}-0000-4000-8000-000000000000" for digit in "123"]
BROKEN = b'{"type": "user", "uu\n'


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def put(store: Store, id_: str, content: bytes = b"", days: float = 0.0) -> Path:
    """Write a session that was used for the last time some days ago."""
    path = store.projects / "-home-ada" / f"{id_}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(session(user("hi"), assistant(message_id=id_), session_id=id_) + content)
    then = time.time() - days * DAY
    os.utime(path, (then, then))
    return path


def found(store: Store, paths: list[Path], room: int) -> list[Path]:
    with synced_index(store) as index:
        checked = unresumable(index, [locate_session(path) for path in paths], room)
        return [each.path for each, _ in checked]


def test_sessions_that_would_not_resume_are_found(store: Store) -> None:
    paths = [put(store, IDS[0]), put(store, IDS[1], BROKEN)]
    assert found(store, paths, 1 << 20) == [paths[1]]


def test_a_run_checks_no_more_than_it_may_and_the_next_one_goes_on(store: Store) -> None:
    paths = [put(store, id_, BROKEN) for id_ in IDS]
    size = paths[0].stat().st_size
    assert found(store, paths, size - 1) == []
    assert found(store, paths, size) == paths[:1]
    assert found(store, paths, 2 * size - 1) == paths[:2]
    assert found(store, paths, 0) == paths[:2]
    # A check is not repeated until the file changes.
    paths[0].write_bytes(paths[0].read_bytes().removesuffix(BROKEN))
    assert found(store, paths, 1 << 20) == paths[1:]


def test_sessions_that_are_deleted_within_a_week_are_found_oldest_first(store: Store) -> None:
    for id_, days in zip(IDS, (KEPT - 6.9999, KEPT - 7.1, KEPT + 3.5), strict=True):
        put(store, id_, days=days)
    assert [each.id for each in expiring(store)] == [IDS[2], IDS[0]]
    assert [each.days for each in expiring(store)] == pytest.approx([-3.5, 7.0], abs=0.05)


def test_archived_sessions_are_not_about_to_be_lost(store: Store) -> None:
    put(store, IDS[0], days=KEPT)
    assert [each.id for each in expiring(store)] == [IDS[0]]
    archive_sessions(store, open_archive())
    assert expiring(store) == []
