"""A question put to an index before it is known to be current.

SQLite needs no interpreter while it works: meanwhile the files are looked at, and modules loaded.
"""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Generic, TypeVar

from turnlog.index.database import Index, connect_to_read

STEPS = 1_000_000
"""SQLite's own, after which it notices that nobody waits any more."""

T = TypeVar("T")
Ask = Callable[[sqlite3.Connection], T]


class Ahead(Generic[T]):
    """A question that is being answered; the answer counts if nobody wrote since it was put.

    It is answered in a thread, on a connection of its own. What the thread does in Python is in the
    way of all else: it had better be one statement, whose rows are fetched later.
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
        """Stop, and let go of the file; who still wants an answer has it asked anew."""
        self._is_closed = True
        self._thread.join()
        self._db.close()

    def answer(self) -> tuple[sqlite3.Connection, T]:
        """What the index answers as it is now, and the connection that it did so on."""
        self._thread.join()
        is_good = not self._is_closed and _version(self._index.db) == self._version
        if is_good and self._answers:
            return self._db, self._answers[0]
        return self._index.db, self._ask(self._index.db)

    def _work(self) -> None:
        # Whatever goes wrong here does so again where it can be told.
        with suppress(Exception):
            self._answers.append(self._ask(self._db))


def _version(db: sqlite3.Connection) -> int:
    """Changes when another connection has written."""
    return db.execute("PRAGMA data_version").fetchone()[0]
