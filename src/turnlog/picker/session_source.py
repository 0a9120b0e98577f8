"""Find the sessions and scopes that the picker lists, in the index as it is.

This runs in a worker thread and never waits for a sync. The search modules are imported only for a
search, so that they do not delay the first paint.
"""

import os
import sqlite3
from collections.abc import Mapping, Sequence
from heapq import merge
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from turnlog.errors import TurnlogError
from turnlog.index.reports.session_list import (
    ListedSession,
    ListFilters,
    describe_listed,
    find_matches,
)
from turnlog.index.session_query import (
    parse_session_query,
    search_selection,
    session_filters,
    with_last_prefix,
)
from turnlog.picker.query_worker import Databases
from turnlog.store.paths import last_part
from turnlog.store.worktrees import repository_name, worktrees_of

if TYPE_CHECKING:
    from turnlog.index.search.query import Query
    from turnlog.index.search.session_ranking import FileOrder

SessionKey = tuple[int, int]
"""The number of a store, and that of a session in its index."""
MOST_FOUND = 500
"""Sessions that a search returns."""


class Scope(NamedTuple):
    """A limit on the sessions that are listed."""

    name: str
    directories: tuple[str, ...] | None = None
    """Only sessions of these directories and of directories below; None for all."""


EVERYTHING = Scope("all projects")


def scopes_of(directory: Path) -> list[Scope]:
    """Return the scopes of a directory, from narrow to wide.

    The scope of worktrees is left out if the directory is the only worktree.
    """
    own = (_spelled(directory),)
    scopes = [Scope(last_part(own[0]) or "/", own)]
    worktrees = tuple(map(str, worktrees_of(Path(own[0]))))
    if worktrees and worktrees != own:
        count = len(worktrees)
        repository = repository_name(Path(own[0])) or "/"
        name = f"{repository}: {count} worktrees" if count > 1 else "repository"
        scopes.append(Scope(name, worktrees))
    return [*scopes, EVERYTHING]


def _spelled(directory: Path) -> str:
    # The client records the resolved directory; /tmp/shop may be a link to /private/tmp/shop.
    return os.path.realpath(directory)


class ListQuestion(NamedTuple):
    """A request for a list of sessions."""

    line: str
    """The typed query: words to search for and filters."""
    scope: Scope
    live: Mapping[str, str]
    """The states of running sessions, by id."""


class SessionNumbers(NamedTuple):
    """The sessions that match, by their numbers."""

    numbers: list[SessionKey]
    documents: dict[SessionKey, int]
    """The best matching text of a session, where it is known already."""
    query: "Query | None"
    """The parsed query; None if sessions were only listed."""
    problem: str | None = None
    """A filter or a part of the query that was ignored."""


class SessionSource:
    """Finds sessions; caches orders and matches until the indexes change."""

    def __init__(self) -> None:
        self._orders: dict[int, FileOrder] = {}
        self._matches: dict[tuple[int, ListFilters], list[tuple[float, int]]] = {}

    def forget(self) -> None:
        """Clear the cache, because the indexes may have changed."""
        self._orders.clear()
        self._matches.clear()

    def find(self, dbs: Databases, question: ListQuestion) -> SessionNumbers:
        """Return the sessions that match the typed query."""
        parsed = parse_session_query(question.line)
        filters = parsed.with_live(question.live)._replace(directories=question.scope.directories)
        problem = next(iter(parsed.problems), None)
        if not parsed.text:
            return SessionNumbers(self._listed(dbs, filters), {}, None, problem)
        from turnlog.index.search.word_search import parse_search

        try:
            query = parse_search(with_last_prefix(parsed.text))
        except TurnlogError as error:
            return SessionNumbers([], {}, None, error.message)
        if query.match is None:
            return SessionNumbers([], {}, None, "type a word to search for")
        lists = [self._found(store, db, query, filters) for store, db in dbs.items()]
        # Scores of different indexes cannot be compared: take the best of each in turn.
        ranks = zip_longest(*lists)
        found = [each for rank in ranks for each in rank if each is not None]
        documents = {key: document for key, document in found if document is not None}
        return SessionNumbers([key for key, _ in found], documents, query, problem)

    def _listed(self, dbs: Databases, filters: ListFilters) -> list[SessionKey]:
        """Return the sessions of all stores, most recently active first."""
        lists = [self._matching(store, db, filters) for store, db in dbs.items()]
        if len(dbs) == 1:
            (store,) = dbs
            return [(store, number) for _, number in lists[0]]
        tagged = (
            [(active, store, number) for active, number in rows]
            for store, rows in zip(dbs, lists, strict=True)
        )
        return [(store, number) for _, store, number in merge(*tagged, reverse=True)]

    def _matching(
        self, store: int, db: sqlite3.Connection, filters: ListFilters
    ) -> list[tuple[float, int]]:
        if (store, filters) not in self._matches:
            self._matches[store, filters] = find_matches(db, filters, 0).rows
        return self._matches[store, filters]

    def _found(
        self, store: int, db: sqlite3.Connection, query: "Query", filters: ListFilters
    ) -> list[tuple[SessionKey, int | None]]:
        """Return the matching sessions of a store, each with its best text if that is known."""
        from turnlog.index.search.session_ranking import file_order, rank_sessions
        from turnlog.index.search.word_search import SearchTerms

        whole = session_filters(filters)
        allowed = self._matching(store, db, whole) if whole != ListFilters() else None
        if allowed == []:
            return []
        if store not in self._orders:
            self._orders[store] = file_order(db)
        selection = search_selection(filters, tuple(number for _, number in allowed or ()))
        terms = SearchTerms(query, selection, MOST_FOUND)
        found = rank_sessions(db, terms, self._orders[store])
        return [((store, each.number), each.document) for each in found]


def describe_keys(dbs: Databases, keys: Sequence[SessionKey]) -> dict[SessionKey, ListedSession]:
    """Return the figures of sessions."""
    found: dict[SessionKey, ListedSession] = {}
    for store, db in dbs.items():
        rows = describe_listed(db, [number for owner, number in keys if owner == store])
        found |= {(store, number): row for number, row in rows.items()}
    return found
