"""Which sessions have what a pattern matches, and where: texts are read to find out."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from time import time

from turnlog.index.known_files import File, Files
from turnlog.index.search.candidates import Candidate, in_file, score, unranked
from turnlog.index.search.hit_lines import Reader
from turnlog.index.search.query import Query
from turnlog.index.search.word_search import SearchTerms
from turnlog.index.searchable_texts import texts_in

SCANNED = 50
"""Of a file that is looked through, so many hits are found."""


def scan(files: Files, reader: Reader, wanted: SearchTerms) -> Iterator[list[Candidate]]:
    """The candidates of each session that the pattern matches, sessions active last first."""
    match, now = wanted.query.match, time()
    chosen: dict[int, list[Candidate]] = {}
    for row in unranked(files.db, match, wanted.selection) if match else ():
        chosen.setdefault(row.file, []).append(row)
    for _, members in groupby(files.newest_first(), key=lambda file: file.owner):
        found: list[Candidate] = []
        for file in members:
            rows = (
                chosen.get(file.id, []) if match else in_file(files.db, file.id, wanted.selection)
            )
            found += islice(_matching(reader, wanted.query, file, rows), SCANNED)
        if found:
            yield sorted(found, key=lambda row: -score(row, now))


def _matching(
    reader: Reader, query: Query, file: File, rows: Iterable[Candidate]
) -> Iterator[Candidate]:
    """Those candidates of a file that the pattern matches."""
    pattern, needle = query.pattern or re.compile(""), query.needle or b""
    for row in rows:
        raw = reader.line(file, row.offset, row.size)
        if needle in raw and any(_occurs(pattern, text) for text in texts_in(raw, row.kind)):
            yield row


def _occurs(pattern: re.Pattern[str], text: str) -> bool:
    return any(found.end() > found.start() for found in pattern.finditer(text))
