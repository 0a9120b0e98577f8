"""Detect open sessions: their client continues from memory, and would ignore an edit."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from turnlog.errors import Conflict
from turnlog.store.catalog import live_sessions
from turnlog.store.paths import Store

CLOSE_IT = "/exit in that client"


def require_closed(stores: Iterable[Store], paths: Iterable[Path]) -> None:
    """Raise `Conflict` for sessions that a client has registered, or any process has open."""
    live = {name for store in stores for name in live_sessions(store)}
    found = list(paths)
    for path in found:
        if names := live & _sessions_named_by(path):
            raise Conflict(f"{names.pop()} is open in a running client", CLOSE_IT)
    # Clients from before the registry existed do not register; look for open files as well.
    transcripts = {str(path.resolve()) for path in found if _is_transcript(path)}
    for name in open_files() if transcripts else ():
        if name in transcripts:
            raise Conflict(f"{name} is open in another process", f"fuser {name}")


def stores_of(paths: Iterable[Path]) -> list[Store]:
    """Return the stores that contain files: directories above them with a client registry."""
    above = {folder for path in paths for folder in path.parents}
    return [store for store in map(Store, sorted(above)) if store.registry.is_dir()]


def _sessions_named_by(path: Path) -> set[str]:
    """Return the parts of a path that may be session ids, as in these examples.

    `<id>.jsonl`, `<id>/tool-results/x`, `<id>-agent-<id>.json`
    """
    return {path.stem, path.name.partition("-agent-")[0], *path.parts}


def _is_transcript(path: Path) -> bool:
    return path.suffix == ".jsonl" and "projects" in path.parts


def open_files() -> Iterator[str]:
    """Yield the files that other processes have open, on systems with /proc."""
    for process in _names_in("/proc"):
        if process.isdecimal() and process != str(os.getpid()):
            folder = f"/proc/{process}/fd"
            for name in _names_in(folder):
                with suppress(OSError):  # closed since
                    yield str(Path(folder, name).readlink())


def _names_in(folder: str) -> list[str]:
    # Not `Path.glob`, which fails if a process ends while it looks.
    try:
        return os.listdir(folder)
    except OSError:  # another user's process, one that has ended, or a system without /proc
        return []
