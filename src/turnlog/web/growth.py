"""Follow a growing session file as server-sent events, whose ids are byte offsets.

A client that reconnects names the last offset it has seen, so nothing is missed in between.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from turnlog.format.regular_files import open_regular
from turnlog.web.worker_threads import run_in_thread

LOOK_SECONDS = 0.2
"""Seconds between two polls of the file."""
EVENT_SECONDS = 0.5
"""Seconds between two events: a client that writes fast must not make every page reload."""
PING_SECONDS = 15
"""Seconds of silence before a comment is sent, which detects clients that have disconnected."""
TAIL = 1 << 20
"""Bytes read at a time to find the end of the last whole line."""

_polls = asyncio.Semaphore(32)
"""More than there are streams: polls of a disk that hangs must not keep pages waiting."""


class Growth(NamedTuple):
    """The state of a growing file."""

    inode: int
    end: int
    """The offset after its last whole line."""


async def growth_events(path: Path, seen: int | None) -> AsyncIterator[bytes]:
    """Yield an event whenever the file grows, and one at once unless the file ends at `seen`."""
    known = await run_in_thread(partial(measure, path, 0), _polls)
    yield b"retry: 1000\n\n"
    # A page that connects for the first time read the session a moment ago, and a line that was
    # appended in between must not wait for the next one.
    if known and known.end != seen:
        yield _event(known)
    loop = asyncio.get_running_loop()
    spoken = loop.time()
    while known is not None:
        # One `stat` five times a second costs 0.03 % of a core, works on network mounts as well,
        # and keeps no thread busy; a file system watch would need such a poll as a backup anyway.
        await asyncio.sleep(LOOK_SECONDS)
        # On a network mount that hangs, Ctrl-C would wait for a thread of asyncio.
        current = await run_in_thread(partial(measure, path, known.end), _polls)
        if current is not None and current != known:
            yield _event(current)
            spoken = loop.time()
            await asyncio.sleep(EVENT_SECONDS - LOOK_SECONDS)
        elif loop.time() - spoken > PING_SECONDS:
            yield b": ping\n\n"
            spoken = loop.time()
        known = current
    yield b"event: gone\ndata: {}\n\n"


def measure(path: Path, known_end: int) -> Growth | None:
    """Return where the last whole line of a file ends, reading back no further than `known_end`.

    Return None if the file is gone.
    """
    try:
        found = path.stat()
        if found.st_size == known_end:
            return Growth(found.st_ino, known_end)
        # A named pipe in its place would block the thread, which Ctrl-C then waits for.
        with open_regular(path) as file:
            return Growth(found.st_ino, _last_line_end(file.fileno(), found.st_size, known_end))
    except OSError:
        return None


def _last_line_end(descriptor: int, size: int, floor: int) -> int:
    """Return the offset after the last newline, reading backwards."""
    # A replaced file may be shorter than what was known of the old one.
    floor = floor if floor <= size else 0
    end = size
    while end > floor:
        start = max(floor, end - TAIL)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return floor


def _event(growth: Growth) -> bytes:
    return f'id: {growth.end}\ndata: {{"size": {growth.end}}}\n\n'.encode()
