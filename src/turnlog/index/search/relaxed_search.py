"""Search for a question: texts with most of its words, if none has all of them.

People and models ask in sentences; `search` requires every word. Relaxing keeps the rare words,
joins them with OR and lets bm25 rank: the more of them a text has, the better.
"""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from turnlog.index.search.candidates import COMMON
from turnlog.index.search.query import Query, Term, quoted
from turnlog.index.search.search import ResultLimits, SessionHits, search
from turnlog.index.search.word_search import SearchTerms
from turnlog.index.tokenizer import is_unspaced, tokens_of

MOST_WORDS = 12
"""Maximum number of words of a question that are searched for."""
SHORTEST_STEM = 5
ENDING = re.compile(r"(?:ies|ing|ed|es|s|en|er|ung|te|t|e)$")
"""Endings of English and German that are dropped: `cached` also finds `caching`."""
STOP_WORDS = frozenset(
    "a about after all am an and any are as at be been before but by can could did do does for from"
    " had has have how i in into is it its last me my of on or our should so than that the their"
    " them then there these they this to us use used was we were what when where which who why will"
    " with would you your"
    " aber als am an auf aus bei das dass dem den der des die ein eine einem einen einer es für"
    " haben hat hatte hatten ich im in ist mit nach nicht oder sich sie sind über um und uns unser"
    " unsere unserem unseren von vor war waren warum was welche welchem welchen welcher welches"
    " wenn wer wie wir wird wo wurde wurden zu zum zur"
    " ce dans de des du est et la le les pour que qui sur un une el en los las por una y".split()
)


class CountedTerm(NamedTuple):
    """A telling word of a question, and in how many texts it occurs."""

    texts: int
    """Counted no further than needed to know that it is common."""
    term: Term


def count_terms(db: sqlite3.Connection, text: str) -> list[CountedTerm]:
    """Return the telling words of a question with the number of their texts."""
    return [CountedTerm(_count_texts(db, term), term) for term in telling_terms(text)]


def relax(counted: Sequence[CountedTerm], hides_secrets: bool = False) -> Query | None:
    """Return a query for any of the telling words of a question; None if it has none.

    With `hides_secrets`, words are chosen by length instead of rarity: preferring a rare word could
    reveal that it occurs in a secret.
    """
    if hides_secrets:
        known = sorted(counted, key=lambda each: -len(each.term.text))
    else:
        known = sorted((each for each in counted if each.texts), key=lambda each: each.texts)
    # A word that is everywhere says nothing, and ranking all its texts takes seconds.
    telling = [term for count, term in known if count <= COMMON] or [term for _, term in known[:1]]
    chosen = telling[:MOST_WORDS]
    if not chosen:
        return None
    match = " OR ".join(quoted(term.text, term.is_prefix) for term in chosen)
    return Query(match, tuple(chosen))


def telling_terms(text: str) -> list[Term]:
    """Return the words of a question that say what it is about, without their endings.

    >>> [term.text for term in telling_terms("Why is CI on Go 1 so slow?")]
    ['ci', 'go', 'slow']
    """
    words = [word for word in dict.fromkeys(_words(text)) if word not in STOP_WORDS]
    return [_stemmed(word) for word in words if len(word) > 1 or is_unspaced(word)]


class RecalledSession(NamedTuple):
    """A session that was found for a question."""

    hits: SessionHits
    has_all_words: bool


def search_relaxed(
    db: sqlite3.Connection, terms: SearchTerms, text: str, shown: ResultLimits
) -> Iterator[RecalledSession]:
    """Yield the sessions with all words of a question, then those with some of them."""
    seen: set[str] = set()
    for hits in search(db, terms, shown):
        seen.add(hits.path)
        yield RecalledSession(hits, has_all_words=True)
    is_words = terms.query.pattern is None
    query = relax(count_terms(db, text), shown.hides_secrets) if is_words else None
    if query is None or (terms.limit and len(seen) >= terms.limit):
        return
    wider = SearchTerms(query, terms.selection, terms.limit + len(seen), terms.archive)
    for hits in search(db, wider, shown):
        if hits.path not in seen:
            yield RecalledSession(hits, has_all_words=False)


def _words(text: str) -> list[str]:
    return [word.lower() for word in tokens_of(text)]


def _stemmed(word: str) -> Term:
    """Return a word as a term; a long one without its ending, as a prefix.

    >>> _stemmed("caching"), _stemmed("test")
    (Term(text='cach', is_prefix=True), Term(text='test', is_prefix=False))
    """
    stem = ENDING.sub("", word)
    if len(word) > SHORTEST_STEM and word.isalpha() and len(stem) >= SHORTEST_STEM - 1:
        return Term(stem, is_prefix=True)
    return Term(word)


def _count_texts(db: sqlite3.Connection, term: Term) -> int:
    """Return in how many texts a term occurs, counting no further than needed."""
    counted = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
    return db.execute(counted, (quoted(term.text, term.is_prefix), COMMON + 1)).fetchone()[0]
