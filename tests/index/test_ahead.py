"""A speculative query returns what the index would answer now."""

import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from turnlog.errors import UsageError
from turnlog.index.database import connect, open_index
from turnlog.index.speculative import SpeculativeQuery


def count(db: sqlite3.Connection) -> int:
    return db.execute("SELECT count(*) FROM about").fetchone()[0]


def test_the_answer_comes_from_a_connection_of_its_own(tmp_path: Path) -> None:
    with open_index(tmp_path / "index.db") as index:
        with closing(SpeculativeQuery(index, count)) as query:
            db, answer = query.answer()
        assert (answer, db is index.db) == (3, False)


def test_rows_can_be_fetched_later(tmp_path: Path) -> None:
    with open_index(tmp_path / "index.db") as index:
        asked = "SELECT name FROM about ORDER BY name"
        with closing(SpeculativeQuery(index, lambda db: db.execute(asked))) as query:
            assert [name for (name,) in query.answer()[1]] == ["generation", "next_doc", "version"]


def test_what_was_written_meanwhile_is_in_the_answer(tmp_path: Path) -> None:
    with open_index(tmp_path / "index.db") as index:
        was_asked = Event()

        def ask(db: sqlite3.Connection) -> int:
            found = count(db)
            was_asked.set()
            return found

        with closing(SpeculativeQuery(index, ask)) as query, closing(connect(index.path)) as other:
            was_asked.wait()
            other.execute("INSERT INTO about VALUES ('more', 1)")
            assert query.answer()[1] == 4


def test_a_question_that_is_closed_stops_and_is_asked_anew(tmp_path: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    with open_index(tmp_path / "index.db") as index:
        query = SpeculativeQuery(
            index, lambda db: count(db) if db is index.db else db.execute(endless)
        )
        query.close()
        assert query.answer() == (index.db, 3)


def test_an_error_is_raised_where_the_answer_is_wanted(tmp_path: Path) -> None:
    def refuse(db: sqlite3.Connection) -> None:
        raise UsageError("no", "yes")

    with (
        open_index(tmp_path / "index.db") as index,
        closing(SpeculativeQuery(index, refuse)) as query,
        pytest.raises(UsageError),
    ):
        query.answer()
