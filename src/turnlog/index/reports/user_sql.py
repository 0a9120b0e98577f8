"""Run SQL that users write themselves; the index is opened read-only."""

import re
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from turnlog.errors import UsageError
from turnlog.index.command_names import program

STEPS = 100_000
"""SQLite instructions between checks for Ctrl-C."""
OUTSIDE = (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH)
INTERNAL = re.compile(r"words_\w+|sqlite_dbpage")
"""Tables that hold the words of secrets in pieces, which no rule would mask."""
CONTROL = re.compile(r"[\0-\x08\x0e-\x1f]")
TABLES_HINT = "turnlog sql --tables"
NAMES = {
    "tool": "SELECT DISTINCT tool FROM calls",
    "model": "SELECT DISTINCT model FROM messages",
}
"""Queries for the values that a shell completes."""


class SqlResult(NamedTuple):
    """The columns and rows of a query."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


class IndexTable(NamedTuple):
    """A table or a view of the index."""

    name: str
    columns: list[str]


def run_query(path: Path, statement: str) -> SqlResult:
    """Run one statement that returns rows."""
    with _reading(path) as db:
        try:
            _require_public(db, statement)
            found = db.execute(statement)
            rows = found.fetchall()
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            raise _explained(error) from error
    if found.description is None:
        raise UsageError("the statement returns no rows", TABLES_HINT)
    return SqlResult([name for name, *_ in found.description], [_readable(row) for row in rows])


def used_names(path: Path, column: Literal["tool", "model"]) -> list[str]:
    """Return the tools or models that occur in the index, without bringing it up to date."""
    if not path.exists():
        return []
    found = run_query(path, NAMES[column])
    return [name for (name,) in found.rows if name]


def tables_of(path: Path) -> list[IndexTable]:
    """Return the tables and views that can be queried."""
    with _reading(path) as db:
        names = [
            name
            for (name,) in db.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
                " AND name NOT LIKE 'sqlite!_%' ESCAPE '!' AND name NOT LIKE 'words!_%' ESCAPE '!'"
            )
        ]
        return [
            IndexTable(
                name,
                [each[1] for each in db.execute(f"PRAGMA table_xinfo({name})") if each[6] != 1],
            )
            for name in names
        ]


@contextmanager
def _reading(path: Path) -> Generator[sqlite3.Connection]:
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        db.execute("PRAGMA query_only = ON")
        db.create_function("program", 1, program, deterministic=True)
        # A read-only connection does not stop ATTACH and VACUUM INTO from opening other files.
        db.set_authorizer(_allowed)
        db.set_progress_handler(_check_signals, STEPS)
        yield db
    finally:
        db.close()


def _allowed(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_DENY if action in OUTSIDE else sqlite3.SQLITE_OK


def _allowed_public(action: int, table: str | None, *_: str | None) -> int:
    is_internal = action == sqlite3.SQLITE_READ and INTERNAL.fullmatch(table or "")
    return sqlite3.SQLITE_DENY if is_internal else _allowed(action)


def _require_public(db: sqlite3.Connection, statement: str) -> None:
    """Let a connection run a statement only if it names none of the internal tables."""
    # While a search runs, SQLite itself reads the tables of the full-text index, through the same
    # authorizer. So the statement is compiled alone first. What `EXPLAIN` cannot compile, such as
    # another EXPLAIN, runs under the stricter rule.
    db.execute("SELECT rowid FROM words LIMIT 0")  # reads the settings of the full-text index
    db.set_authorizer(_allowed_public)
    try:
        db.execute(f"EXPLAIN {statement}")
    except (sqlite3.Error, sqlite3.Warning, ValueError):
        return
    db.set_authorizer(_allowed)


def _check_signals() -> int:
    """Let Python run its signal handlers, so that Ctrl-C interrupts a long query."""
    return 0


def _explained(error: Exception) -> BaseException:
    reason = str(error)
    if reason == "interrupted":
        return KeyboardInterrupt()
    if reason.startswith("access to "):
        return UsageError("the tables of the full-text index are internal: use words", TABLES_HINT)
    if "readonly" in reason or "authoriz" in reason:
        reason = "the index is read-only"
    return UsageError(reason, TABLES_HINT)


def _readable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_text_of(each) if isinstance(each, bytes) else each for each in row)


def _text_of(blob: bytes) -> str:
    """Return a BLOB of the index: JSON as it is, and other data by its length."""
    try:
        text = blob.decode()
    except UnicodeDecodeError:
        text = "\0"
    return f"<{len(blob)} bytes>" if CONTROL.search(text) else text
