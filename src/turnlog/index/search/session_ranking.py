"""Rank the sessions that match a query, for a list that is updated on every keystroke.

Only the index is read, not the session files: of hundreds of sessions in the list, the text of only
one is shown. The best matches come first, unless the words occur nearly everywhere: then relevance
says little, takes long to compute, and the most recently active sessions come first.
"""

import sqlite3
from collections.abc import Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from turnlog.index.search.candidates import KIND_WEIGHTS, IndexedText
from turnlog.index.search.query import Query
from turnlog.index.search.selection import conditions
from turnlog.index.search.word_search import SearchTerms, begin, rank

FREQUENT = 2_000
"""Number of matching texts above which sessions are sorted by time."""
SCANNED = 30_000
"""Maximum number of matching texts examined in that case, the last indexed first."""
NEAR = 400
"""Number of texts on either side of a text that are considered as its context."""


class RankedSession(Struct, frozen=True):
    """A session with a matching text."""

    number: int
    """The number of its file in the index."""
    document: int | None = None
    """The best matching text, which may be in a sub-agent's file; None if it was not looked for."""


class FileOrder(Struct, frozen=True):
    """The sessions, most recently active first; valid until the index changes."""

    numbers: list[int]
    places: dict[int, int]
    """The place in `numbers` of the session that a file belongs to, by the file's number."""


def file_order(db: sqlite3.Connection) -> FileOrder:
    """Return the order of all sessions, and the session of each file, sub-agents included."""
    numbers = [number for (number,) in db.execute(NEWEST)]
    places = {number: place for place, number in enumerate(numbers)}
    agents = [(file, places[owner]) for file, owner in db.execute(AGENTS) if owner in places]
    return FileOrder(numbers, places | dict(agents))


def rank_sessions(
    db: sqlite3.Connection, terms: SearchTerms, order: FileOrder
) -> list[RankedSession]:
    """Return the sessions that match a query by words, at most as many as its limit."""
    # Checking that "a/b" occurs verbatim would require reading a line for each match. Skip that:
    # the phrase "a b", which FTS5 finds by itself, is hardly ever anything else.
    quick = replace(terms, query=replace(terms.query, literals=()))
    match = quick.query.match or ""
    counted = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
    is_frequent = db.execute(counted, (match, FREQUENT + 1)).fetchone()[0] > FREQUENT
    found = _by_time(db, quick, order) if is_frequent else _by_relevance(db, quick, order)
    return found[: terms.limit or None]


def find_document(db: sqlite3.Connection, number: int, query: Query) -> int | None:
    """Return the best matching text of a session, given by its number; None if none matches."""
    for (file,) in db.execute(FILES, {"number": number}).fetchall() if query.match else ():
        first, last = db.execute(
            "SELECT min(id), max(id) FROM docs WHERE file = ?", (file,)
        ).fetchone()
        # FTS5 skips to a range of rowids; ranked, it would score the texts of all sessions.
        rows = db.execute(
            "SELECT d.id, d.kind FROM words CROSS JOIN docs d WHERE words MATCH ?"
            " AND words.rowid BETWEEN ? AND ? AND d.id = words.rowid AND d.file = ? LIMIT ?",
            (query.match, first, last, file, NEAR),
        ).fetchall()
        if rows:
            return max(rows, key=lambda row: (KIND_WEIGHTS.get(row[1], 1.0), row[0]))[0]
    return None


def texts_around(
    db: sqlite3.Connection, document: int, kinds: Sequence[str], before: int, after: int
) -> list[IndexedText]:
    """Return a text and the texts of some kinds around it in its file, in order."""
    row = db.execute("SELECT file FROM docs WHERE id = ?", (document,)).fetchone()
    if row is None:
        return []
    found = _texts(db, row[0], (document - NEAR, document + NEAR))
    chosen = [each for each in found if each.id == document or each.kind in kinds]
    middle = next((n for n, each in enumerate(chosen) if each.id == document), None)
    return [] if middle is None else chosen[max(0, middle - before) : middle + after + 1]


def last_texts(
    db: sqlite3.Connection, number: int, kinds: Sequence[str], count: int
) -> list[IndexedText]:
    """Return the last texts of a session's file, in order."""
    row = db.execute("SELECT max(id) FROM docs WHERE file = ?", (number,)).fetchone()
    if row[0] is None:
        return []
    found = _texts(db, number, (row[0] - NEAR, row[0]))
    return [each for each in found if each.kind in kinds][-count:]


def _texts(db: sqlite3.Connection, file: int, between: tuple[int, int]) -> list[IndexedText]:
    rows = db.execute(
        "SELECT id, file, line, offset, size, part, kind, tool, is_error, at"
        " FROM docs WHERE id BETWEEN ? AND ? AND file = ? ORDER BY id",
        (*between, file),
    )
    return [IndexedText(*row) for row in rows]


def _by_relevance(
    db: sqlite3.Connection, terms: SearchTerms, order: FileOrder
) -> list[RankedSession]:
    firsts: dict[int, RankedSession] = {}
    for candidates in rank(db, terms, begin(db, terms), keep_copies=True):
        best = candidates[0]
        place = order.places.get(best.file)
        if place is not None:
            number = order.numbers[place]
            firsts.setdefault(number, RankedSession(number, best.id))
    return list(firsts.values())


def _by_time(db: sqlite3.Connection, terms: SearchTerms, order: FileOrder) -> list[RankedSession]:
    allowed, selection = set(terms.selection.numbers), terms.selection
    if len(allowed) * 2 > len(order.numbers):
        # Most sessions are allowed: testing the few that are found is faster than a condition. With
        # few allowed, the condition keeps texts of other sessions from using up `SCANNED`.
        selection = replace(selection, numbers=())
    where, values = conditions(selection)
    rows = db.execute(
        "SELECT d.file FROM words CROSS JOIN docs d"
        f" WHERE words MATCH :match AND d.id = words.rowid AND {where}"
        f" ORDER BY words.rowid DESC LIMIT {SCANNED}",
        {**values, "match": terms.query.match},
    ).fetchall()
    # Places are small integers: they sort faster than times.
    places = sorted({order.places[file] for (file,) in set(rows) if file in order.places})
    numbers = (order.numbers[place] for place in places)
    found = (RankedSession(number) for number in numbers if not allowed or number in allowed)
    return list(islice(found, terms.limit or None))


FILES = """
SELECT id FROM files WHERE id = :number
UNION ALL
SELECT g.id FROM files f JOIN files g ON g.session = f.session AND g.is_subagent
    AND g.store = f.store
WHERE f.id = :number
"""
NEWEST = """
SELECT id FROM files WHERE NOT is_subagent AND NOT is_gone
ORDER BY coalesce(ended, mtime_ns / 1e9) DESC, id DESC
"""
AGENTS = """
SELECT g.id, f.id FROM files g JOIN files f ON f.session = g.session AND NOT f.is_subagent
    AND f.store = g.store
WHERE g.is_subagent
"""
