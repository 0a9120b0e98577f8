"""Which sessions have what is looked for, and where: candidates by session, best first."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from json import dumps

from msgspec import Struct

from turnlog.index.candidates import Candidate, in_file, ranked, score, tiers_of, unranked
from turnlog.index.files import File, Files
from turnlog.index.query import Query
from turnlog.index.reading import Reader, texts_in
from turnlog.index.selection import Selection

ENOUGH = 200
"""Of so many candidates the best are shown, if they are of enough sessions."""
LITERAL_DEPTH = 2_000
"""How many candidates are looked at for signs that the index does not keep."""
SPARE = 5
"""Sessions that are found beyond those asked for: some may have nothing but copies."""
SCANNED = 50
"""Of a file that is looked through, so many hits are found."""


class Search(Struct, frozen=True):
    """What is looked for, and where."""

    files: Files
    reader: Reader
    query: Query
    selection: Selection
    limit: int
    """Of sessions; 0 for all."""
    now: float


def candidates_by_session(search: Search) -> Iterator[list[Candidate]]:
    """The candidates of each session, best first; of a pattern, sessions active last first."""
    return _looked_through(search) if search.query.pattern else _ranked(search)


def _ranked(search: Search) -> Iterator[list[Candidate]]:
    ranking = _Ranking(search)
    for tier, match in enumerate(tiers_of(search.files.db, search.query.match or "")):
        ranking.fill(tier, match)
        if ranking.is_full:
            break
    groups: dict[str, list[Candidate]] = {}
    for row in _without_copies([row for *_, row in sorted(ranking.rows)]):
        groups.setdefault(search.files[row.file].owner, []).append(row)
    yield from groups.values()


def _without_copies(rows: list[Candidate]) -> Iterator[Candidate]:
    """Candidates without those that another file has as well, if that one is found too."""
    originals = {(row.kind, row.at, row.rank) for row in rows if row.counts}
    for row in rows:
        if row.counts or (row.kind, row.at, row.rank) not in originals:
            yield row


class _Ranking:
    """Gathers candidates until there are enough of them, in enough sessions."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.wanted = search.limit + SPARE if search.limit else float("inf")
        self.literals = [_as_in_lines(text) for text in search.query.literals]
        self.rows: list[tuple[int, int, float, int, Candidate]] = []
        self.sessions: set[str] = set()
        self.exact: set[str] = set()
        """The sessions that have the literals as they were typed."""
        self.titles: set[tuple[int, float]] = set()

    @property
    def is_full(self) -> bool:
        return len(self.exact) >= self.wanted

    def fill(self, tier: int, match: str) -> None:
        search = self.search
        for count, row in enumerate(ranked(search.files.db, match, search.selection), 1):
            self._add(tier, row)
            if count >= ENOUGH and self.is_full:
                return
            if count >= LITERAL_DEPTH and len(self.sessions) >= self.wanted:
                return

    def _add(self, tier: int, row: Candidate) -> None:
        if row.kind == "title":  # which the client writes again and again
            if (row.file, row.rank) in self.titles:
                return
            self.titles.add((row.file, row.rank))
        file = self.search.files[row.file]
        held = self._literals_in(file, row)
        self.sessions.add(file.owner)
        if held == len(self.literals):
            self.exact.add(file.owner)
        self.rows.append((-held, tier, -score(row, file, self.search.now), row.id, row))

    def _literals_in(self, file: File, row: Candidate) -> int:
        if not self.literals:
            return 0
        raw = self.search.reader.line(file, row.offset, row.size).lower()
        return sum(literal in raw for literal in self.literals)


def _as_in_lines(text: str) -> bytes:
    """A text in lower case as the client spells it in JSON."""
    return dumps(text.lower(), ensure_ascii=False)[1:-1].encode()


def _looked_through(search: Search) -> Iterator[list[Candidate]]:
    db, match = search.files.db, search.query.match
    chosen: dict[int, list[Candidate]] = {}
    for row in unranked(db, match, search.selection) if match else ():
        chosen.setdefault(row.file, []).append(row)
    for _, members in groupby(search.files.newest_first(), key=lambda file: file.owner):
        found: list[Candidate] = []
        for file in members:
            rows = chosen.get(file.id, []) if match else in_file(db, file.id, search.selection)
            found += islice(_matching(search, file, rows), SCANNED)
        if found:
            yield sorted(found, key=lambda row: -score(row, search.files[row.file], search.now))


def _matching(search: Search, file: File, rows: Iterable[Candidate]) -> Iterator[Candidate]:
    """Those candidates of a file that the pattern matches."""
    pattern, needle = search.query.pattern or re.compile(""), search.query.needle or b""
    for row in rows:
        raw = search.reader.line(file, row.offset, row.size)
        if needle in raw and any(_occurs(pattern, text) for text in texts_in(raw, row.kind)):
            yield row


def _occurs(pattern: re.Pattern[str], text: str) -> bool:
    return any(found.end() > found.start() for found in pattern.finditer(text))
