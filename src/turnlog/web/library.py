"""Look up, list and search the sessions of one or several stores for pages.

Queries read the index as it is. Sessions are looked up by their id in the index, or else among the
files of the stores; no part of a request ever becomes part of a path.
"""

import os
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeVar

from turnlog.index import service
from turnlog.index.database import DamagedIndex
from turnlog.index.reports.session_list import Facets, ListedSession, ListFilters
from turnlog.index.search.search import SessionHits
from turnlog.index.service import SearchRequest
from turnlog.index.similarity import LikeRequest, like_sessions
from turnlog.index.sync_policy import deferred_sync
from turnlog.store.catalog import live_sessions
from turnlog.store.paths import Store
from turnlog.store.session_lookup import missing_session
from turnlog.store.stores import all_session_files, holder_of
from turnlog.web.refresher import Refresher
from turnlog.web.regex_search import search_by_regex
from turnlog.web.session_cache import SessionCache

T = TypeVar("T")

KEPT_LISTS = 16
"""Number of filtered lists cached in memory; one of 100,000 sessions takes 10 MB."""
MOST_FACETS = 300
"""Maximum number of values offered for a filter."""

Place = tuple[float, int]
"""Time of a session's last activity, and its number in the index."""
LiveIds = set[tuple[str, str]]
"""Pairs of store and id: another store may have a copy of a session that is open."""


class ListPage(NamedTuple):
    """A part of a list of sessions."""

    sessions: list[tuple[str, ListedSession]]
    """Each with its key."""
    total: int
    generation: str
    """Changes when the list may have changed."""


class FoundSession(NamedTuple):
    """A session that a key names."""

    store: Store
    path: Path


class Library:
    """The stores, their index and the opened sessions."""

    def __init__(self, stores: Sequence[Store], refresher: Refresher | None = None) -> None:
        self.stores = list(stores)
        self.refresher = refresher or Refresher(self.stores)
        self.sessions = SessionCache()
        self._lock = Lock()
        self._lists: OrderedDict[ListFilters, tuple[str, list[Place]]] = OrderedDict()
        self._facets: tuple[str, Facets] | None = None

    def with_sound_index(self, work: Callable[[], T]) -> T:
        """Run a query; if it finds the index damaged, rebuild the index and repeat the query."""
        try:
            return work()
        except DamagedIndex:
            with self._lock:
                self._lists.clear()
            self.refresher.refresh_now()
            return work()

    def page(self, filters: ListFilters, offset: int, limit: int) -> ListPage:
        """Return a page of the matching sessions, most recently active first."""
        with deferred_sync():
            generation, places = self._places(filters)
            ids = [id_ for _, id_ in places[offset : offset + limit]]
            found = service.describe_sessions(self.stores, ids) if ids else {}
        sessions = [found[id_] for id_ in ids if id_ in found]
        rows = [(self.key_of(session), session) for session in sessions]
        return ListPage(rows, len(places), generation)

    def count(self, filters: ListFilters) -> int:
        """Return how many sessions match."""
        with deferred_sync():
            return len(self._places(filters)[1])

    def facets(self) -> Facets:
        """Return the values that filters can take, in all stores."""
        with deferred_sync():
            generation = self._generation()
            if self._facets and self._facets[0] == generation:
                return self._facets[1]
            found = service.facets(self.stores)
        lists = (getattr(found, name) for name in found.__struct_fields__)
        self._facets = generation, Facets(*(each[:MOST_FACETS] for each in lists))
        return self._facets[1]

    def search(self, request: SearchRequest) -> Iterator[tuple[str, SessionHits]]:
        """Yield the sessions whose texts match, with their keys, the best first."""
        with deferred_sync():
            search = search_by_regex if request.is_regex else service.search_sessions
            for hits in search(self.stores, request):
                yield self._key(hits.path, is_ambiguous=False), hits

    def related(self, path: Path, limit: int) -> Iterator[tuple[str, SessionHits]]:
        """Yield the sessions on the same topic as another, with their keys, the best first."""
        with deferred_sync():
            for hits in like_sessions(self.stores, LikeRequest(session=path, limit=limit)):
                yield self._key(hits.path, is_ambiguous=False), hits

    def find(self, key: str) -> FoundSession:
        """Return the session that a key names; look for new files if it is unknown."""
        found = self._find(key) or self._find_file(key)
        if found is None:
            self.refresher.refresh_now()
            found = self._find(key)
        if found is None:
            raise missing_session(self.stores, (key.rpartition("~")[0] or key)[:80])
        return found

    def key_of(self, session: ListedSession) -> str:
        """Return the key of a session in URLs."""
        return self._key(session.path, session.is_ambiguous)

    def live_sessions(self) -> LiveIds:
        """Return the sessions that a running client has open, each with its store."""
        found: LiveIds = set()
        for store in self.stores:
            with suppress(OSError):
                found |= {(str(store.root), id_) for id_ in live_sessions(store)}
        return found

    def _key(self, path: str, is_ambiguous: bool) -> str:
        return session_key(Path(path), is_ambiguous or len(self.stores) > 1)

    def _find(self, key: str) -> FoundSession | None:
        # A file may be named anything: the id of `5e55~old.jsonl` looks like an ambiguous key.
        id_, _, _ = key.rpartition("~")
        with deferred_sync():
            for path in service.find_paths(self.stores, key):
                return FoundSession(holder_of(self.stores, path), path)
            for path in service.find_paths(self.stores, id_) if id_ else ():
                if session_key(path, is_ambiguous=True) == key:
                    return FoundSession(holder_of(self.stores, path), path)
        return None

    def _find_file(self, key: str) -> FoundSession | None:
        """Return a session that is not in the index yet: building the index may take minutes."""
        id_, _, mark = key.rpartition("~")
        for path in all_session_files(self.stores):
            is_copy = mark and path.stem == id_ and session_key(path, is_ambiguous=True) == key
            if path.stem == key or is_copy:
                return FoundSession(holder_of(self.stores, path), path)
        return None

    def _generation(self) -> str:
        return str(service.index_generation(self.stores))

    def _places(self, filters: ListFilters) -> tuple[str, list[Place]]:
        """Return the generation and the places of all matching sessions, cached if possible."""
        current = self._generation()
        with self._lock:
            kept = self._lists.get(filters)
            if kept and kept[0] == current:
                self._lists.move_to_end(filters)
                return kept
        found = service.match_sessions(self.stores, filters)
        generation, places = str(found.generation), found.rows
        with self._lock:
            self._lists[filters] = generation, places
            while len(self._lists) > KEPT_LISTS:
                self._lists.popitem(last=False)
        return generation, places


def session_key(path: Path, is_ambiguous: bool) -> str:
    """Return the key of a session in URLs: its id, with a hash of its path if that is ambiguous.

    >>> session_key(Path("/a/5e55.jsonl"), is_ambiguous=True)
    '5e55~f9ee3ad0'
    """
    # The hash tells copies apart without revealing a path.
    mark = f"~{zlib.crc32(os.fsencode(path)):08x}" if is_ambiguous else ""
    return f"{path.stem.removeprefix('agent-')}{mark}"
