"""Search by meaning: rankings by words and by vectors, combined by reciprocal rank fusion.

Sessions with all words of a text come first, unless their vectors differ; then those with similar
vectors, or with some of the words. If nothing is similar enough, nothing is found.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain, islice
from json import dumps
from math import log
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from turnlog.index.known_files import Files
from turnlog.index.search.candidates import COLUMNS, JOINED, Candidate
from turnlog.index.search.hit_lines import Reader
from turnlog.index.search.query import Query, quoted
from turnlog.index.search.relaxed_search import (
    MOST_WORDS,
    STOP_WORDS,
    CountedTerm,
    count_terms,
    relax,
)
from turnlog.index.search.search import ResultLimits, SessionHits, SnippetReader
from turnlog.index.search.selection import Selection, conditions
from turnlog.index.search.word_search import SPARE, SearchTerms, begin, parse_search, rank
from turnlog.index.semantic.vector_codes import StoredVector
from turnlog.index.semantic.vector_store import RESCORED, Nearest
from turnlog.index.tokenizer import is_unspaced, tokens_of

DAMPING = 60
"""The constant of reciprocal rank fusion: the larger, the less the first ranks differ."""
WORDS, MEANING = 2.0, 1.0
"""Weights of the rankings: a session with all words stays before one with none, up to rank 20."""
MOST = 0.5
"""Minimum share of a question's words that a text must have for them to count."""
LEAST_SIMILAR = 0.05
"""Texts with a smaller cosine have nothing in common."""
FLOOR = 0.217
"""Minimum score of the best session for a question, with turnlog's own vectors: some text is always
the nearest one. Measured by bench/paraphrases.py: the highest that loses two sessions of a set."""
SHOWN = 3
"""Maximum number of similar texts shown per session."""
LONGEST_QUESTION = 2_000
"""Maximum number of characters of a text whose words are searched for."""


class RankedGroup(NamedTuple):
    """The candidates of a session, best first, and the weight of its place in a ranking."""

    weight: float
    candidates: list[Candidate]
    score: float
    """From 0 to 1: the share of the words that it has, or how similar its vectors are."""


class LikeTerms(Struct, frozen=True):
    """A text or session to compare with, and the texts to search."""

    text: str
    vector: StoredVector | None
    selection: Selection
    limit: int
    archive: Path | None = None
    without: str | None = None
    """The path of a session that is left out: the one to compare with."""
    hides_secrets: bool = False
    """Rank only texts that contain the words outside of their secrets."""
    floor: float = 0.0
    """Find nothing unless a session has this score."""


def search_like(
    db: sqlite3.Connection, terms: LikeTerms, shown: ResultLimits
) -> Iterator[SessionHits]:
    """Yield the sessions that are about the same as a text, best first."""
    counted = count_terms(db, terms.text[:LONGEST_QUESTION])
    some = relax(counted)
    without = _owner(db, terms.without)
    with closing(Reader(terms.archive)) as reader:
        snippets = SnippetReader(Files(db), reader, some or Query(None), shown)
        rankings = [
            _with_all_words(db, terms),
            _similar(db, terms, snippets),
            _with_some_words(db, terms, some, counted),
        ]
        chosen = [
            [each for each in found if each.candidates[0].owner != without] for found in rankings
        ]
        scores: dict[str, float] = {}
        for each in chain(*chosen):
            owner = each.candidates[0].owner
            scores[owner] = max(scores.get(owner, 0.0), each.score)
        if max(scores.values(), default=0.0) < terms.floor:
            return
        found = ((group[0].owner, snippets.read(group)) for group in fuse(chosen))
        shown_hits = ((owner, hits) for owner, hits in found if hits.turns)
        for owner, hits in islice(shown_hits, terms.limit or None):
            hits.score = round(scores[owner], 2)
            yield hits


def fuse(rankings: Iterable[list[RankedGroup]]) -> list[list[Candidate]]:
    """Combine rankings: a session scores weight / (60 + rank) in each ranking that contains it."""
    scores: dict[str, float] = {}
    candidates: dict[str, dict[int, Candidate]] = {}
    for ranking in rankings:
        for place, (weight, group, _) in enumerate(ranking, 1):
            owner = group[0].owner
            scores[owner] = scores.get(owner, 0.0) + weight / (DAMPING + place)
            known = candidates.setdefault(owner, {})
            for each in group:
                known.setdefault(each.id, each)
    order = sorted(scores, key=lambda owner: -scores[owner])
    return [list(candidates[owner].values()) for owner in order]


def _search_terms(terms: LikeTerms, query: Query) -> SearchTerms:
    return SearchTerms(query, terms.selection, terms.limit, terms.archive)


def _with_all_words(db: sqlite3.Connection, terms: LikeTerms) -> list[RankedGroup]:
    # No other text contains all words of a long text, or of the prompts of a session.
    if terms.without or not 0 < len(tokens_of(terms.text[:LONGEST_QUESTION])) <= MOST_WORDS:
        return []
    groups = _with_words(db, terms, parse_search(terms.text))
    return [RankedGroup(WORDS, group, 1.0) for group in groups]


def _with_some_words(
    db: sqlite3.Connection, terms: LikeTerms, query: Query | None, counted: list[CountedTerm]
) -> list[RankedGroup]:
    """Return the sessions with most of the words; single words say less than vectors."""
    groups = _with_words(db, terms, query) if query else []
    shares = _shares(db, counted, [group[0].id for group in groups])
    weighted = ((shares[group[0].id], group) for group in groups)
    return [
        RankedGroup(WORDS * share**2, group, share) for share, group in weighted if share >= MOST
    ]


def _with_words(db: sqlite3.Connection, terms: LikeTerms, query: Query) -> list[list[Candidate]]:
    words = _search_terms(terms, query)
    groups = islice(rank(db, words, begin(db, words)), terms.limit or None)
    if not terms.hides_secrets:
        return list(groups)
    with closing(Reader(terms.archive)) as reader:
        snippets = SnippetReader(Files(db), reader, query, ResultLimits())
        return [seen for group in groups if (seen := snippets.visible(group))]


def _shares(
    db: sqlite3.Connection, counted: list[CountedTerm], docs: list[int]
) -> dict[int, float]:
    """Return each text's share of the words of a question, weighted by rarity; 1 is all of them."""
    shares = dict.fromkeys(docs, 0.0)
    (texts,) = db.execute("SELECT coalesce(max(id), 0) FROM docs").fetchone()
    weights = {term: log(2 + texts / (1 + count)) for count, term in counted}
    for term, weight in weights.items() if docs else ():
        # FTS5 looks up a single row of a word quickly, but for a prefix, every lookup merges all
        # words with that prefix: reading all rows once takes a quarter of the time. `+` makes
        # SQLite do so.
        rowid = "+rowid" if term.is_prefix else "rowid"
        rows = db.execute(
            "SELECT rowid FROM words WHERE words MATCH ?"
            f" AND {rowid} IN (SELECT value FROM json_each(?))",
            (quoted(term.text, term.is_prefix), dumps(docs)),
        )
        for (doc,) in rows:
            shares[doc] += weight / sum(weights.values())
    return shares


def _similar(
    db: sqlite3.Connection, terms: LikeTerms, snippets: SnippetReader
) -> list[RankedGroup]:
    """Return the sessions with the most similar texts."""
    if terms.vector is None:
        return []
    nearest = Nearest(db, terms.vector)
    groups: dict[str, list[Candidate]] = {}
    start, count = 0, RESCORED
    # With filters, the nearest texts may all be excluded: look further, in growing steps.
    while start < len(nearest):
        found = nearest.best(start, count)
        if not found or found[0].similarity < LEAST_SIMILAR:
            break
        similar = {each.doc: each.similarity for each in found if each.similarity >= LEAST_SIMILAR}
        for row in _without_copies(_candidates(db, similar, terms.selection)):
            groups.setdefault(row.owner, []).append(row)
        if terms.limit and len(groups) >= terms.limit + SPARE:
            break
        start, count = start + count, count * 4
    best = sorted(groups.values(), key=lambda group: group[0].rank)
    has_letters = any(map(is_unspaced, terms.text))

    def score(candidate: Candidate) -> float:
        # Short texts resemble anything by chance. Japanese letters are words to those who ask with
        # them, but to an English question, texts of them are as good as empty.
        words = set(tokens_of(snippets.text_of(candidate)[:LONGEST_QUESTION])) - STOP_WORDS
        count = sum(len(word) > 1 or (has_letters and is_unspaced(word)) for word in words)
        return -candidate.rank * count / (count + 1)

    return [RankedGroup(MEANING, top, max(map(score, top))) for g in best if (top := g[:SHOWN])]


def _candidates(
    db: sqlite3.Connection, similar: dict[int, float], selection: Selection
) -> list[Candidate]:
    """Return the texts that match the filters, the most similar first."""
    where, values = conditions(selection)
    rows = db.execute(
        f"SELECT {COLUMNS} FROM {JOINED}"
        f" WHERE d.id IN (SELECT value FROM json_each(:similar)) AND {where}",
        {**values, "similar": dumps(list(similar))},
    )
    found = [replace(row, rank=-similar[row.id]) for row in (Candidate(*each) for each in rows)]
    return sorted(found, key=lambda row: row.rank)


def _without_copies(rows: list[Candidate]) -> Iterator[Candidate]:
    """Yield the candidates, omitting copies whose original was found too."""
    originals = {(row.kind, row.at, row.rank) for row in rows if row.counts}
    for row in rows:
        if row.counts or (row.kind, row.at, row.rank) not in originals:
            yield row


def _owner(db: sqlite3.Connection, path: str | None) -> str | None:
    """Return the owner of a session's texts, in the form of `Candidate.owner`."""
    row = (
        path
        and db.execute(
            "SELECT store || ' ' || coalesce(nullif(session, ''), path) FROM files WHERE path = ?",
            (path,),
        ).fetchone()
    )
    return row[0] if row else None
