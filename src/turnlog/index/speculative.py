"""Run a query speculatively while checking files for changes.

SQLite releases the interpreter lock while it works, so scanning files and importing modules cost
nothing extra. A result counts only if nothing was written since the query started.
"""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Generic, TypeVar

from turnlog.index.database import Index, connect_to_read

STEPS = 1_000_000
"""SQLite instructions after which an abandoned query notices that it was closed."""

T = TypeVar("T")
Ask = Callable[[sqlite3.Connection], T]


class SpeculativeQuery(Generic[T]):
    """A query running in a thread, on a connection of its own.

    Python code in the thread competes with the main thread for the interpreter lock: pass a
    function that executes one statement, and fetch its rows later.
    """

    def __init__(self, index: Index, ask: Ask[T]) -> None:
        self._index = index
        self._ask = ask
        self._version = _version(index.db)
        self._is_closed = False
        self._db = connect_to_read(index.path)
        self._db.set_progress_handler(lambda: self._is_closed, STEPS)
        self._answers: list[T] = []
        self._thread = Thread(target=self._work, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the query and close its connection; a later `answer()` runs the query again."""
        self._is_closed = True
        self._thread.join()
        self._db.close()

    def answer(self) -> tuple[sqlite3.Connection, T]:
        """Return a current result and its connection, repeating the query if needed."""
        self._thread.join()
        is_valid = not self._is_closed and _version(self._index.db) == self._version
        if is_valid and self._answers:
            return self._db, self._answers[0]
        return self._index.db, self._ask(self._index.db)

    def _work(self) -> None:
        # Without a result, `answer` repeats the query on the caller's thread, where the same error
        # is raised to someone who can report it.
        with suppress(Exception):
            self._answers.append(self._ask(self._db))


def _version(db: sqlite3.Connection) -> int:
    """Return a number that changes when another connection has committed."""
    return db.execute("PRAGMA data_version").fetchone()[0]
