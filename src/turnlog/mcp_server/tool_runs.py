"""Run tools: refresh the index, check arguments, and render answers within the limits.

The index is refreshed before each call, for a limited time; a longer sync continues in another
process while the call is answered from the index as it is. Only the index, in the cache directory,
is ever written.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from turnlog.errors import Ambiguous, TurnlogError, UsageError
from turnlog.format.regular_files import collect_skipped
from turnlog.index.database import DamagedIndex
from turnlog.index.sync_policy import deferred_sync, refresh_index
from turnlog.mcp_server.answers import ToolAnswer, render
from turnlog.mcp_server.argument_checks import check_arguments
from turnlog.mcp_server.calling_session import meta_of
from turnlog.mcp_server.tool_table import TOOLS
from turnlog.mcp_server.visible_sessions import History, SessionMemory
from turnlog.secrets import mask
from turnlog.store.paths import Store
from turnlog.text import harmless

PATIENCE = 20.0
"""Seconds that a call waits for the index."""
FRESH = 0.5
"""Seconds after a refresh during which calls do not start another one."""
MOST_CANDIDATES = 20
LISTED = 20
"""Number of sessions listed as resources."""
UNFINISHED = "The index is still being built: this answer may miss sessions. Ask again in a minute."


class IndexRefresh:
    """Refreshes the index in a thread; calls wait for it, but only for a limited time."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self._stores = stores
        self._lock = Lock()
        self._thread: Thread | None = None
        self._ended = float("-inf")
        self.problem: str | None = None

    def start(self) -> Thread | None:
        """Start a refresh unless one is running or has just ended; return the running one."""
        with self._lock:
            if self._thread and self._thread.is_alive():
                return self._thread
            # Models send several calls at once; one refresh serves them all.
            if time.monotonic() - self._ended < FRESH:
                return None
            self._thread = Thread(target=self._run, daemon=True, name="refresh")
            self._thread.start()
            return self._thread

    def wait(self) -> str:
        """Refresh the index; return a notice if that failed or did not finish in time."""
        thread = self.start()
        if thread:
            thread.join(PATIENCE)
        if thread and thread.is_alive():
            return UNFINISHED
        return f"The index could not be updated: {self.problem}" if self.problem else ""

    def _run(self) -> None:
        try:
            with collect_skipped():
                refresh_index(self._stores)
            self.problem = None
        except Exception as error:  # an old index is better than no answer
            self.problem = mask(str(error)) or type(error).__name__
        finally:
            self._ended = time.monotonic()


class ToolRuns:
    """Runs tools for one client, in any thread."""

    def __init__(self, stores: Sequence[Store], project: Path) -> None:
        self._stores = tuple(stores)
        self._project = project
        self._refresh = IndexRefresh(self._stores)
        self._memory = SessionMemory()

    def warm_up(self) -> None:
        """Refresh the index and import the tools while the client reads its greeting."""
        self._refresh.start()
        Thread(target=_load_all, daemon=True, name="imports").start()

    def run(self, name: str, given: Any, params: Mapping[str, Any]) -> tuple[str, bool]:
        """Return the answer of a tool as text, and whether it is an error."""
        try:
            arguments = check_arguments(TOOLS[name].schema, given)
            return self._answer(name, arguments, params), False
        except Ambiguous as error:
            # Candidates are names from sessions, so they are quoted as well.
            answer = ToolAnswer(error.message, error.candidates[:MOST_CANDIDATES])
            return render(answer, None, {}), True
        except TurnlogError as error:
            # Return a result instead of a protocol error: from it, models learn how to correct the
            # call.
            return harmless(mask(error.message)), True
        except OSError as error:
            return mask(f"a file cannot be read: {error.strerror or error}"), True

    def resources(self) -> list[dict[str, Any]]:
        """Return the newest sessions as resources."""
        from turnlog.mcp_server.citations import brief, local_time

        self._refresh.wait()
        with deferred_sync():
            history = self._history({}, {})
            shown = history.describe(history.numbers()[:LISTED])
        return [
            {
                "uri": f"turnlog://session/{session.id}",
                "name": session.id,
                "title": harmless(brief(session.title, 80)) or "untitled",
                "description": f"last active {local_time(session.last_active)}",
                "mimeType": "text/plain",
            }
            for session in shown
        ]

    def read_resource(self, uri: str, params: Mapping[str, Any]) -> str:
        """Return the overview of a session."""
        if not uri.startswith("turnlog://session/"):
            raise UsageError(f"{uri[:80]!r} is not a resource such as turnlog://session/ID")
        return self._answer("sessions", {"session": uri}, params)

    def _answer(self, name: str, given: dict[str, Any], params: Mapping[str, Any]) -> str:
        notice = self._refresh.wait()
        # The call has already waited for the refresh, so the tools read the index as it is.
        with deferred_sync(), collect_skipped():
            try:
                answer = self._ask(name, given, params)
            except DamagedIndex:
                # The refresh rebuilds a damaged index, so the second attempt succeeds.
                self._refresh = IndexRefresh(self._stores)
                notice = self._refresh.wait()
                answer = self._ask(name, given, params)
        if notice:
            answer = ToolAnswer(f"{answer.head}\n{notice}", answer.blocks, answer.advice)
        return render(answer, given.get("cursor"), {"tool": name, **given})

    def _ask(self, name: str, given: dict[str, Any], params: Mapping[str, Any]) -> ToolAnswer:
        return TOOLS[name].load()(self._history(given, meta_of(params)), given)

    def _history(self, given: Mapping[str, Any], meta: Mapping[str, Any]) -> History:
        return History(self._stores, self._project, given.get("scope"), meta, self._memory)


def _load_all() -> None:
    # This only saves time later: a tool that cannot be imported fails when it is called.
    with suppress(ImportError):
        for tool in TOOLS.values():
            tool.load()
