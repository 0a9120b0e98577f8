"""Bring the index up to date by reading the bytes that were added since the last sync.

The result is the same as rebuilding the index from all files.
"""

import os
import sqlite3
from pathlib import Path
from typing import NamedTuple

import msgspec

from turnlog.errors import Damaged
from turnlog.format.jsonl import FileState
from turnlog.format.regular_files import is_readable
from turnlog.index.database import (
    Index,
    defer_merging,
    finish_merging,
    is_built,
    writing,
)
from turnlog.index.ingest.archived_files import archived_sources
from turnlog.index.ingest.change_check import archive_state, keep_fingerprint, stored_archive_state
from turnlog.index.ingest.facts import Carry
from turnlog.index.ingest.figure_writer import KnownFile, SourceFile, Writer, known_files
from turnlog.index.ingest.file_states import FileStates, State, scan_session, scan_store
from turnlog.index.ingest.phases import FIGURES, WORDS, FigureJob, WordJob
from turnlog.index.ingest.text_writer import wordless_files
from turnlog.index.ingest.workers import USUAL, BatchLimits, Progress, ingest, is_worth_sharing
from turnlog.index.semantic.static_model import NAME as STATIC_MODEL
from turnlog.index.semantic.vector_store import stored_model
from turnlog.store.archive.archive import Archive
from turnlog.store.paths import SUBAGENTS, Store, is_session_name
from turnlog.store.stores import AnyStores, each_store

FEW = 500
"""Up to this many files are looked up by path; for more, the whole table is read."""
MUCH = 10
"""Defer merging words if the new bytes are at least 1/MUCH of those already indexed."""

_decode_carry = msgspec.json.Decoder(Carry).decode


class Synced(NamedTuple):
    """Summary of a sync."""

    read: int
    """Number of files that were new or changed."""
    removed: int
    bytes: int


class StoreScan(NamedTuple):
    """One or several stores and the states of their files."""

    stores: AnyStores
    states: FileStates


def sync(
    index: Index,
    stores: AnyStores,
    progress: Progress = lambda done, total: None,
    limits: BatchLimits = USUAL,
    archive: Archive | None = None,
    *,
    words: bool = True,
) -> Synced:
    """Bring the index up to date; without `words`, only the figures that reports use.

    Files that are gone from the store stay indexed if they are archived.
    """
    return sync_scanned(
        index, StoreScan(stores, scan_store(stores)), progress, limits, archive, words
    )


def sync_scanned(
    index: Index,
    scan: StoreScan,
    progress: Progress,
    limits: BatchLimits = USUAL,
    archive: Archive | None = None,
    words: bool = True,
) -> Synced:
    """Bring the index up to date with a scan that was just made."""
    stores, states = scan
    known = known_files(index.db)
    found = _sources(stores, states)
    state = archive_state(archive.folder if archive else None)
    is_settled = _is_settled(index.db, state, known, found)
    if archive and not is_settled:
        kept = archived_sources(archive, stores, found.values())
        found |= {source.name: source for source in kept}
    jobs = _jobs(index.db, found, known)
    gone = [] if is_settled else [path for path in known if path not in found]
    _remove(index.db, gone)
    total = _ingest_figures(index, jobs, progress, limits)
    if state and not is_settled:
        with writing(index.db):
            index.db.execute("INSERT OR REPLACE INTO about VALUES ('archive', ?)", (state,))
    if words:
        # If the archive is unchanged, its files were not listed above; their words may still be
        # missing if earlier syncs read figures only.
        if archive and any(
            file.is_gone and file.path not in found for file in wordless_files(index.db)
        ):
            kept = archived_sources(archive, stores, found.values())
            found |= {source.name: source for source in kept}
        total = max(total, _ingest_words(index, found, progress, limits))
    keep_fingerprint(index.db, states)
    return Synced(len(jobs), len(gone), total)


def plan_first_build(
    db: sqlite3.Connection, scan: StoreScan, archive: Archive | None
) -> list[FigureJob]:
    """Plan how to read all files into an index that is still empty."""
    found = _sources(*scan)
    if archive:
        kept = archived_sources(archive, scan.stores, found.values())
        found |= {source.name: source for source in kept}
    return _jobs(db, found, {})


def _remove(db: sqlite3.Connection, gone: list[str]) -> None:
    if gone:
        with writing(db):
            writer = Writer(db)
            for path in gone:
                writer.remove(path)
            writer.settle()


def sync_session(
    index: Index, store: Store, session: Path, progress: Progress = lambda done, total: None
) -> None:
    """Bring only the figures of one session and its sub-agents up to date."""
    root = str(store.root)
    states = scan_session(session)
    sources = {
        path: SourceFile(path, root, FileState(*state), session.stem, path != str(session))
        for path, state in states.items()
    }
    known = known_files(index.db, list(sources))
    _ingest_figures(index, _jobs(index.db, sources, known), progress)


def _ingest_figures(
    index: Index, jobs: list[FigureJob], progress: Progress, limits: BatchLimits = USUAL
) -> int:
    """Read figures, and finish the first build if it is unfinished."""
    total = _ingest_jobs(index, jobs, progress, limits) if jobs else 0
    # If a process was killed after reading the last file, only the end of the build is left to do.
    if not is_built(index.db):
        with writing(index.db):
            Writer(index.db).end_first_build()
    return total


def _ingest_jobs(
    index: Index, jobs: list[FigureJob], progress: Progress, limits: BatchLimits
) -> int:
    total = ingest(index, FIGURES, jobs, progress, limits)
    sources = {job.source.name: job.source for job in jobs}
    known = known_files(index.db, list(sources) if len(sources) <= FEW else None)
    # Parts are dropped if another process is faster with the same file. If that process was then
    # killed, the file is still behind: read it again.
    behind = {path: file for path, file in sources.items() if _is_behind(file, known.get(path))}
    # Unreadable files stay behind forever; a second attempt would not help.
    behind = {
        path: file for path, file in behind.items() if file.archived or is_readable(file.path)
    }
    if behind:
        total += ingest(index, FIGURES, _jobs(index.db, behind, known), progress, limits)
    return total


def _ingest_words(
    index: Index, sources: dict[str, SourceFile], progress: Progress, limits: BatchLimits
) -> int:
    """Read words; try again if another process took over a file but did not finish it."""
    total = 0
    # Once a search has asked for vectors, they are made along with words. Those of an endpoint are
    # made when a search needs them: reading files must not wait for a server.
    is_embedded = stored_model(index.db) == STATIC_MODEL
    for _ in range(2):
        files = [file for file in wordless_files(index.db) if file.path in sources]
        jobs = [WordJob(sources[file.path], file, is_embedded) for file in files]
        if not jobs:
            break
        size = sum(job.size for job in jobs)
        if is_worth_sharing(jobs) and MUCH * size >= _bytes_read(index.db):
            defer_merging(index.db)
        total += ingest(index, WORDS, jobs, progress, limits)
    finish_merging(index.db)
    return total


def _bytes_read(db: sqlite3.Connection) -> int:
    return db.execute("SELECT coalesce(sum(words_reached), 0) FROM files").fetchone()[0]


def _jobs(
    db: sqlite3.Connection, sources: dict[str, SourceFile], known: dict[str, KnownFile]
) -> list[FigureJob]:
    """Plan which files are to be read, and from where."""
    pairs = ((source, known.get(path)) for path, source in sources.items())
    return [_job(db, *pair) for pair in pairs if not _is_read(*pair)]


def _is_settled(
    db: sqlite3.Connection,
    state: str | None,
    known: dict[str, KnownFile],
    found: dict[str, SourceFile],
) -> bool:
    """Return whether the archive need not be listed: neither it nor the set of files changed."""
    present = {path for path, row in known.items() if not row.is_gone}
    return state is not None and stored_archive_state(db) == state and found.keys() == present


def _sources(stores: AnyStores, states: FileStates) -> dict[str, SourceFile]:
    # The innermost of nested stores comes first: the file belongs to it.
    roots = [(f"{store.projects}{os.sep}", str(store.root)) for store in each_store(stores)]
    roots.sort(key=lambda root: len(root[0]), reverse=True)
    found: dict[str, SourceFile] = {}
    for path, state in states.by_path.items():
        found[path] = _source(path, state, next(r for r in roots if path.startswith(r[0])))
    return found


def _source(path: str, state: State, root: tuple[str, str]) -> SourceFile:
    """Return the source file at a path, with the session that the path implies.

    A sub-agent's file may be stored among the sessions or in a folder of the project: then only its
    lines name the session.
    """
    # There may be 100,000 files, and creating a Path takes ten times as long as this.
    projects, store = root
    _, owner, *below = path.removeprefix(projects).replace(os.sep, "/").split("/")
    is_session = not below and is_session_name(owner)
    is_owned = is_session or (below and owner != SUBAGENTS)
    return SourceFile(
        path,
        store,
        FileState(*state),
        owner.removesuffix(".jsonl") if is_owned else None,
        not is_session,
    )


def _is_read(source: SourceFile, known: KnownFile | None) -> bool:
    """Return whether a file was read to its end in its present state."""
    return known is not None and known.is_of(source) and known.reached >= source.state.size


def _is_behind(source: SourceFile, known: KnownFile | None) -> bool:
    """Return whether a file has bytes that were not read yet."""
    return known is None or known.reached < source.state.size


def _job(db: sqlite3.Connection, source: SourceFile, known: KnownFile | None) -> FigureJob:
    """Plan how to read a file: from the last offset if it only grew, otherwise from the start."""
    from_start = FigureJob(source, Carry(), is_new=True, known=known)
    if known is None:
        return from_start
    was, now = known.state, source.state
    is_same = was.inode == now.inode and (was.size < now.size or was == now)
    if source.archived:
        is_same = known.reached == now.size
    if not is_same:
        return from_start
    row = db.execute("SELECT carry FROM files WHERE path = ?", (source.name,)).fetchone()
    carry = _decode_carry(row[0]) if row else Carry()
    # Without a newline at the end, the last line was read while the client was writing it, and the
    # rest of it may have followed since.
    is_whole = carry.bookmark.probe[-1:] in (b"\n", b"")
    continued = FigureJob(source, carry, is_new=False, known=known)
    # Inode and size do not reveal a file that was rewritten in place and grew: the bookmark
    # compares the bytes before the offset.
    return continued if is_whole and _holds(source, carry) else from_start


def _holds(source: SourceFile, carry: Carry) -> bool:
    try:
        if source.archived:
            return source.archived.bookmark(carry.bookmark.offset) == carry.bookmark
        return carry.bookmark.holds(source.path)
    except (OSError, Damaged):
        return False
