"""Opened sessions, kept between requests and refreshed when their files have grown."""

from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, RLock

from turnlog.conversation.session import Session
from turnlog.errors import NotFound
from turnlog.index.session_tables import open_cached_session
from turnlog.render.html.session_pages import PageOptions, SessionPages
from turnlog.store.paths import Store
from turnlog.worktree.worktree import Worktree, open_worktree

KEPT = 8
"""Maximum number of open sessions."""
KEPT_NODES = 1_500_000
"""Maximum number of entries in all open sessions; the one in use stays open regardless."""
KEPT_BRANCHES = 4


class OpenedSession:
    """A current session, and the pages of its branches as far as they were computed."""

    def __init__(self, session: Session, store: Store | None = None) -> None:
        self.session = session
        self._store = store
        self._pages: dict[str | None, SessionPages] = {}
        self._worktree: Worktree | None = None

    def refresh(self) -> None:
        """Read appended lines; pages of the shorter session are dropped."""
        if self.session.refresh():
            self._pages.clear()
            self._worktree = None

    @property
    def worktree(self) -> Worktree:
        """The files of the session; reading what its lines say about them takes a while."""
        if self._worktree is None:
            self._worktree = open_worktree(self.session)
        return self._worktree

    def pages(self, leaf: str | None) -> SessionPages:
        """Return the pages of the branch that ends at an entry, or of the active one."""
        if leaf not in self._pages:
            pages = SessionPages(self.session, PageOptions(leaf=leaf, store=self._store))
            pages.turns  # noqa: B018 (raises NotFound for an unknown leaf before it is kept)
            while len(self._pages) >= KEPT_BRANCHES:
                del self._pages[next(iter(self._pages))]
            self._pages[leaf] = pages
        return self._pages[leaf]


class _Slot:
    """A session that may still be opening, used by one thread at a time."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.opened: OpenedSession | None = None

    @property
    def size(self) -> int:
        return self.opened.session.nodes_in_memory if self.opened else 0


class SessionCache:
    """The sessions used most recently."""

    def __init__(
        self, opener: Callable[[Store, Path], Session] = open_cached_session, kept: int = KEPT
    ) -> None:
        self._open = opener
        self._kept = kept
        self._lock = Lock()
        self._slots: OrderedDict[Path, _Slot] = OrderedDict()

    @contextmanager
    def use(self, store: Store, path: Path) -> Generator[OpenedSession]:
        """Hold a current session for the time of a `with` block."""
        with self._lock:
            slot = self._slots.setdefault(path, _Slot())
            self._slots.move_to_end(path)
        # A session computes its parts on demand and is not safe for threads: one request at a time.
        with slot.lock:
            try:
                if slot.opened is None:
                    slot.opened = OpenedSession(self._open(store, path), store)
                else:
                    slot.opened.refresh()
            except OSError as error:
                self._forget(path)
                hint = f"turnlog restore {path.stem}"
                raise NotFound(f"{path} cannot be read: {error.strerror}", hint) from error
            self._make_room(path)
            yield slot.opened

    def _forget(self, path: Path) -> None:
        with self._lock:
            self._slots.pop(path, None)

    def _make_room(self, used: Path) -> None:
        with self._lock:
            total = sum(slot.size for slot in self._slots.values())
            for path in list(self._slots):
                if len(self._slots) <= self._kept and total <= KEPT_NODES:
                    return
                if path != used:
                    total -= self._slots.pop(path).size
