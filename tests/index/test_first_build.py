"""The first build of an index is complete: a later sync finds nothing to do."""

from pathlib import Path

import pytest

from support.build import SESSION, assistant, session, text, user
from turnlog.index.database import Index, defer_merging, open_index
from turnlog.index.ingest.change_check import is_current
from turnlog.index.ingest.file_states import scan_store
from turnlog.index.ingest.sync import sync
from turnlog.store.paths import Store


@pytest.fixture
def filled(store: Store) -> Store:
    folder = store.projects / "-home-ada-shop"
    folder.mkdir()
    content = session(user("hi"), assistant(text("so"), message_id="m1"))
    (folder / f"{SESSION}.jsonl").write_bytes(content)
    return store


def names_of(index: Index) -> set[str]:
    return {name for (name,) in index.db.execute("SELECT name FROM sqlite_master")}


def test_the_indexes_that_a_build_leaves_out_are_added(filled: Store, tmp_path: Path) -> None:
    with open_index(tmp_path / "index.db") as index:
        before = names_of(index)
        sync(index, filled)
        added = names_of(index) - before
    assert {"messages_at_work", "calls_by_key", "calls_at_work"} <= added


def test_figures_alone_are_not_all_that_a_search_needs(filled: Store, tmp_path: Path) -> None:
    with open_index(tmp_path / "index.db") as index:
        sync(index, filled, words=False)
        states = scan_store(filled)
        assert is_current(index.db, states, words=False)
        assert not is_current(index.db, states)
        sync(index, filled)
        assert is_current(index.db, states)


def test_a_sync_catches_up_on_deferred_merging(filled: Store, tmp_path: Path) -> None:
    """The process that deferred it may have been killed before it finished its write."""
    segments = "SELECT count(DISTINCT segid) FROM words_idx"
    settings = "SELECT k, v FROM words_config WHERE k LIKE '%merge'"
    with open_index(tmp_path / "index.db") as index:
        for number in range(3):
            name = f"{number}{SESSION[1:]}"
            content = session(user(f"hi {number}"), session_id=name)
            (filled.projects / "-home-ada-shop" / f"{name}.jsonl").write_bytes(content)
            sync(index, filled)
        assert index.db.execute(segments).fetchone() == (3,)
        defer_merging(index.db)
        sync(index, filled)
        assert index.db.execute(segments).fetchone() == (1,)
        assert dict(index.db.execute(settings)) == {"automerge": 4, "crisismerge": 16}
