"""Brings the index up to date from the bytes that changed."""

import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from turnlog.errors import Damaged
from turnlog.format.jsonl import FileState, Line, read_lines
from turnlog.index.archived import archived_sources
from turnlog.index.changes import Found, archive_state, files_in, files_of, kept_state
from turnlog.index.database import Index
from turnlog.index.facts import Carry, Facts, read_facts
from turnlog.index.write import Source, Writer
from turnlog.store.archive import Archive
from turnlog.store.catalog import describe, locate_session
from turnlog.store.paths import Store

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

WORTH_SHARING = 32 << 20
"""Starting other processes takes longer than reading this many bytes."""
AT_ONCE = 48 << 20
"""Bytes of files that one transaction takes in."""

_decode_carry = msgspec.json.Decoder(Carry).decode


class Job(NamedTuple):
    """A file to be read, from where reading stopped."""

    source: Source
    carry: Carry
    is_new: bool
    """Whether what the index has of the file is to be thrown away."""

    @property
    def size(self) -> int:
        return max(0, self.source.state.size - self.carry.bookmark.offset)


class Part(NamedTuple):
    """What reading a part of a file gave."""

    job: Job
    start: int
    """Where it starts, in bytes."""
    facts: Facts
    title: str | None


class Synced(NamedTuple):
    """What a sync did."""

    read: int
    """Files that were new or had changed."""
    removed: int
    bytes: int


Progress = Callable[[int, int], None]
"""Told how many bytes of how many are done."""


def sync(
    index: Index,
    store: Store,
    progress: Progress = lambda done, total: None,
    at_once: int = AT_ONCE,
    archive: Archive | None = None,
) -> Synced:
    """Bring the index up to date. When nothing has changed, it only looks at the files' states.

    Of files that are gone from the store, those in the archive stay.
    """
    known = _known(index.db)
    found = {str(source.path): source for source in _sources(store)}
    state = archive_state(archive.folder if archive else None)
    is_settled = _is_settled(index.db, state, known, found)
    if archive and not is_settled:
        kept = archived_sources(archive, store, found.values())
        found |= {str(source.path): source for source in kept}
    looked_at = ((source, known.get(path)) for path, source in found.items())
    jobs = [_job(index.db, *each) for each in looked_at if not _is_read(*each)]
    gone = [] if is_settled else [path for path in known if path not in found]
    if gone:
        with index.writing() as db:
            writer = Writer(db)
            for path in gone:
                writer.remove(path)
            writer.settle()
    total = _take_in(index, jobs, progress, at_once)
    if state and not is_settled:
        with index.writing() as db:
            db.execute("INSERT OR REPLACE INTO about VALUES ('archive', ?)", (state,))
    return Synced(len(jobs), len(gone), total)


def sync_session(
    index: Index, session: Path, progress: Progress = lambda done, total: None
) -> None:
    """Bring up to date what the index has of one session and its sub-agents, and nothing else."""
    sources = {str(source.path): source for source in map(_source, files_of(session))}
    marks = ", ".join("?" * len(sources))
    known = _known(index.db, f"WHERE path IN ({marks})", list(sources))
    looked_at = ((source, known.get(path)) for path, source in sources.items())
    jobs = [_job(index.db, *each) for each in looked_at if not _is_read(*each)]
    _take_in(index, jobs, progress)


def _take_in(
    index: Index,
    jobs: list[Job],
    progress: Progress = lambda done, total: None,
    at_once: int = AT_ONCE,
) -> int:
    """Read files into the index; tell how many bytes that were."""
    total = sum(job.size for job in jobs)
    done = 0
    progress(done, total)
    for parts in _gathered(_read_all(jobs, total), at_once):
        with index.writing() as db:
            writer = Writer(db)
            for part in parts:
                _write(writer, db, part)
            writer.settle()
        done += sum(_length(part) for part in parts)
        progress(done, total)
    return total


class _Row(NamedTuple):
    """What the index knows of a file."""

    state: FileState
    reached: int
    is_gone: bool


def _known(db: sqlite3.Connection, where: str = "", paths: Sequence[str] = ()) -> dict[str, _Row]:
    asked = f"SELECT path, inode, size, mtime_ns, reached, is_gone FROM files {where}"
    rows = db.execute(asked, paths)
    return {path: _Row(FileState(*state), reached, gone) for path, *state, reached, gone in rows}


def _is_settled(
    db: sqlite3.Connection, state: str | None, known: dict[str, _Row], found: dict[str, Source]
) -> bool:
    """Whether the archive need not be looked at: neither it nor which files there are changed."""
    present = {path for path, row in known.items() if not row.is_gone}
    return state is not None and kept_state(db) == state and found.keys() == present


def _sources(store: Store) -> Iterator[Source]:
    return map(_source, files_in(store))


def _source(file: Found) -> Source:
    path, found, owner, is_subagent = file
    state = FileState(found.st_ino, found.st_size, found.st_mtime_ns)
    return Source(Path(path), state, owner, is_subagent)


def _is_read(source: Source, known: _Row | None) -> bool:
    """Whether all of a file was read."""
    if known is None or known.state != source.state:
        return False
    return known.reached >= source.state.size and known.is_gone == (source.archived is not None)


def _job(db: sqlite3.Connection, source: Source, known: _Row | None) -> Job:
    """What is to be read of a file."""
    anew = Job(source, Carry(), is_new=True)
    if known is None:
        return anew
    was, now = known.state, source.state
    is_same = was.inode == now.inode and (was.size < now.size or was == now)
    if source.archived:
        is_same = known.reached == now.size
    if not is_same:
        return anew
    kept = db.execute("SELECT carry FROM files WHERE path = ?", (str(source.path),)).fetchone()
    carry = _decode_carry(kept[0]) if kept else Carry()
    is_whole = carry.bookmark.probe[-1:] in (b"\n", b"")
    return Job(source, carry, is_new=False) if is_whole and _holds(source, carry) else anew


def _holds(source: Source, carry: Carry) -> bool:
    try:
        if source.archived:
            return source.archived.bookmark(carry.bookmark.offset) == carry.bookmark
        return carry.bookmark.holds(source.path)
    except (OSError, Damaged):
        return False


def _read_all(jobs: Iterable[Job], total: int) -> Iterator[Part]:
    if total < WORTH_SHARING:
        for job in jobs:
            yield from _read_whole(job)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # A fork starts three times as fast, but is safe only where the system's own libraries are.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        yield from _read_shared(pool, sorted(jobs, key=lambda job: job.size))


def _read_shared(pool: "ProcessPoolExecutor", jobs: list[Job]) -> Iterator[Part]:
    """Read in other processes, the largest first, a few parts ahead of what is written."""
    from concurrent.futures import wait

    running: set[Future[Part | None]] = set()
    while jobs or running:
        while jobs and len(running) < 6:
            running.add(pool.submit(read_part, jobs.pop()))
        finished, running = wait(running, return_when="FIRST_COMPLETED")
        for task in finished:
            if part := task.result():
                yield part
                if not part.facts.is_last:
                    jobs.append(_rest(part))


def _read_whole(job: Job) -> Iterator[Part]:
    waiting: Job | None = job
    while waiting and (part := read_part(waiting)):
        yield part
        waiting = None if part.facts.is_last else _rest(part)


def _rest(part: Part) -> Job:
    return part.job._replace(carry=part.facts.carry, is_new=False)


def read_part(job: Job) -> Part | None:
    """Read a part of a file; None if it is gone by now."""
    source, start = job.source, job.carry.bookmark.offset
    try:
        lines = _lines(source, start)
        facts = read_facts(source.path.stem, lines, job.carry, source.owner)
        title = _title(source) if facts.is_last else None
    except (OSError, Damaged):
        return None
    return Part(job._replace(carry=Carry()), start, facts, title)


def _lines(source: Source, start: int) -> Iterator[Line]:
    return source.archived.lines(start) if source.archived else read_lines(source.path, start)


def _title(source: Source) -> str | None:
    if source.is_subagent:
        return None
    archived = source.archived
    return archived.title if archived else describe(locate_session(source.path)).title


def _gathered(parts: Iterable[Part], at_once: int) -> Iterator[list[Part]]:
    """Parts in as many as one transaction takes in."""
    held: list[Part] = []
    for part in parts:
        held.append(part)
        if sum(map(_length, held)) >= at_once:
            yield held
            held = []
    if held:
        yield held


def _length(part: Part) -> int:
    return part.facts.carry.bookmark.offset - part.start


def _write(writer: Writer, db: sqlite3.Connection, part: Part) -> None:
    """Write a part, unless another process was faster or the file is to be read anew."""
    source = part.job.source
    row = db.execute("SELECT reached FROM files WHERE path = ?", (str(source.path),)).fetchone()
    if part.job.is_new:
        writer.remove(str(source.path))
    elif (row[0] if row else 0) != part.start:
        return
    writer.add(source, part.facts, part.title)
