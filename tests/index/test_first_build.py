"""The first build of an index is complete: a later sync finds nothing to do."""

from pathlib import Path

import pytest

from support.build import SESSION, assistant, session, text, user
from turnlog.index.database import Index, open_index
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
