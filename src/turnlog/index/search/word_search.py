"""Which sessions have the words that are looked for, and where."""

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
"""Of so many candidates the best are shown, if they are of enough sessions."""
LITERAL_DEPTH = 2_000
"""How many candidates are looked at for signs that the index does not keep."""
SPARE = 5
"""Sessions that are found beyond those asked for: some may have nothing but copies."""


class SearchTerms(Struct, frozen=True):
    """What is looked for, and where."""

    query: Query
    selection: Selection
    limit: int
    """Of sessions; 0 for all."""
    archive: Path | None = None
    """The folder of an archive, for files that are gone."""


class Begun(NamedTuple):
    """A ranking that SQLite has done the first part of."""

    tiers: tuple[str, ...]
    """What the index is asked, one after the other until there is enough."""
    rows: Iterator[Candidate]
    """Of the first one."""


def understand(text: str, is_regex: bool = False) -> Query:
    """What was typed, as a query; signs alone are looked for as they are."""
    query = None if is_regex else parse_query(text)
    if query and query.match:
        return query
    from turnlog.index.search.pattern import literal_query, parse_pattern

    return parse_pattern(text) if is_regex else literal_query(text.strip())


def begin(db: sqlite3.Connection, wanted: SearchTerms) -> Begun:
    """Have SQLite rank the texts: most of the work that words take."""
    tiers = tiers_of(db, wanted.query.match or "")
    return Begun(tiers, ranked(db, tiers[0], wanted.selection))


def rank(db: sqlite3.Connection, wanted: SearchTerms, begun: Begun) -> Iterator[list[Candidate]]:
    """The candidates of each session that has the words, best first."""
    files = Files(db)
    with closing(Reader(wanted.archive)) as reader:
        ranking = _Ranking(files, reader, wanted)
        ranking.fill(0, begun.rows)
        for tier, match in enumerate(begun.tiers[1:], 1):
            if not ranking.is_full:
                ranking.fill(tier, ranked(db, match, wanted.selection))
    groups: dict[str, list[Candidate]] = {}
    for row in _without_copies([row for *_, row in sorted(ranking.rows)]):
        groups.setdefault(row.owner, []).append(row)
    yield from groups.values()


def _without_copies(rows: list[Candidate]) -> Iterator[Candidate]:
    """Candidates without those that another file has as well, if that one is found too."""
    originals = {(row.kind, row.at, row.rank) for row in rows if row.counts}
    for row in rows:
        if row.counts or (row.kind, row.at, row.rank) not in originals:
            yield row


class _Ranking:
    """Gathers candidates until there are enough of them, in enough sessions."""

    def __init__(self, files: Files, reader: Reader, wanted: SearchTerms) -> None:
        self.files = files
        self.reader = reader
        self.enough = wanted.limit + SPARE if wanted.limit else float("inf")
        self.literals = [_as_in_lines(text) for text in wanted.query.literals]
        self.now = time()
        self.rows: list[tuple[int, int, float, int, Candidate]] = []
        self.sessions: set[str] = set()
        self.exact: set[str] = set()
        """The sessions that have the literals as they were typed."""
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
        if row.kind == "title":  # which the client writes again and again
            if (row.file, row.rank) in self.titles:
                return
            self.titles.add((row.file, row.rank))
        held = self._literals_in(row)
        self.sessions.add(row.owner)
        if held == len(self.literals):
            self.exact.add(row.owner)
        self.rows.append((-held, tier, -score(row, self.now), row.id, row))

    def _literals_in(self, row: Candidate) -> int:
        if not self.literals:
            return 0
        raw = self.reader.line(self.files[row.file], row.offset, row.size).lower()
        return sum(literal in raw for literal in self.literals)


def _as_in_lines(text: str) -> bytes:
    """A text in lower case as the client spells it in JSON."""
    return dumps(text.lower(), ensure_ascii=False)[1:-1].encode()
