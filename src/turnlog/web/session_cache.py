"""Opened sessions, kept between requests and refreshed when their files have grown."""

import shlex
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock, RLock, Thread
from typing import NamedTuple

from turnlog.conversation.session import Session, SessionStart
from turnlog.errors import NotFound
from turnlog.index.session_tables import open_at_once, open_in_steps
from turnlog.render.html.session_pages import PageOptions, SessionPages
from turnlog.store.paths import Store
from turnlog.store.session_lookup import missing_session
from turnlog.store.stores import store_argument
from turnlog.worktree.worktree import Worktree, open_worktree

KEPT = 8
"""Maximum number of open sessions."""
KEPT_NODES = 1_500_000
"""Maximum number of entries in all open sessions; the one in use stays open regardless."""
KEPT_BRANCHES = 4
LARGE = 32 << 20
"""Minimum bytes of a session whose start is shown while the rest is being read."""
EARLY = 1 << 20
"""Bytes of a large session that are shown first."""

Opener = Callable[[Store, Path, Callable[[int], None]], Session]
"""Reads a whole session, reporting the bytes read."""


class ReadProgress(NamedTuple):
    """Bytes of a session read so far, and its size."""

    done: int
    size: int


class OpenedSession:
    """An up-to-date session, and the pages of its branches that were computed so far."""

    def __init__(self, session: Session, store: Store | None = None) -> None:
        self.session = session
        self.reading: ReadProgress | None = None
        """Set while `session` is only the start of a large one and the rest is being read."""
        self._store = store
        self._pages: dict[str | None, SessionPages] = {}
        self._worktree: Worktree | None = None

    def command(self, name: str, *arguments: str) -> str:
        """Return a command on this session, with `--store` unless the user has only one store."""
        store = store_argument(self._store, self.session.path) if self._store else ""
        return shlex.join(["turnlog", name, self.session.id, *arguments]) + store

    def refresh(self) -> None:
        """Read appended lines; if there are any, drop the pages computed before."""
        if self.session.refresh():
            self._pages.clear()
            self._worktree = None

    @property
    def worktree(self) -> Worktree:
        """The files of the session, computed on first use because it takes a while."""
        if self._worktree is None:
            self._worktree = open_worktree(self.session)
        return self._worktree

    def pages(self, leaf: str | None) -> SessionPages:
        """Return the pages of the branch that ends at an entry, or of the active one."""
        if self.reading and self.session.tree.rank_of(leaf) is None:
            leaf = None  # the leaf may be in the part that is not read yet
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
        self.start: OpenedSession | None = None
        """The first lines of a large session, while the rest is being read."""
        self.reader: Thread | None = None
        """The thread that will read the whole session; None once it is started."""
        self.is_read = Event()
        """Set when the session was read completely, or could not be read."""
        self.error: Exception | None = None

    def current(self) -> OpenedSession:
        """Return the session, or its start, including lines appended since."""
        if self.error:
            raise self.error
        opened = self.opened or self.start
        assert opened, "a slot that was prepared has one of them"
        opened.refresh()
        return opened

    def read_on(self) -> None:
        """Start to read the whole of a large session, unless that was started before."""
        with self.lock:
            reader, self.reader = self.reader, None
        if reader:
            reader.start()

    @property
    def size(self) -> int:
        return self.opened.session.nodes_in_memory if self.opened else 0


class SessionCache:
    """The sessions used most recently."""

    def __init__(
        self, opener: Opener = open_in_steps, kept: int = KEPT, large: int = LARGE
    ) -> None:
        self._open = opener
        self._kept = kept
        self._large = large
        self._lock = Lock()
        self._slots: OrderedDict[Path, _Slot] = OrderedDict()
        self._reading = Lock()

    @contextmanager
    def use(self, store: Store, path: Path, is_early: bool = False) -> Generator[OpenedSession]:
        """Hold an up-to-date session during a `with` block.

        If `is_early` and the session is large, hold its first lines until all of it is read.
        """
        with self._lock:
            slot = self._slots.setdefault(path, _Slot())
            self._slots.move_to_end(path)
        with self._reporting_missing(store, path), slot.lock:
            self._prepare(slot, store, path)
        if not is_early:
            slot.read_on()
            slot.is_read.wait()
        try:
            # A session computes its parts on demand and is not safe for threads: one request at
            # a time.
            with slot.lock:
                with self._reporting_missing(store, path):
                    opened = slot.current()
                self._make_room(path)
                yield opened
        finally:
            # Only now: the first rows must not compete for the CPU with reading all the others.
            slot.read_on()

    @contextmanager
    def _reporting_missing(self, store: Store, path: Path) -> Generator[None]:
        try:
            yield
        except Exception as error:
            self._forget(path)
            if isinstance(error, FileNotFoundError):
                raise missing_session(store, path.stem) from error
            if isinstance(error, OSError):
                raise NotFound(f"{path} cannot be read: {error.strerror}", "turnlog ls") from error
            raise

    def _prepare(self, slot: _Slot, store: Store, path: Path) -> None:
        """Open a session; of a large one, open its start and create a thread to read all of it."""
        if slot.opened or slot.start:
            return
        if session := open_at_once(store, path, self._large):
            slot.opened = OpenedSession(session, store)
            slot.is_read.set()
            return
        slot.start = start = OpenedSession(SessionStart(path, EARLY), store)
        start.reading = ReadProgress(0, path.stat().st_size)
        # A daemon thread: Ctrl-C does not wait until a gigabyte is read.
        slot.reader = Thread(target=self._read, args=(slot, store, path, start), daemon=True)

    def _read(self, slot: _Slot, store: Store, path: Path, start: OpenedSession) -> None:
        size = start.reading.size if start.reading else 0

        def note(count: int) -> None:
            start.reading = ReadProgress(count, size)

        try:
            with self._reading:  # large sessions one by one: each may need most of the memory
                session = open_at_once(store, path, 0) or self._open(store, path, note)
                # Opened again from the table just written, a session takes 10 MB, not 800 MB.
                opened = OpenedSession(open_at_once(store, path, 0) or session, store)
            with slot.lock:
                slot.opened, slot.start = opened, None
        except Exception as error:
            slot.error = error
        finally:
            slot.is_read.set()

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
