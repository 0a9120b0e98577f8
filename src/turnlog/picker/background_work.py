"""Background work of the picker: refresh the index, watch running sessions, check health.

None of it delays the screen: each task runs in a thread, which imports the modules it needs and
delivers its results to the screen's thread.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

from turnlog.errors import TurnlogError
from turnlog.format.regular_files import collect_skipped, skipping
from turnlog.index.database import index_path, open_index
from turnlog.store.paths import Store

LIVE_PAUSE = 2.0
"""Seconds between polls of the running sessions."""
CHECKED = 2 << 20
"""Sessions up to this many bytes are checked: a check occupies the interpreter."""


class BackgroundCallbacks(NamedTuple):
    """Functions that the threads call with their results."""

    refreshed: Callable[[str | None], None]
    """Called after a refresh, with the error if it failed."""
    live: Callable[[dict[str, str]], None]
    """Called with the states of the running sessions, by id, when they change."""
    checked: Callable[[], None]
    """Called after sessions were checked."""


class Background:
    """The threads of a picker."""

    def __init__(self, stores: Sequence[Store], callbacks: BackgroundCallbacks) -> None:
        self._stores = stores
        self._callbacks = callbacks
        self._refreshing = False
        self._checking = False
        self._checked: set[str] = set()
        self._closed = Event()

    @property
    def is_refreshing(self) -> bool:
        return self._refreshing

    def start(self) -> None:
        """Start watching running sessions, and refresh the index."""
        self._start(self._watch)
        self.refresh()

    def refresh(self) -> None:
        """Refresh the index, unless a refresh is running."""
        if not self._refreshing:
            self._refreshing = True
            self._start(self._refresh)

    def check(self, sessions: Sequence[tuple[Store, str]]) -> None:
        """Check sessions, given by store and path, unless checked since the last refresh."""
        fresh = [each for each in sessions if each[1] not in self._checked]
        if fresh and not self._checking:
            self._checking = True
            self._checked.update(path for _, path in fresh)
            self._start(lambda: self._check(fresh))

    def close(self) -> None:
        """End the threads at their next step."""
        self._closed.set()

    def _start(self, work: Callable[[], None]) -> None:
        Thread(target=work, daemon=True, name="picker background").start()

    def _refresh(self) -> None:
        from turnlog.index.sync_policy import refresh_index

        problem = None
        try:
            with collect_skipped():
                for store in self._stores:
                    refresh_index(store)
        except Exception as error:  # a bug must not leave the list outdated without a word
            problem = str(error) or type(error).__name__
        self._refreshing = False
        self._checked.clear()
        self._callbacks.refreshed(problem)

    def _watch(self) -> None:
        from turnlog.conversation.live import LiveReader

        reader, last = LiveReader(self._stores), dict[str, str]()
        while not self._closed.is_set():
            with suppress(OSError, TurnlogError):
                states = {each.id: str(each.state) for each in reader.read()}
                if states != last:
                    last = states
                    self._callbacks.live(states)
            self._closed.wait(LIVE_PAUSE)

    def _check(self, sessions: Sequence[tuple[Store, str]]) -> None:
        from turnlog.session_health import unresumable
        from turnlog.store.catalog import locate_session

        with collect_skipped():
            # One at a time, so that checking stops when the picker is closed.
            for store, path in sessions:
                if self._closed.is_set():
                    return
                with (
                    suppress(TurnlogError, OSError),
                    skipping(path),
                    open_index(index_path(store)) as index,
                ):
                    list(unresumable(index, [locate_session(Path(path))], CHECKED))
        self._checking = False
        self._callbacks.checked()
