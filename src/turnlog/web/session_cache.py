"""Opened sessions, kept between requests and refreshed when their files have grown."""

from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, RLock

from turnlog.conversation.session import Session, open_session
from turnlog.errors import NotFound

KEPT = 8
"""Sessions that stay open."""
KEPT_NODES = 1_500_000
"""Entries of all open sessions; the one in use stays open, however large it is."""


class _Opened:
    """A session, used by one thread at a time."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.session: Session | None = None


class SessionCache:
    """The sessions used most recently."""

    def __init__(self, opener: Callable[[Path], Session] = open_session, kept: int = KEPT) -> None:
        self._open = opener
        self._kept = kept
        self._lock = Lock()
        self._opened: OrderedDict[Path, _Opened] = OrderedDict()

    @contextmanager
    def use(self, path: Path) -> Generator[Session]:
        """Hold a current session for the time of a `with` block."""
        with self._lock:
            opened = self._opened.setdefault(path, _Opened())
            self._opened.move_to_end(path)
        # A session computes its parts on demand and is not safe for threads: one request at a time.
        with opened.lock:
            try:
                if opened.session is None:
                    opened.session = self._open(path)
                else:
                    opened.session.refresh()
            except OSError as error:
                self._forget(path)
                hint = f"turnlog restore {path.stem}"
                raise NotFound(f"{path} cannot be read: {error.strerror}", hint) from error
            self._make_room(path)
            yield opened.session

    def _forget(self, path: Path) -> None:
        with self._lock:
            self._opened.pop(path, None)

    def _make_room(self, used: Path) -> None:
        with self._lock:
            nodes = sum(len(each.session.nodes) for each in self._opened.values() if each.session)
            for path in list(self._opened):
                if len(self._opened) <= self._kept and nodes <= KEPT_NODES:
                    return
                if path != used:
                    dropped = self._opened.pop(path).session
                    nodes -= len(dropped.nodes) if dropped else 0
