"""Brings the index up to date from the bytes that changed."""

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
    is_built,
    make_up_for_merging,
    put_merging_off,
    writing,
)
from turnlog.index.ingest.archived_files import archived_sources
from turnlog.index.ingest.change_check import archive_state, keep_fingerprint, kept_state
from turnlog.index.ingest.facts import Carry
from turnlog.index.ingest.figure_writer import KnownFile, SourceFile, Writer, known_files
from turnlog.index.ingest.file_states import FileStates, State, scan_session, scan_store
from turnlog.index.ingest.phases import FIGURES, WORDS, FigureJob, WordJob
from turnlog.index.ingest.text_writer import wordless_files
from turnlog.index.ingest.workers import USUAL, BatchLimits, Progress, is_worth_sharing, take_in
from turnlog.store.archive.archive import Archive
from turnlog.store.paths import SUBAGENTS, Store, is_session_name

FEW = 500
"""Files that are asked for by name."""
MUCH = 10
"""Words are merged once, at the end, if what is new is at least this part of what is there."""

_decode_carry = msgspec.json.Decoder(Carry).decode


class Synced(NamedTuple):
    """What a sync did."""

    read: int
    """Files that were new or had changed."""
    removed: int
    bytes: int


class Scan(NamedTuple):
    """A store and the states its files were just found in."""

    store: Store
    states: FileStates


def sync(
    index: Index,
    store: Store,
    progress: Progress = lambda done, total: None,
    limits: BatchLimits = USUAL,
    archive: Archive | None = None,
    *,
    words: bool = True,
) -> Synced:
    """Bring the index up to date; without `words` only the figures, which reports are made of.

    Files that are gone from the store stay if they are in the archive.
    """
    return sync_scanned(index, Scan(store, scan_store(store)), progress, limits, archive, words)


def sync_scanned(
    index: Index,
    scan: Scan,
    progress: Progress,
    limits: BatchLimits = USUAL,
    archive: Archive | None = None,
    words: bool = True,
) -> Synced:
    """Bring the index up to date with files as they were found."""
    store, states = scan
    known = known_files(index.db)
    root = f"{store.projects}{os.sep}"
    found = {path: _source(path, state, root) for path, state in states.by_path.items()}
    state = archive_state(archive.folder if archive else None)
    is_settled = _is_settled(index.db, state, known, found)
    if archive and not is_settled:
        kept = archived_sources(archive, store, found.values())
        found |= {source.name: source for source in kept}
    jobs = _jobs(index.db, found, known)
    gone = [] if is_settled else [path for path in known if path not in found]
    _remove(index.db, gone)
    total = _take_in(index, jobs, progress, limits)
    if state and not is_settled:
        with writing(index.db):
            index.db.execute("INSERT OR REPLACE INTO about VALUES ('archive', ?)", (state,))
    if words:
        if archive and any(
            file.is_gone and file.path not in found for file in wordless_files(index.db)
        ):
            kept = archived_sources(archive, store, found.values())
            found |= {source.name: source for source in kept}
        total = max(total, _take_in_words(index, found, progress, limits))
    keep_fingerprint(index.db, states)
    return Synced(len(jobs), len(gone), total)


def _remove(db: sqlite3.Connection, gone: list[str]) -> None:
    if gone:
        with writing(db):
            writer = Writer(db)
            for path in gone:
                writer.remove(path)
            writer.settle()


def sync_session(
    index: Index, session: Path, progress: Progress = lambda done, total: None
) -> None:
    """Bring the figures of one session and its sub-agents up to date, and nothing else."""
    states = scan_session(session)
    sources = {
        path: SourceFile(path, FileState(*state), session.stem, path != str(session))
        for path, state in states.items()
    }
    known = known_files(index.db, list(sources))
    _take_in(index, _jobs(index.db, sources, known), progress)


def _take_in(
    index: Index, jobs: list[FigureJob], progress: Progress, limits: BatchLimits = USUAL
) -> int:
    """Read figures; then what was left to another process, if that has ended before it was done."""
    total = _take_in_jobs(index, jobs, progress, limits) if jobs else 0
    # A process that was killed may have read all files, but not have ended the first build.
    if not is_built(index.db):
        with writing(index.db):
            Writer(index.db).end_first_build()
    return total


def _take_in_jobs(
    index: Index, jobs: list[FigureJob], progress: Progress, limits: BatchLimits
) -> int:
    total = take_in(index, FIGURES, jobs, progress, limits)
    sources = {job.source.name: job.source for job in jobs}
    known = known_files(index.db, list(sources) if len(sources) <= FEW else None)
    left = {path: source for path, source in sources.items() if _is_behind(source, known.get(path))}
    # Reading passes over files that cannot be opened, possibly in another process.
    left = {path: each for path, each in left.items() if each.archived or is_readable(each.path)}
    if left:
        total += take_in(index, FIGURES, _jobs(index.db, left, known), progress, limits)
    return total


def _take_in_words(
    index: Index, sources: dict[str, SourceFile], progress: Progress, limits: BatchLimits
) -> int:
    """Read words; a second time what was left to another process that has ended since."""
    total = 0
    for _ in range(2):
        jobs = [WordJob(sources[f.path], f) for f in wordless_files(index.db) if f.path in sources]
        if not jobs:
            break
        size = sum(job.size for job in jobs)
        if is_worth_sharing(jobs) and MUCH * size >= _bytes_read(index.db):
            put_merging_off(index.db)
        total += take_in(index, WORDS, jobs, progress, limits)
    make_up_for_merging(index.db)
    return total


def _bytes_read(db: sqlite3.Connection) -> int:
    return db.execute("SELECT coalesce(sum(words_reached), 0) FROM files").fetchone()[0]


def _jobs(
    db: sqlite3.Connection, sources: dict[str, SourceFile], known: dict[str, KnownFile]
) -> list[FigureJob]:
    """What is to be read of which files."""
    looked_at = ((source, known.get(path)) for path, source in sources.items())
    return [_job(db, *each) for each in looked_at if not _is_read(*each)]


def _is_settled(
    db: sqlite3.Connection,
    state: str | None,
    known: dict[str, KnownFile],
    found: dict[str, SourceFile],
) -> bool:
    """Whether the archive need not be looked at: neither it nor which files there are changed."""
    present = {path for path, row in known.items() if not row.is_gone}
    return state is not None and kept_state(db) == state and found.keys() == present


def _source(path: str, state: State, root: str) -> SourceFile:
    """Tell from its path below `root` whose file it is.

    A sub-agent may lie among the sessions, or in a folder of the project's: then only its lines
    name its session.
    """
    # A Path takes ten times as long to make, and there may be 100,000.
    _, owner, *below = path.removeprefix(root).replace(os.sep, "/").split("/")
    is_session = not below and is_session_name(owner)
    is_owned = is_session or (below and owner != SUBAGENTS)
    return SourceFile(
        path,
        FileState(*state),
        owner.removesuffix(".jsonl") if is_owned else None,
        not is_session,
    )


def _is_read(source: SourceFile, known: KnownFile | None) -> bool:
    """Whether all of a file was read."""
    return known is not None and known.is_of(source) and known.reached >= source.state.size


def _is_behind(source: SourceFile, known: KnownFile | None) -> bool:
    """Whether less of a file was read than there was of it."""
    return known is None or known.reached < source.state.size


def _job(db: sqlite3.Connection, source: SourceFile, known: KnownFile | None) -> FigureJob:
    """What is to be read of a file."""
    anew = FigureJob(source, Carry(), is_new=True, known=known)
    if known is None:
        return anew
    was, now = known.state, source.state
    is_same = was.inode == now.inode and (was.size < now.size or was == now)
    if source.archived:
        is_same = known.reached == now.size
    if not is_same:
        return anew
    kept = db.execute("SELECT carry FROM files WHERE path = ?", (source.name,)).fetchone()
    carry = _decode_carry(kept[0]) if kept else Carry()
    is_whole = carry.bookmark.probe[-1:] in (b"\n", b"")
    goes_on = FigureJob(source, carry, is_new=False, known=known)
    return goes_on if is_whole and _holds(source, carry) else anew


def _holds(source: SourceFile, carry: Carry) -> bool:
    try:
        if source.archived:
            return source.archived.bookmark(carry.bookmark.offset) == carry.bookmark
        return carry.bookmark.holds(source.path)
    except (OSError, Damaged):
        return False
