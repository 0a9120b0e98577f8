"""SQL that users write reads no internal tables, and prints BLOBs as JSON or by their length."""

import sqlite3
from importlib.resources import files
from pathlib import Path

import pytest

from turnlog.errors import UsageError
from turnlog.index.reports.user_sql import run_query


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "index.db"
    db = sqlite3.connect(path)
    db.executescript(files("turnlog.index").joinpath("schema.sql").read_text("utf-8"))
    db.execute("INSERT INTO words (rowid, asked) VALUES (7, 'push with hunter2')")
    db.commit()
    db.close()
    return path


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM words_data",
        "SELECT hex(block) FROM main.WORDS_DATA",
        "; SELECT * FROM words_data",
        "WITH a AS (SELECT term FROM words_idx) SELECT * FROM a",
        "SELECT d.id FROM words JOIN words_docsize d ON d.id = words.rowid",
    ],
)
def test_the_tables_of_the_full_text_index_cannot_be_read(path: Path, statement: str) -> None:
    with pytest.raises(UsageError, match="internal"):
        run_query(path, statement)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT rowid FROM words WHERE words MATCH 'hunt*' ORDER BY bm25(words)", 7),
        ("SELECT count(*) FROM words", 1),
        ("""SELECT CAST('{"a":1}' AS BLOB)""", '{"a":1}'),
        ("SELECT x'0102ff'", "<3 bytes>"),
        ("SELECT x'6100'", "<2 bytes>"),
    ],
)
def test_other_statements_run(path: Path, statement: str, expected: object) -> None:
    assert run_query(path, statement).rows == [(expected,)]
