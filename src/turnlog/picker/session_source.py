"""Find the sessions that the picker lists, in the index as it is.

This runs in a worker thread and never waits for a sync. Without a search, as for the first paint,
nothing of the search is imported.
"""

import sqlite3
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from turnlog.errors import TurnlogError
from turnlog.index.reports.session_list import ListFilters, find_matches
from turnlog.index.session_query import (
    parse_session_query,
    search_selection,
    session_filters,
    with_last_prefix,
)
from turnlog.picker.scopes import Scope

if TYPE_CHECKING:
    from turnlog.index.search.query import Query
    from turnlog.index.search.session_ranking import FileOrder

MOST_FOUND = 500
"""Sessions that a search returns."""


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
    query: "Query | None"
    """What was searched for; None if sessions were only listed."""
    problem: str | None = None
    """A filter or a part of the query that was ignored."""


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
        from turnlog.index.search.word_search import parse_search

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
        self, db: sqlite3.Connection, query: "Query", filters: ListFilters, problem: str | None
    ) -> SessionNumbers:
        from turnlog.index.search.session_ranking import file_order, rank_sessions
        from turnlog.index.search.word_search import SearchTerms

        whole = session_filters(filters)
        allowed = self._listed(db, whole) if whole != ListFilters() else None
        if allowed == []:
            return SessionNumbers([], {}, query, problem)
        self._order = self._order or file_order(db)
        selection = search_selection(filters, tuple(allowed or ()))
        found = rank_sessions(db, SearchTerms(query, selection, MOST_FOUND), self._order)
        documents = {each.number: each.document for each in found if each.document is not None}
        return SessionNumbers([each.number for each in found], documents, query, problem)
