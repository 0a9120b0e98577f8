"""Dump an index without row ids, so that two ways of building it can be compared."""

import sqlite3
from typing import Any

from turnlog.index.tokenizer import searchable

PROMPT = "(SELECT p.line FROM prompts p WHERE p.id = t.prompt)"
TABLES = {
    "files": "opened_by, session, is_subagent, project, title, slug, started, ended, size, is_gone,"
    " carry",
    "prompts": "line, key, kind, at, ended, branch, text, model, working,"
    " permission_mode, is_copy, counts",
    "messages": f"line, {PROMPT}, key, request, model, at, branch, version, stop_reason, is_copy,"
    " is_subagent, usage, input, output, cache_write_5m, cache_write_1h, cache_read, searches,"
    " cost, is_understated, counts",
    "calls": f"line, {PROMPT}, key, tool, at, branch, path, command, result_line, ended, is_error,"
    " error, added, removed, model, is_copy, is_subagent, counts",
    "pulls": "line, number, url, repository",
    "commits": "line, at, branch, hash",
    "compactions": "line, at, trigger, pre_tokens",
    "docs": f"line, offset, size, part, kind, tool, is_error, at, {PROMPT}",
}


def dump(db: sqlite3.Connection) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of every table, in an order of their own."""
    return {name: _rows(db, name, columns) for name, columns in TABLES.items()}


def found(db: sqlite3.Connection, word: str) -> list[tuple[str, int, str]]:
    """Return where a word occurs."""
    rows = db.execute(
        "SELECT f.path, d.line, d.kind FROM words w JOIN docs d ON d.id = w.rowid"
        " JOIN files f ON f.id = d.file WHERE words MATCH ?",
        (f'"{searchable(word)}"',),
    )
    return sorted(rows)


def _rows(db: sqlite3.Connection, name: str, columns: str) -> list[tuple[Any, ...]]:
    source = "files t" if name == "files" else f"{name} t JOIN files f ON f.id = t.file"
    path = "t.path" if name == "files" else "f.path"
    wanted = ", ".join(_qualified(column) for column in columns.split(", "))
    return sorted(db.execute(f"SELECT {path}, {wanted} FROM {source}"), key=repr)


def _qualified(column: str) -> str:
    return column if "(" in column or ")" in column or "." in column else f"t.{column}"
