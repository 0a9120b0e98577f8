"""The worker of the picker: only the newest question counts, and slow ones are interrupted."""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from turnlog.picker.query_worker import Databases, QueryWorker, QuestionKind

SLOW = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
LIST, ROWS = QuestionKind.LIST, QuestionKind.ROWS


@pytest.fixture
def worker(tmp_path: Path) -> Any:
    path = tmp_path / "index.db"
    sqlite3.connect(path).close()
    started = QueryWorker([path])
    yield started
    started.close()


def number(value: int) -> Callable[[Databases], Any]:
    return lambda dbs: dbs[0].execute(f"SELECT {value}").fetchone()[0]


def test_a_slow_question_is_interrupted_by_the_next(worker: QueryWorker) -> None:
    answers: Queue[Any] = Queue()
    worker.ask(LIST, lambda dbs: dbs[0].execute(SLOW).fetchone(), answers.put)
    time.sleep(0.2)
    worker.ask(LIST, number(2), answers.put)
    assert answers.get(timeout=20) == 2
    assert answers.empty()


def test_less_urgent_questions_wait_and_are_interrupted(worker: QueryWorker) -> None:
    answers: Queue[Any] = Queue()
    worker.ask(ROWS, lambda dbs: dbs[0].execute(SLOW).fetchone(), answers.put)
    time.sleep(0.2)
    worker.ask(LIST, number(1), answers.put)
    assert answers.get(timeout=20) == 1
    worker.ask(ROWS, number(3), answers.put)
    assert answers.get(timeout=20) == 3


def test_every_last_question_is_answered(worker: QueryWorker) -> None:
    for _ in range(200):
        answers: Queue[Any] = Queue()
        for value in range(5):
            worker.ask(LIST, number(value), answers.put)
        while answers.get(timeout=20) != 4:
            pass


def test_a_rebuilt_index_is_opened_again(worker: QueryWorker, tmp_path: Path) -> None:
    answers: Queue[Any] = Queue()
    worker.ask(LIST, number(1), answers.put)
    assert answers.get(timeout=20) == 1
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE t AS SELECT 7 AS x")
    db.close()
    other.replace(tmp_path / "index.db")
    worker.ask(LIST, lambda dbs: dbs[0].execute("SELECT x FROM t").fetchone()[0], answers.put)
    assert answers.get(timeout=20) == 7


def test_without_an_index_there_is_no_answer_and_no_crash(tmp_path: Path) -> None:
    worker, answers = QueryWorker([tmp_path / "missing.db"]), Queue[Any]()
    worker.ask(LIST, number(1), answers.put)
    time.sleep(0.2)
    sqlite3.connect(tmp_path / "missing.db").close()
    worker.ask(LIST, number(2), answers.put)
    assert answers.get(timeout=20) == 2
    worker.close()
