"""Search with a regular expression: candidates from the index are read and matched one by one."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from time import time

from turnlog.index.known_files import File, Files
from turnlog.index.search.candidates import Candidate, in_file, score, unranked
from turnlog.index.search.hit_lines import Reader
from turnlog.index.search.query import Query
from turnlog.index.search.word_search import SearchTerms
from turnlog.index.searchable_texts import text_at

SCANNED = 50
"""Maximum number of hits per file."""


def scan(files: Files, reader: Reader, terms: SearchTerms) -> Iterator[list[Candidate]]:
    """Yield the matching candidates of each session, the most recently active session first."""
    match, now = terms.query.match, time()
    chosen: dict[int, list[Candidate]] = {}
    for row in unranked(files.db, match, terms.selection) if match else ():
        chosen.setdefault(row.file, []).append(row)
    for _, members in groupby(files.newest_first(), key=lambda file: file.owner):
        found: list[Candidate] = []
        for file in members:
            rows = chosen.get(file.id, []) if match else in_file(files.db, file.id, terms.selection)
            found += islice(_matching(reader, terms.query, file, rows), SCANNED)
        if found:
            yield sorted(found, key=lambda row: -score(row, now))


def _matching(
    reader: Reader, query: Query, file: File, rows: Iterable[Candidate]
) -> Iterator[Candidate]:
    """Yield the candidates of a file that the pattern matches."""
    pattern, needle = query.pattern or re.compile(""), query.needle or b""
    for row in rows:
        raw = reader.line(file, row.offset, row.size)
        # Searching bytes for the needle is far cheaper than decoding the line.
        if needle in raw and _occurs(pattern, text_at(raw, row.part)):
            yield row


def _occurs(pattern: re.Pattern[str], text: str) -> bool:
    return any(found.end() > found.start() for found in pattern.finditer(text))
