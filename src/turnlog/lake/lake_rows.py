"""Convert an index's rows of session files to rows for the tables of a lake.

Each file has its own rows, copies included: which copy counts is decided when a report is computed,
because only then are all machines known. Figures are those recorded in the file itself.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from turnlog.conversation.cost import WEB_SEARCH, cache_writes, rates_on, searches
from turnlog.conversation.nodes import SYNTHETIC
from turnlog.format.blocks import Usage
from turnlog.index.command_names import program
from turnlog.lake.lake_names import (
    KINDS,
    PERMISSION_MODES,
    STOP_REASONS,
    TRIGGERS,
    NameFilter,
    day_of,
)
from turnlog.lake.lake_schema import NO_DAY, PRECISION, SCALE, TABLES

FILES_AT_ONCE = 500
"""Files per query; SQLite allows more than 30,000 parameters."""
LARGEST_COST = Decimal(10) ** (PRECISION - SCALE)
"""Microdollars: a message that costs more than a million dollars is taken for a mistake."""
ZERO = Decimal(0).scaleb(-SCALE)
SEARCH_RATE = Decimal(round(WEB_SEARCH * 1_000_000)) + ZERO
UNPRICED = (None,) * 7
"""Rates and cost of a message whose model has no price."""

_decode_usage = msgspec.json.Decoder(Usage).decode


class FileRows(NamedTuple):
    """The rows of one table for one file."""

    table: str
    number: int
    """The file's id in the index."""
    rows: list[tuple[str, tuple[Any, ...]]]
    """Day and values, in the order of the table's columns without its keys."""


def file_rows(
    db: sqlite3.Connection, numbers: Sequence[int], keep: NameFilter
) -> Iterator[FileRows]:
    """Yield the rows of some files of an index, by table and file.

    `numbers` are ids in the index's table `files`. The caller holds a transaction if it needs all
    tables in the same state.
    """
    for start in range(0, len(numbers), FILES_AT_ONCE):
        some = list(numbers[start : start + FILES_AT_ONCE])
        marks = ", ".join("?" * len(some))
        for table, (statement, convert) in QUERIES.items():
            found = db.execute(statement.format(files=f"({marks})"), some)
            yield from _by_file(table, found, convert, keep)


def _by_file(
    table: str, found: sqlite3.Cursor, convert: "_Convert", keep: NameFilter
) -> Iterator[FileRows]:
    width = len(TABLES[table])
    current: FileRows | None = None
    for number, *values in found:
        if current is None or number != current.number:
            if current:
                yield current
            current = FileRows(table, number, [])
        day, row = convert(values, keep)
        assert len(row) == width, table
        current.rows.append((day, row))
    if current:
        yield current


_Row = tuple[str, tuple[Any, ...]]
_Convert = Callable[[list[Any], NameFilter], _Row]


def _session(values: list[Any], keep: NameFilter) -> _Row:
    opened_by, session, is_subagent, is_gone, project, path, store, *rest = values
    started, ended, size, title, slug = rest
    row = (
        *(keep.opener(opened_by), keep.identifier(session), bool(is_subagent), bool(is_gone)),
        *(keep.user, keep.host, keep.project(project), keep.key_of(project)),
        *(keep.hashed(path), keep.hashed(store), started, ended, size),
        *(keep.path(path), keep.path(store), keep.text(title), keep.text(slug)),
    )
    return day_of(started), row


def _turn(values: list[Any], keep: NameFilter) -> _Row:
    line, at, quarter, key, kind, ended, branch, model, working, mode, is_copy, text = values
    row = (
        *(line, at, quarter, keep.hashed(key), keep.known(kind, KINDS), ended),
        *(keep.branch(branch), keep.model(model), working, keep.known(mode, PERMISSION_MODES)),
        *(bool(is_copy), keep.text(text)),
    )
    return day_of(at), row


def _message(values: list[Any], keep: NameFilter) -> _Row:
    line, at, quarter, turn_line, key, request, model, branch, version, *rest = values
    stop_reason, is_copy, is_subagent, is_understated, blob = rest
    row = (
        *(line, at, quarter, turn_line, keep.identifier(key), keep.identifier(request)),
        *(keep.model(model), keep.branch(branch), keep.version(version)),
        keep.known(stop_reason, STOP_REASONS),
        *(bool(is_copy), bool(is_subagent), bool(is_understated)),
        *_figures(model, at, _decode_usage(blob)),
    )
    return day_of(at), row


def _figures(model: str | None, at: float | None, usage: Usage) -> tuple[Any, ...]:
    """Return tokens, rates and cost of a message."""
    short, long = cache_writes(usage)
    counts = (
        *(usage.input_tokens or 0, usage.output_tokens or 0, short, long),
        *(usage.cache_read_input_tokens or 0, searches(usage)),
    )
    split = usage.cache_creation
    # The counts of several copies are merged before they are split: one copy may record only the
    # total, another how long each token is cached.
    created = (
        usage.cache_creation_input_tokens or 0,
        (split.ephemeral_5m_input_tokens or 0) if split else None,
        (split.ephemeral_1h_input_tokens or 0) if split else None,
    )
    rates = _rates(model, usage, at)
    # Tokens count even if nobody knows their price; a report names such models.
    if rates is None:
        return (*counts, *created, *UNPRICED)
    cost = sum((count * rate for count, rate in zip(counts, rates, strict=True)), ZERO)
    return (*counts, *created, *(UNPRICED if cost >= LARGEST_COST else (*rates, cost)))


def _rates(model: str | None, usage: Usage, at: float | None) -> tuple[Decimal, ...] | None:
    """Return microdollars per token by kind, and per search."""
    day = day_of(at)
    found = rates_on(model, usage, None if day == NO_DAY else day)
    if found is None:
        return None
    search = SEARCH_RATE if model != SYNTHETIC else ZERO
    return (*map(_decimal, found), search)


@lru_cache(1024)
def _decimal(rate: float) -> Decimal:
    return Decimal(round(rate * 10**SCALE)).scaleb(-SCALE)


def _call(values: list[Any], keep: NameFilter) -> _Row:
    line, at, quarter, turn_line, key, tool, branch, model, path, command, *rest = values
    result_line, ended, is_error, is_rejected, added, removed, is_copy, is_subagent, error = rest
    ran = program(command)
    row = (
        *(line, at, quarter, turn_line, keep.identifier(key), keep.tool(tool)),
        *(keep.branch(branch), keep.model(model), keep.key_of(path), keep.key_of(ran)),
        *(result_line, ended, None if is_error is None else bool(is_error), bool(is_rejected)),
        *(added, removed, bool(is_copy), bool(is_subagent)),
        *(keep.path(path), keep.command(command), keep.command(ran), keep.text(error)),
    )
    return day_of(at), row


def _pull(values: list[Any], keep: NameFilter) -> _Row:
    line, number, url, repository = values
    return NO_DAY, (line, number, keep.key_of(url), keep.path(url), keep.path(repository))


def _commit(values: list[Any], keep: NameFilter) -> _Row:
    line, at, quarter, branch, hash_ = values
    return day_of(at), (line, at, quarter, keep.branch(branch), keep.commit(hash_))


def _compaction(values: list[Any], keep: NameFilter) -> _Row:
    line, at, quarter, trigger, pre_tokens = values
    return day_of(at), (line, at, quarter, keep.known(trigger, TRIGGERS), pre_tokens)


def _finding(values: list[Any], keep: NameFilter) -> _Row:
    started, message = values
    return day_of(started), (True, keep.text(message))


_QUARTER = "CAST(at / 900 AS INTEGER)"
_WHERE = "WHERE t.file IN {files} ORDER BY t.file, t.line"
_TURN_LINE = "(SELECT line FROM prompts p WHERE p.id = t.prompt)"

QUERIES: dict[str, tuple[str, _Convert]] = {
    "sessions": (
        "SELECT id, opened_by, session, is_subagent, is_gone, project, path, store, started, ended,"
        " size, title, slug FROM files WHERE id IN {files} ORDER BY id",
        _session,
    ),
    "turns": (
        "SELECT file, line, at, quarter, key, kind, ended, branch, model, working, permission_mode,"
        f" is_copy, text FROM prompts t {_WHERE}, t.id",
        _turn,
    ),
    "messages": (
        f"SELECT file, line, at, quarter, {_TURN_LINE}, key, request, model, branch, version,"
        " stop_reason, is_copy, is_subagent, is_understated, usage FROM messages t"
        f" {_WHERE}, t.key",
        _message,
    ),
    "calls": (
        f"SELECT file, line, at, quarter, {_TURN_LINE}, key, tool, branch, model, path, command,"
        " result_line, ended, is_error, is_rejected, added, removed, is_copy, is_subagent, error"
        f" FROM calls t {_WHERE}, t.key",
        _call,
    ),
    "pulls": (f"SELECT file, line, number, url, repository FROM pulls t {_WHERE}, t.url", _pull),
    "commits": (
        f"SELECT file, line, at, {_QUARTER}, branch, hash FROM commits t {_WHERE}, t.hash",
        _commit,
    ),
    "compactions": (
        f"SELECT file, line, at, {_QUARTER}, trigger, pre_tokens FROM compactions t {_WHERE}",
        _compaction,
    ),
    "findings": (
        "SELECT f.id, f.started, c.message FROM files f JOIN checks c USING (path, inode, size,"
        " mtime_ns) WHERE f.id IN {files} AND c.message IS NOT NULL ORDER BY f.id",
        _finding,
    ),
}
"""A statement and a conversion for each table that comes from the index."""
