"""The live page: running sessions as server-sent events, sent only when something has changed."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

from turnlog.conversation.live import LiveReader, LiveSession
from turnlog.format.decode import encode_sound
from turnlog.format.json_values import Fields
from turnlog.render.live_rows import live_row, live_summary
from turnlog.web.library import Library, session_key
from turnlog.web.worker_threads import run_in_thread

LOOK_SECONDS = 0.5
"""Seconds between two polls of the sessions, and so the minimum between two events."""
PING_SECONDS = 15
"""Seconds of silence before a comment is sent, which detects clients that have disconnected."""


class LiveFeed:
    """One reader shared by all pages: files are polled twice a second, however many are open."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._reader = LiveReader(library.stores)
        self._lock = asyncio.Lock()
        self._looked = float("-inf")
        self._sessions: list[LiveSession] = []

    async def events(self) -> AsyncIterator[bytes]:
        """Yield the running sessions now, and again each time they change."""
        yield b"retry: 1000\n\n"
        sent: list[LiveSession] | None = None
        spoken = time.monotonic()
        while True:
            sessions = await self._look()
            if sessions != sent:
                sent, spoken = sessions, time.monotonic()
                yield b"data: " + encode_sound(self._payload(sessions)) + b"\n\n"
            elif time.monotonic() - spoken > PING_SECONDS:
                spoken = time.monotonic()
                yield b": ping\n\n"
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> list[LiveSession]:
        async with self._lock:
            if time.monotonic() - self._looked >= LOOK_SECONDS / 2:
                self._sessions = await run_in_thread(self._reader.read)
                self._looked = time.monotonic()
        return self._sessions

    def _payload(self, sessions: list[LiveSession]) -> Fields:
        now = time.time()
        rows = [live_row(session, now) for session in sessions]
        for row in rows:
            path = row.pop("path")
            row.pop("store")
            row["key"] = session_key(Path(path), len(self._library.stores) > 1) if path else None
        return {"now": now, "summary": live_summary(sessions), "sessions": rows}
