"""Failed calls that resemble a command or an error message, and the calls that fixed them.

The fix lies between a failure and the next successful call of the same shape, which proves that it
worked.

The answer must reveal neither secrets nor other projects. So only words outside of secrets, in the
sessions in scope, decide what is found and in which order.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from json import dumps
from math import log
from pathlib import Path
from typing import Any

from msgspec import Struct

from turnlog.index.command_names import program
from turnlog.index.known_files import Files
from turnlog.index.search.hit_lines import Reader
from turnlog.index.search.query import Term, quoted
from turnlog.index.search.relaxed_search import MOST_WORDS, telling_terms
from turnlog.index.searchable_texts import texts_in
from turnlog.index.tokenizer import tokens_of
from turnlog.secrets import mask

FailedRow = tuple[Any, ...]
"""File, path, id and title of a session, a call, and the line of its result."""
Place = tuple[int, int]
"""File and line of a result."""
BY_WORD = 40
"""Maximum number of results per word of a message that are compared by their whole text."""

MOST = 20_000
"""Maximum number of failed calls to compare; the newest are used."""
BETWEEN = 8
"""Maximum number of calls between failure and success to return; the last are used."""
REACH = 400
"""Number of calls after a failure that are searched for a success."""
PROGRAM_BONUS = 3.0
"""Weight of the same program, such as `npm test`, compared with a single rare word."""
LEAST_SHARE = 0.5
"""Share of the words of a question, by weight, that a failure must have."""


class RecordedCall(Struct, frozen=True):
    """A call as the index stores it."""

    line: int
    tool: str
    at: float | None
    path: str | None
    command: str | None
    is_error: bool | None
    error: str | None

    @property
    def shape(self) -> tuple[str, str | None]:
        """A key that attempts at the same thing have in common: tool, and program or file."""
        return self.tool, program(self.command) if self.command else self.path


class FailedCall(Struct, frozen=True):
    """A failed call, with its fix if there is one."""

    file: str
    """The path of the session's or sub-agent's file."""
    session: str
    """The id that opens the file."""
    title: str | None
    call: RecordedCall
    score: float
    between: list[RecordedCall]
    """Calls between the failure and the success that may have fixed it."""
    success: RecordedCall | None


class FailureQuery(Struct, frozen=True):
    """A query for failed calls by command, by error message, or by both."""

    command: str
    message: str
    """Either may be empty, but not both."""
    numbers: tuple[int, ...] | None
    """Only sessions with these numbers, and their sub-agents; None for all."""
    limit: int


def find_failures(
    db: sqlite3.Connection, query: FailureQuery, archive: Path | None = None
) -> list[FailedCall]:
    """Return the failed calls that resemble a query most; of equal ones, the newest come first."""
    values = {"numbers": dumps(query.numbers or ()), "is_all": query.numbers is None, "most": MOST}
    rows = db.execute(FAILED, values).fetchall()
    with closing(Reader(archive)) as reader:
        quotations = _Results(db, reader, {(row[0], row[-1]) for row in rows}).like(query.message)
    scored = _scored(rows, query, quotations)
    found: list[FailedCall] = []
    shown: set[tuple[str | None, str | None]] = set()
    for score, row in scored:
        if len(found) >= query.limit:
            break
        file, path, opened_by, title, *rest, _ = row
        call = RecordedCall(*rest)
        # The same failure, tried again and again, is one result: the newest attempt.
        key = (call.command or call.path, call.error)
        if key not in shown:
            shown.add(key)
            between, success = _fix(db, file, call)
            found.append(FailedCall(path, opened_by, title, call, score, between, success))
    return found


def _scored(
    rows: Sequence[FailedRow], query: FailureQuery, quotations: dict[Place, float]
) -> list[tuple[float, FailedRow]]:
    wanted = set(_words(f"{query.command} {query.message}"))
    texts = [_row_words(row, wanted) for row in rows]
    counts = {word: sum(word in each for each in texts) for word in wanted}
    weights = {word: log(1 + len(rows) / (1 + count)) for word, count in counts.items()}
    total = sum(weights.values()) or 1.0
    asked = program(query.command) if query.command else None
    scored: list[tuple[float, FailedRow]] = []
    for row, words in zip(rows, texts, strict=True):
        share = sum(weights[word] for word in wanted & words) / total
        share = max(share, quotations.get((row[0], row[-1]), 0.0))
        is_same = bool(asked) and asked == program(row[8])
        if share >= LEAST_SHARE or is_same:
            scored.append((share + (PROGRAM_BONUS / 10 if is_same else 0.0), row))
    # Sorting is stable, and the newest come first.
    return sorted(scored, key=lambda each: -round(each[0], 2))


class _Results:
    """The whole results of failed calls, of which the index stores only the start."""

    def __init__(self, db: sqlite3.Connection, reader: Reader, places: set[Place]) -> None:
        self._db = db
        self._files = Files(db)
        self._reader = reader
        self._places = places
        """The results in scope."""
        self._read: dict[Place, set[str]] = {}

    def like(self, message: str) -> dict[Place, float]:
        """Return scores of the results that share words with a message; the best one gets 1."""
        # Longest first, not rarest first: how rare a word is could reveal a secret or another
        # project.
        terms = sorted(telling_terms(message), key=lambda term: -len(term.text))[:MOST_WORDS]
        found = {term: set(islice(self._with_term(term), BY_WORD)) for term in terms}
        weights = {term: 1 / (1 + len(places)) for term, places in found.items()}
        scores = {
            place: sum(weights[term] for term in terms if _has(self._read[place], term))
            for places in found.values()
            for place in places
        }
        best = max(scores.values(), default=1.0)
        return {place: score / best for place, score in scores.items()}

    def _with_term(self, term: Term) -> Iterator[Place]:
        """Yield the results that have a word outside of their secrets, the newest first."""
        match = quoted(term.text, term.is_prefix)
        for file, line, offset, size, kind in self._db.execute(WITH_WORD, (match, MOST)):
            place = (file, line)
            if place not in self._places:
                continue
            if place not in self._read:
                texts = texts_in(self._reader.line(self._files[file], offset, size), kind)
                self._read[place] = {word for text in texts for word in _words(mask(text))}
            if _has(self._read[place], term):
                yield place


def _has(words: set[str], term: Term) -> bool:
    if not term.is_prefix:
        return term.text in words
    return any(word.startswith(term.text) for word in words)


def _row_words(row: FailedRow, wanted: set[str]) -> set[str]:
    """Return the words of a failed call; secrets are masked first if any word is wanted."""
    text = " ".join(str(each) for each in (row[7], row[8], row[10]) if each)
    words = set(_words(text))
    # Masking is the slowest step, and most rows have none of the wanted words.
    return words if wanted.isdisjoint(words) else set(_words(mask(text)))


def _words(text: str) -> list[str]:
    return [word.lower() for word in tokens_of(text) if len(word) > 1]


def _fix(
    db: sqlite3.Connection, file: int, failed: RecordedCall
) -> tuple[list[RecordedCall], RecordedCall | None]:
    """Return the calls up to the next success of the same shape, and that success."""
    rows = db.execute(AFTER, (file, failed.line, REACH))
    between: list[RecordedCall] = []
    for row in rows:
        call = RecordedCall(*row)
        if call.shape == failed.shape and call.is_error == 0:
            return between[-BETWEEN:], call
        if call.tool not in LOOKING:
            between.append(call)
    return [], None


LOOKING = frozenset(
    "Read Grep Glob LS TodoWrite TaskCreate TaskUpdate TaskList WebSearch ToolSearch".split()
)
"""Tools that change nothing, and therefore fix nothing."""
_CALL = "c.line, c.tool, c.at, c.path, c.command, c.is_error, c.error"
FAILED = f"""
SELECT f.id, f.path, f.opened_by, coalesce(f.title, (SELECT m.title FROM files m
    WHERE m.session = f.session AND NOT m.is_subagent LIMIT 1)), {_CALL}, c.result_line
FROM calls c JOIN files f ON f.id = c.file
WHERE c.is_error AND NOT c.is_rejected AND c.counts = 1 AND NOT f.is_gone
    AND (:is_all OR coalesce(f.session, f.path) IN (SELECT coalesce(g.session, g.path)
        FROM files g WHERE g.id IN (SELECT value FROM json_each(:numbers))))
ORDER BY c.at DESC LIMIT :most
"""
WITH_WORD = """
SELECT d.file, d.line, d.offset, d.size, d.kind FROM words CROSS JOIN docs d
WHERE words MATCH ? AND d.id = words.rowid AND d.is_error ORDER BY words.rowid DESC LIMIT ?
"""
AFTER = f"SELECT {_CALL} FROM calls c WHERE c.file = ? AND c.line > ? ORDER BY c.line LIMIT ?"
