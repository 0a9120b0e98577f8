"""Answer the picker's questions from the index as it is: which sessions, their figures, a preview.

Functions take a connection and run in a worker thread; none of them waits for a sync.
"""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from turnlog.errors import TurnlogError
from turnlog.index.known_files import Files
from turnlog.index.reports.session_list import (
    ListFilters,
    find_matches,
)
from turnlog.index.search.hit_lines import Reader
from turnlog.index.search.query import Query
from turnlog.index.search.session_ranking import (
    FileOrder,
    Place,
    file_order,
    find_document,
    last_places,
    places_around,
    rank_sessions,
)
from turnlog.index.search.snippets import Snippet, finder_of, snippet_of
from turnlog.index.search.word_search import SearchTerms, parse_search
from turnlog.index.searchable_texts import texts_in
from turnlog.index.session_query import (
    parse_session_query,
    search_selection,
    session_filters,
    with_last_prefix,
)
from turnlog.picker.scopes import Scope
from turnlog.secrets import mask_start

MOST_FOUND = 500
"""Sessions that a search returns."""
SHOWN_KINDS = ("prompt", "answer", "summary")
"""Kinds of texts around a match that a preview shows."""
BEFORE, AFTER = 2, 6
LAST = 6
"""Texts at the end of a session that are shown without a search."""
LONGEST = 600
"""Characters of a text in the preview."""


class ListQuestion(NamedTuple):
    """What to list."""

    line: str
    """What was typed: words to search for and filters."""
    scope: Scope
    live: Mapping[str, str]
    """The states of running sessions, by id."""


class SessionNumbers(NamedTuple):
    """The sessions that match, by their numbers in the index."""

    numbers: list[int]
    documents: dict[int, int]
    """The best matching text of a session, where it is known already."""
    query: Query | None
    """What was searched for; None if sessions were only listed."""
    problem: str | None = None
    """A filter or a part of the query that was ignored."""


class PreviewText(NamedTuple):
    """A text of a preview."""

    place: Place
    snippet: Snippet
    is_match: bool


class Preview(NamedTuple):
    """Texts around a match, or the last ones of a session."""

    path: str
    """The file that they are in."""
    texts: list[PreviewText]


class SessionSource:
    """Remembers what holds until the index changes."""

    def __init__(self) -> None:
        self._order: FileOrder | None = None
        self._matches: dict[ListFilters, list[int]] = {}

    def forget(self) -> None:
        """Ask the index anew, because it may have changed."""
        self._order = None
        self._matches.clear()

    def find(self, db: sqlite3.Connection, question: ListQuestion) -> SessionNumbers:
        """Return the sessions that match what was typed."""
        parsed = parse_session_query(question.line)
        filters = parsed.with_live(question.live)._replace(directories=question.scope.directories)
        problem = next(iter(parsed.problems), None)
        if not parsed.text:
            return SessionNumbers(self._listed(db, filters), {}, None, problem)
        try:
            query = parse_search(with_last_prefix(parsed.text))
        except TurnlogError as error:
            return SessionNumbers([], {}, None, error.message)
        if query.match is None:
            return SessionNumbers([], {}, None, "type a word to search for")
        return self._found(db, query, filters, problem)

    def _listed(self, db: sqlite3.Connection, filters: ListFilters) -> list[int]:
        if filters not in self._matches:
            found = find_matches(db, filters, 0)
            self._matches[filters] = [number for _, number in found.rows]
        return self._matches[filters]

    def _found(
        self, db: sqlite3.Connection, query: Query, filters: ListFilters, problem: str | None
    ) -> SessionNumbers:
        whole = session_filters(filters)
        allowed = self._listed(db, whole) if whole != ListFilters() else None
        if allowed == []:
            return SessionNumbers([], {}, query, problem)
        self._order = self._order or file_order(db)
        selection = search_selection(filters, tuple(allowed or ()))
        found = rank_sessions(db, SearchTerms(query, selection, MOST_FOUND), self._order)
        documents = {each.number: each.document for each in found if each.document is not None}
        return SessionNumbers([each.number for each in found], documents, query, problem)


def read_preview(
    db: sqlite3.Connection, number: int, query: Query | None, document: int | None
) -> Preview | None:
    """Return the texts around the best match in a session, or its last ones; secrets masked."""
    if query and document is None:
        document = find_document(db, number, query)
    if document is not None:
        places = places_around(db, document, SHOWN_KINDS, BEFORE, AFTER)
    else:
        places = last_places(db, number, SHOWN_KINDS, LAST)
    if not places:
        return None
    file = Files(db)[places[0].file]
    with closing(Reader()) as reader:
        lines = [(place, reader.line(file, place.offset, place.size)) for place in places]
    texts = [
        PreviewText(place, snippet, place.id == document)
        for place, raw in lines
        if (snippet := _snippet(place, raw, query if place.id == document else None)).text
    ]
    return Preview(str(Path(file.path)), texts)


def _snippet(place: Place, raw: bytes, query: Query | None) -> Snippet:
    texts = texts_in(raw, place.kind)
    if query is None:
        return Snippet(mask_start("\n".join(texts), LONGEST), [])
    find = finder_of(query)
    matching = [text for text in texts if any(find(text))] or texts[:1]
    return snippet_of(matching[0], find) if matching else Snippet("", [])
