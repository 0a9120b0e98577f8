"""Poll files and fire FileChanged hooks when one changes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from turnlog.agent.hooks.hooks import Hooks

PAUSE = 1.0
"""Seconds between two polls."""
State = tuple[int, int, int] | None
"""Identifies the content of a file; None if it does not exist."""
FILES, SETTINGS = "FileChanged", "ConfigChange"


def wants_watch(hooks: Hooks) -> bool:
    """Return whether any hook listens for file changes."""
    return bool(hooks.groups(FILES) or hooks.groups(SETTINGS))


async def watch(
    hooks: Hooks,
    settings: Mapping[Path, str],
    after: Callable[[], Awaitable[None]],
    pause: float = PAUSE,
) -> None:
    """Fire hooks when a watched file changes, until cancelled.

    `settings` maps settings files to their names in the payload; `after` runs after FileChanged.
    """
    # Polling a few files costs almost nothing, and works where inotify does not: on network file
    # systems and in some containers.
    known = _look(hooks, settings)
    while True:
        await asyncio.sleep(pause)
        now = _look(hooks, settings)
        # A file that a hook has just asked to watch is not in `known` yet: its first state is not
        # a change.
        for path in [each for each in now if each in known and known[each] != now[each]]:
            if path in settings:
                about = {"source": settings[path], "file_path": str(path)}
                await hooks.fire(SETTINGS, settings[path], about)
            if path in _named(hooks):
                happened = _happened(known[path], now[path])
                await hooks.fire(FILES, path.name, {"file_path": str(path), "event": happened})
                await after()
        known = now


def _look(hooks: Hooks, settings: Mapping[Path, str]) -> dict[Path, State]:
    return {path: _state(path) for path in (*settings, *_named(hooks))}


def _named(hooks: Hooks) -> list[Path]:
    """Return the files named by matchers (in the working directory) and by hooks."""
    matchers = [str(group.get("matcher") or "") for group in hooks.groups(FILES)]
    names = [name for matcher in matchers for name in matcher.split("|") if name]
    return [*(hooks.facts.cwd / name for name in names), *hooks.watched]


def _state(path: Path) -> State:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _happened(before: State, now: State) -> str:
    if before is None:
        return "add"
    return "unlink" if now is None else "change"
