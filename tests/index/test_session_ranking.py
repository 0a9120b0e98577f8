"""Ranking sessions for every keystroke: the same sessions as a search, in whichever order."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.build import assistant, call, session, text, user
from turnlog.index.database import connect_to_read, index_path
from turnlog.index.reports.session_list import ListFilters, describe_listed, find_matches
from turnlog.index.search import session_ranking
from turnlog.index.search.selection import Selection
from turnlog.index.search.session_ranking import (
    file_order,
    find_document,
    last_texts,
    rank_sessions,
    texts_around,
)
from turnlog.index.search.word_search import SearchTerms, parse_search
from turnlog.index.sync_policy import sync_index
from turnlog.store.paths import Store

COUNT = 12


@pytest.fixture
def db(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[sqlite3.Connection]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    for number in range(COUNT):
        id_ = f"{number:08d}-0000-4000-8000-000000000000"
        folder = store.projects / f"-home-ada-p{number % 3}"
        folder.mkdir(exist_ok=True)
        stamp = f"2026-11-{number + 1:02d}T06:00:00.000Z"
        common: dict[str, Any] = {"cwd": f"/home/ada/p{number % 3}", "timestamp": stamp}
        word = "even" if number % 2 == 0 else "odd"
        usage = {"usage": {"input_tokens": 5, "cache_read_input_tokens": 995, "output_tokens": 0}}
        lines = session(
            user(f"Prompt {word} everywhere", **common),
            assistant(call("Bash", {"command": f"run{number}"}), message_id=f"m{number}", **common),
            assistant(
                text(f"Answer number{number}"), message_id=f"n{number}", message=usage, **common
            ),
            session_id=id_,
        )
        (folder / f"{id_}.jsonl").write_bytes(lines)
        if number == 0:
            agent = folder / id_ / "subagents" / "agent-a1.jsonl"
            agent.parent.mkdir(parents=True)
            agent.write_bytes(session(user("hidden zeppelin"), session_id=id_, agent_id="a1"))
    path, _ = sync_index(store)
    assert path == index_path(store)
    opened = connect_to_read(path)
    yield opened
    opened.close()


def ids(db: sqlite3.Connection, query: str, limit: int = 0, **filters: object) -> list[int]:
    terms = SearchTerms(parse_search(query), Selection(**filters), limit)  # pyright: ignore
    found = rank_sessions(db, terms, file_order(db))
    rows = describe_listed(db, [each.number for each in found])
    return [int(rows[each.number].id[:8]) for each in found]


def test_frequent_words_list_the_same_sessions_newest_first(
    db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_relevance = ids(db, "odd")
    monkeypatch.setattr(session_ranking, "FREQUENT", 2)
    by_time = ids(db, "odd")
    assert sorted(by_relevance) == sorted(by_time)
    assert by_time == [11, 9, 7, 5, 3, 1]
    assert ids(db, "odd", limit=2) == [11, 9]


@pytest.mark.parametrize("frequent", [1, 10_000])
def test_sessions_are_found_by_their_subagents(
    db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch, frequent: int
) -> None:
    monkeypatch.setattr(session_ranking, "FREQUENT", frequent)
    assert ids(db, "zeppelin") == [0]


@pytest.mark.parametrize("frequent", [1, 10_000])
def test_a_search_can_be_limited_to_some_sessions(
    db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch, frequent: int
) -> None:
    monkeypatch.setattr(session_ranking, "FREQUENT", frequent)
    found = find_matches(db, ListFilters(directories=("/home/ada/p1",)), 0)
    numbers = tuple(number for _, number in found.rows)
    assert sorted(ids(db, "everywhere", numbers=numbers)) == [1, 4, 7, 10]
    most = tuple(number for _, number in find_matches(db, ListFilters(), 0).rows[:8])
    assert sorted(ids(db, "everywhere", numbers=most)) == list(range(4, COUNT))


def test_directories_include_those_below_and_no_others(db: sqlite3.Connection) -> None:
    def count(*directories: str) -> int:
        return len(find_matches(db, ListFilters(directories=directories), 0).rows)

    assert count("/home/ada") == count("/home/ada/") == count("/") == COUNT
    assert count("/home/ada/p1", "/home/ada/p2") == 8
    assert count("/home/ad") == count("/home/ada/p") == 0


def test_the_best_text_of_a_session_and_its_surroundings(db: sqlite3.Connection) -> None:
    terms = SearchTerms(parse_search("number5"), Selection(), 0)
    (found,) = rank_sessions(db, terms, file_order(db))
    assert found.document == find_document(db, found.number, terms.query)
    assert found.document is not None
    places = texts_around(db, found.document, ("prompt", "answer"), 2, 2)
    assert [place.kind for place in places] == ["prompt", "answer"]
    assert [place.kind for place in last_texts(db, found.number, ("answer",), 3)] == ["answer"]
    assert find_document(db, found.number, parse_search("zeppelin")) is None


def test_rows_have_the_context_of_the_last_answer(db: sqlite3.Connection) -> None:
    number = find_matches(db, ListFilters(), 0).rows[0][1]
    row = describe_listed(db, [number])[number]
    assert (row.context_tokens, row.context_model) == (1000, "claude-opus-5-5")
