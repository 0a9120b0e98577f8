"""Node tables of large sessions, kept next to the index.

A table only saves time: if it is missing, damaged or outdated, the session is read from its file,
with the same result.
"""

import gc
import os
import zlib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from turnlog.conversation.node_table import StaleTable, read_table, write_table
from turnlog.conversation.session import Session, SessionStart, open_session
from turnlog.conversation.table_session import TableSession
from turnlog.format.private_files import secure_folder
from turnlog.index.database import current_version, index_path, tables_folder
from turnlog.store.paths import Store

SMALLEST = 4 << 20
"""Minimum size in bytes of a session file that gets a table; smaller ones are read fast enough."""
STEP = 4 << 20
"""Bytes to read between two progress reports."""
LONGEST_TAIL = 8 << 20
TAIL_SHARE = 8
"""A table is rebuilt when an eighth of a file, and at least 8 MB, was appended since."""
MOST_TABLES = 64
SUFFIX = ".nodes"


def open_cached_session(
    store: Store, path: Path, environment: Mapping[str, str] = os.environ
) -> Session:
    """Open a session with the same result as `open_session`, using a node table if it is large."""
    return open_at_once(store, path, SMALLEST, environment) or open_in_steps(
        store, path, environment=environment
    )


def open_at_once(
    store: Store, path: Path, smallest: int, environment: Mapping[str, str] = os.environ
) -> Session | None:
    """Open a session that is smaller than `smallest` bytes or has a table; else return None."""
    if path.stat().st_size < smallest:
        is_kept = path.stat().st_size >= SMALLEST
        return open_cached_session(store, path, environment) if is_kept else open_session(path)
    return _open_with_table(path, table_path(index_path(store, environment), path))


def open_in_steps(
    store: Store,
    path: Path,
    note: Callable[[int], None] = lambda count: None,
    environment: Mapping[str, str] = os.environ,
) -> Session:
    """Read a session and write its table, reporting how many bytes were read so far."""
    return _open_and_keep(path, table_path(index_path(store, environment), path), note)


def table_path(index: Path, session: Path) -> Path:
    """Return the path of a session's table."""
    # The stem is cut, because a file name has at most 255 bytes. The checksum is that of the whole
    # path, because two projects may have a session of the same name.
    name = f"{session.stem[:80]}-{zlib.crc32(str(session.absolute()).encode()):08x}{SUFFIX}"
    return tables_folder(index) / name


def _open_with_table(path: Path, file: Path) -> Session | None:
    table = read_table(file, current_version())
    # Two paths may have the same checksum, so the table itself names its session.
    if table is None or table.head.path != str(path.absolute()):
        return None
    try:
        session = TableSession(path, table)
    except StaleTable:
        return None
    longest = max(LONGEST_TAIL, session.state.size // TAIL_SHARE)
    return session if session.tail_size <= longest else None


def _open_and_keep(path: Path, file: Path, note: Callable[[int], None]) -> Session:
    from turnlog.conversation.table_builder import build_table

    with _without_collection():
        session = SessionStart(path, STEP)
        while not session.is_whole:
            session.extend(STEP)
            note(session.read_bytes)
        parts = build_table(session, current_version())
    if parts:
        with suppress(
            OSError
        ):  # a full disk or a read-only cache: the session is open all the same
            secure_folder(file.parent)
            write_table(file, *parts)
            _remove_oldest(file)
    return session


@contextmanager
def _without_collection() -> Generator[None]:
    """Pause the garbage collector: millions of objects are made, and none of them is garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _remove_oldest(newest: Path) -> None:
    """Remove all but the newest tables of sessions that still exist."""
    found = [file for file in newest.parent.glob(f"*{SUFFIX}") if file != newest]
    kept = 1
    for file in sorted(found, key=lambda each: each.stat().st_mtime_ns, reverse=True):
        table = read_table(file, current_version()) if kept < MOST_TABLES else None
        if table and Path(table.head.path).exists():
            kept += 1
        else:
            file.unlink(missing_ok=True)
