"""A thread that queries the indexes; of each kind of question, only the newest counts.

A replaced question is dropped, or interrupted if SQLite is running it. So holding a key down never
queues up queries.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from threading import Condition, Thread
from typing import Any

from turnlog.index.database import connect_to_read

STEPS = 100_000
"""SQLite instructions between checks whether the running question is outdated."""


class QuestionKind(IntEnum):
    """Kinds of questions, the most urgent first."""

    LIST = 0
    ROWS = 1
    PREVIEW = 2


Databases = Mapping[int, sqlite3.Connection]
"""A connection to the index of each store, by the store's number; an index may not exist yet."""
Ask = Callable[[Databases], Any]
Deliver = Callable[[Any], None]


class QueryWorker:
    """Runs questions in a thread, on connections of its own."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._dbs: dict[int, sqlite3.Connection] = {}
        self._inodes: dict[int, int] = {}
        self._waiting: dict[QuestionKind, tuple[Ask, Deliver]] = {}
        self._running: QuestionKind | None = None
        self._is_closed = False
        self._is_outdated = False
        """True if the running question was replaced, or a more urgent one is waiting."""
        self._changed = Condition()
        self._thread = Thread(target=self._work, daemon=True, name="picker queries")
        self._thread.start()

    def ask(self, kind: QuestionKind, ask: Ask, deliver: Deliver) -> None:
        """Ask a question, replacing any other of its kind; the thread delivers the answer."""
        with self._changed:
            self._waiting[kind] = ask, deliver
            if self._running is not None and self._running >= kind:
                self._interrupt()
            self._changed.notify()

    def close(self) -> None:
        """Stop the thread."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            self._interrupt()
            self._changed.notify()
        self._thread.join(1)

    def _interrupt(self) -> None:
        # SQLite ignores an interrupt if no statement is running yet; then the progress handler
        # checks the flag.
        self._is_outdated = True
        for db in list(self._dbs.values()):
            db.interrupt()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._is_closed:
                    self._changed.wait()
                if self._is_closed:
                    break
                kind = min(self._waiting)
                ask, deliver = self._waiting.pop(kind)
                self._running, self._is_outdated = kind, False
            answer = self._answer(kind, ask, deliver)
            with self._changed:
                self._running = None
                is_newest = kind not in self._waiting and not self._is_closed
            if answer and is_newest:
                deliver(answer[0])
        self._close_all()

    def _answer(self, kind: QuestionKind, ask: Ask, deliver: Deliver) -> tuple[Any] | None:
        """Return the answer; None if the question was interrupted or there is no index yet."""
        try:
            dbs = self._connections()
            return (ask(dbs),) if dbs else None
        except sqlite3.OperationalError as error:
            if "interrupt" in str(error):
                # The interrupt may have been meant for the previous question: repeat this one
                # unless it was replaced.
                with self._changed:
                    self._waiting.setdefault(kind, (ask, deliver))
        except (sqlite3.DatabaseError, OSError, KeyError):  # KeyError: one of several is missing
            self._close_all()  # being rebuilt: the next refresh asks again
        return None

    def _close_all(self) -> None:
        for db in self._dbs.values():
            with suppress(sqlite3.Error):
                db.close()
        self._dbs = {}

    def _connections(self) -> Databases:
        for number, path in enumerate(self._paths):
            with suppress(FileNotFoundError):
                self._connect(number, path)
        return self._dbs

    def _connect(self, number: int, path: Path) -> None:
        # A rebuilt index is a new file; the old connection would still read the deleted one.
        inode = path.stat().st_ino
        if number in self._dbs and inode == self._inodes[number]:
            return
        if number in self._dbs:
            self._dbs[number].close()
        self._dbs[number], self._inodes[number] = connect_to_read(path), inode
        self._dbs[number].set_progress_handler(lambda: self._is_outdated, STEPS)
