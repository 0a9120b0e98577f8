"""Search by words: FTS5 ranks the texts, then candidates are grouped by session."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from json import dumps
from pathlib import Path
from time import time
from typing import NamedTuple

from msgspec import Struct

from turnlog.index.known_files import Files
from turnlog.index.search.candidates import Candidate, ranked, score, tiers_of
from turnlog.index.search.hit_lines import Reader
from turnlog.index.search.query import Query, parse_query
from turnlog.index.search.selection import Selection

ENOUGH = 200
"""Stop after this many candidates if they come from enough sessions."""
LITERAL_DEPTH = 2_000
"""Maximum number of candidates read from their files to find literal punctuation."""
SPARE = 5
"""Extra sessions to find, because some may turn out to contain only copies."""


class SearchTerms(Struct, frozen=True):
    """A query and the texts it searches."""

    query: Query
    selection: Selection
    limit: int
    """Maximum number of sessions; 0 for all."""
    archive: Path | None = None
    """The archive's folder, for files that are gone."""


class Begun(NamedTuple):
    """A ranking that SQLite has started."""

    tiers: tuple[str, ...]
    """FTS5 expressions, run one after the other until there are enough hits."""
    rows: Iterator[Candidate]
    """The rows of the first expression."""


def parse_search(text: str, is_regex: bool = False) -> Query:
    """Parse what was typed; punctuation without any word is searched literally."""
    query = None if is_regex else parse_query(text)
    if query and query.match:
        return query
    from turnlog.index.search.pattern import literal_query, parse_pattern

    return parse_pattern(text) if is_regex else literal_query(text.strip())


def begin(db: sqlite3.Connection, terms: SearchTerms) -> Begun:
    """Start to rank the texts in SQLite, which is most of the work of a word search."""
    tiers = tiers_of(db, terms.query.match or "")
    return Begun(tiers, ranked(db, tiers[0], terms.selection))


def rank(
    db: sqlite3.Connection, terms: SearchTerms, begun: Begun, keep_copies: bool = False
) -> Iterator[list[Candidate]]:
    """Yield the candidates of each session that has the words, best first.

    Forks repeat the texts of their origin; `keep_copies` yields them as well.
    """
    files = Files(db)
    with closing(Reader(terms.archive)) as reader:
        ranking = _Ranking(files, reader, terms)
        ranking.fill(0, begun.rows)
        for tier, match in enumerate(begun.tiers[1:], 1):
            if not ranking.is_full:
                ranking.fill(tier, ranked(db, match, terms.selection))
    groups: dict[str, list[Candidate]] = {}
    rows = [row for *_, row in sorted(ranking.rows)]
    for row in rows if keep_copies else _without_copies(rows):
        groups.setdefault(row.owner, []).append(row)
    yield from groups.values()


def _without_copies(rows: list[Candidate]) -> Iterator[Candidate]:
    """Yield the candidates, omitting copies whose original was found too."""
    # A copy has the same kind, time and words as its original, and therefore the same bm25 rank;
    # reading both texts to compare them would be slow.
    originals = {(row.kind, row.at, row.rank) for row in rows if row.counts}
    for row in rows:
        if row.counts or (row.kind, row.at, row.rank) not in originals:
            yield row


class _Ranking:
    """Collects candidates until there are enough of them, in enough sessions."""

    def __init__(self, files: Files, reader: Reader, terms: SearchTerms) -> None:
        self.files = files
        self.reader = reader
        self.enough = terms.limit + SPARE if terms.limit else float("inf")
        self.literals = [_as_in_lines(text) for text in terms.query.literals]
        self.now = time()
        self.rows: list[tuple[int, int, float, int, Candidate]] = []
        self.sessions: set[str] = set()
        self.exact: set[str] = set()
        """Sessions that contain the literals verbatim."""
        self.titles: set[tuple[int, float]] = set()

    @property
    def is_full(self) -> bool:
        return len(self.exact) >= self.enough

    def fill(self, tier: int, rows: Iterator[Candidate]) -> None:
        for count, row in enumerate(rows, 1):
            self._add(tier, row)
            if count >= ENOUGH and self.is_full:
                return
            if count >= LITERAL_DEPTH and len(self.sessions) >= self.enough:
                return

    def _add(self, tier: int, row: Candidate) -> None:
        if row.kind == "title":  # the client repeats the title throughout the file
            if (row.file, row.rank) in self.titles:
                return
            self.titles.add((row.file, row.rank))
        matched = self._literals_in(row)
        self.sessions.add(row.owner)
        if matched == len(self.literals):
            self.exact.add(row.owner)
        self.rows.append((-matched, tier, -score(row, self.now), row.id, row))

    def _literals_in(self, row: Candidate) -> int:
        if not self.literals:
            return 0
        raw = self.reader.line(self.files[row.file], row.offset, row.size).lower()
        return sum(literal in raw for literal in self.literals)


def _as_in_lines(text: str) -> bytes:
    """Return a text in lower case, escaped as in the client's JSON."""
    return dumps(text.lower(), ensure_ascii=False)[1:-1].encode()
