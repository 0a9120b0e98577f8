"""Look up the sessions that a client may see, for all tools.

Every lookup goes through `History`, which knows the scope and the calling session. No part of a
request becomes part of a path: sessions are looked up in the index by their id.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

from turnlog.conversation.session import Session
from turnlog.errors import NotFound
from turnlog.index import service
from turnlog.index.reports.session_list import ListedSession, ListFilters
from turnlog.index.session_tables import open_cached_session
from turnlog.mcp_server.calling_session import calling_sessions, is_recent, started_sessions
from turnlog.mcp_server.project_scope import ProjectScope, scope_of
from turnlog.store.paths import Store
from turnlog.store.stores import holder_of

SHORT = 8
"""Characters of an id in citations."""
KEPT = 4
"""Maximum number of open sessions in the cache."""


class SessionMemory:
    """An LRU cache of open sessions; a file that has changed is opened again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[tuple[str, int, int], Session] = OrderedDict()

    def open(self, store: Store, path: Path) -> Session:
        """Return an opened session."""
        state = path.stat()
        # Taken before opening: if lines are appended meanwhile, the next call has another key.
        key = (str(path), state.st_size, state.st_mtime_ns)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        # Outside of the lock: a large session takes seconds, and opening it twice does no harm.
        session = open_cached_session(store, path)
        with self._lock:
            self._kept[key] = session
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return session


@dataclass
class History:
    """The sessions visible to one request; values are computed once, so it sees one state."""

    stores: Sequence[Store]
    project: Path
    scope_name: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    memory: SessionMemory = field(default_factory=SessionMemory)

    @cached_property
    def scope(self) -> ProjectScope:
        return scope_of(self.project, self.scope_name)

    @cached_property
    def callers(self) -> set[str]:
        """Ids of the sessions that the request may come from."""
        found = calling_sessions(self.stores, self.meta)
        if not found:
            # A session of the project that was written to a moment ago is most likely the caller.
            newest = self.describe([number for _, number in self.in_scope[:1]])
            found = {each.id for each in newest if is_recent(each.last_active)}
        return found | started_sessions()

    @cached_property
    def in_scope(self) -> list[tuple[float, int]]:
        """The last activity and the number of all sessions in scope, newest first."""
        return self._matching(ListFilters())

    def numbers(self, filters: ListFilters = ListFilters()) -> tuple[int, ...]:  # noqa: B008
        """Return the numbers of matching sessions except the calling one, newest first."""
        places = self.in_scope if filters == ListFilters() else self._matching(filters)
        own = self._own_numbers
        return tuple(number for _, number in places if number not in own)

    @cached_property
    def _own_numbers(self) -> set[int]:
        if not self.callers:
            return set()
        found = service.match_sessions(self.stores, ListFilters(ids=tuple(self.callers)))
        return {number for _, number in found.rows}

    def _matching(self, filters: ListFilters) -> list[tuple[float, int]]:
        chosen = filters._replace(directories=self.scope.directories)
        rows = service.match_sessions(self.stores, chosen).rows
        # `directories` also matches subdirectories, which an exact scope leaves out.
        if not self.scope.is_exact:
            return rows
        found = service.describe_sessions(self.stores, [number for _, number in rows])
        own = self.scope.directories or ()
        return [row for row in rows if row[1] in found and found[row[1]].project in own]

    def describe(self, numbers: Sequence[int]) -> list[ListedSession]:
        """Return the figures of sessions, in the given order."""
        found = service.describe_sessions(self.stores, numbers)
        return [found[number] for number in numbers if number in found]

    def find(self, name: str) -> tuple[str, Path]:
        """Return the id and file of the session in scope that a name refers to, or raise NotFound.

        A name is the id of a session or sub-agent, the start of one, or `last`.
        """
        if name == "last":
            newest = self.describe(self.numbers()[:1])
            if not newest:
                raise NotFound(f"no earlier session in {self.scope.label}")
            return newest[0].id, Path(newest[0].path)
        for path in service.find_paths(self.stores, name):
            owner = service.session_of(self.stores, path)
            if owner and self._matching(ListFilters(ids=(owner,))):
                return owner, path
        # The same message for a session of another project, whose existence must not be revealed.
        raise NotFound(
            f"no session {name[:80]!r} in {self.scope.label}: call `sessions` for a list"
        )

    def open(self, name: str) -> Session:
        """Open a session or sub-agent in scope."""
        _, path = self.find(name)
        return self.memory.open(holder_of(self.stores, path), path)

    def turn_of(self, path: str, line: int) -> int | None:
        """Return the number of the turn that a line of a file is in."""
        session = self.open_file(path)
        return session.turn_at(line) if session else None

    def open_file(self, path: str) -> Session | None:
        """Open a file that the index found in scope; None if it is gone or cannot be read."""
        file = Path(path)
        try:
            return self.memory.open(holder_of(self.stores, file), file)
        except OSError:
            return None


def short_id(id_: str) -> str:
    """Return the start of an id, enough to find the session unless another id starts the same."""
    return id_[:SHORT] if len(id_) == 36 else id_
