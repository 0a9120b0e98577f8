"""Keep the index current in the background while pages are requested.

Requests wait only for the first sync, before which there may be no index at all.
"""

import time
from collections.abc import Callable
from threading import Event, Lock, Thread

from turnlog.format.regular_files import collect_skipped
from turnlog.index.sync_policy import refresh_index
from turnlog.secrets import mask
from turnlog.store.stores import AnyStores

PAUSE = 2.0
"""Seconds between the end of a refresh and the next one."""
FIRST = 5.0
"""Seconds that the first request waits for the first refresh."""


class Refresher:
    """Refreshes the index of some stores in a thread, at most every two seconds."""

    def __init__(
        self,
        stores: AnyStores,
        refresh: Callable[[AnyStores], bool] = refresh_index,
        pause: float = PAUSE,
    ) -> None:
        self._stores = stores
        self._refresh = refresh
        self._pause = pause
        self._lock = Lock()
        self._is_running = False
        self._ended = float("-inf")
        self._first = Event()
        self._asked: float | None = None
        """When the first request came."""
        self.problem: str | None = None
        """Error of the last failed refresh."""

    @property
    def is_ready(self) -> bool:
        """True if the first refresh has ended."""
        return self._first.is_set()

    @property
    def notice(self) -> str | None:
        """A line for the top of pages; None if they are current."""
        if not self.is_ready:
            return "Indexing sessions for the first time: this page is not complete yet."
        return f"The index could not be updated: {mask(self.problem)}" if self.problem else None

    def request(self, waits: bool = True) -> None:
        """Start a refresh unless one runs or has just ended; wait only for the very first."""
        self.start()
        if not waits:
            return
        if self._asked is None:
            self._asked = time.monotonic()
        # A page and the requests of its viewer share one wait: five seconds in total, not each.
        self._first.wait(max(0.0, self._asked + FIRST - time.monotonic()))

    def start(self) -> None:
        """Start a refresh unless one runs or has just ended."""
        with self._lock:
            if self._is_running or time.monotonic() - self._ended < self._pause:
                return
            self._is_running = True
        Thread(target=self._work, daemon=True, name="refresher").start()

    def refresh_now(self) -> None:
        """Refresh in this thread, for a session that is not in the index yet."""
        self._run()

    def _work(self) -> None:
        try:
            self._run()
        finally:
            with self._lock:
                self._is_running = False
                self._ended = time.monotonic()
            self._first.set()

    def _run(self) -> None:
        try:
            # Files that cannot be read are skipped, as in every command.
            with collect_skipped():
                self._refresh(self._stores)
            self.problem = None
        except Exception as error:  # even a bug must be shown, or pages would silently go stale
            self.problem = str(error) or type(error).__name__
