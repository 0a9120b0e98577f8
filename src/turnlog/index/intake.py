"""Files read into the index: a few by this process, many by several that take turns in writing.

What a part of a file tells is written in one transaction with how far the file was read.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from turnlog.errors import Damaged
from turnlog.format.jsonl import Line, read_lines
from turnlog.index.database import (
    Index,
    connect,
    make_up_for_merging,
    put_merging_off,
    writing,
)
from turnlog.index.facts import Carry, Facts, read_facts
from turnlog.index.write import Known, Source, Writer
from turnlog.store.batches import gathered, in_batches
from turnlog.store.catalog import describe, locate_session

if TYPE_CHECKING:
    from multiprocessing.synchronize import Lock

WORTH_SHARING = 32 << 20
"""Starting other processes takes longer than reading this many bytes."""
MUCH = 10
"""Words are merged once, at the end, if what is new is at least this part of what is there."""
PROCESSES = 3
"""One writes while two read."""


class Limits(NamedTuple):
    """How many bytes are handled at a time."""

    part: int = 8 << 20
    """Read before what they tell is handed on."""
    transaction: int = 24 << 20
    """Of files that one transaction takes in."""


USUAL = Limits()

Progress = Callable[[int, int], None]
"""Told how many bytes of how many are done."""


class Job(NamedTuple):
    """A file to be read, from where reading stopped."""

    source: Source
    carry: Carry
    is_new: bool
    """Whether what the index has of the file is to be thrown away."""
    known: Known | None
    """What that was when the file was looked at."""

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

    @property
    def size(self) -> int:
        return self.facts.carry.bookmark.offset - self.start


def take_in(index: Index, jobs: list[Job], progress: Progress, limits: Limits = USUAL) -> int:
    """Read files into the index; tell how many bytes that were."""
    total = sum(job.size for job in jobs)
    done = 0
    progress(done, total)
    is_shared = total >= WORTH_SHARING
    if is_shared and MUCH * total >= _bytes_read(index.db):
        put_merging_off(index.db)
    for size in _shared(index, jobs, limits) if is_shared else _written(index.db, jobs, limits):
        done += size
        progress(done, total)
    if jobs:
        make_up_for_merging(index.db)
    return total


def _bytes_read(db: sqlite3.Connection) -> int:
    return db.execute("SELECT coalesce(sum(reached), 0) FROM files").fetchone()[0]


def _written(db: sqlite3.Connection, jobs: Iterable[Job], limits: Limits) -> Iterator[int]:
    """Read and write; yields the bytes of each transaction."""
    for parts in _gathered(jobs, limits):
        yield _write(db, parts)


def _shared(index: Index, jobs: list[Job], limits: Limits) -> Iterator[int]:
    """Have other processes read and write; yields the bytes of each batch of files."""
    from concurrent.futures import as_completed

    from turnlog.store.parallel import CONTEXT, open_pool

    batches = in_batches(jobs, lambda job: job.size, limits.transaction)
    with (
        index.let_go(),
        open_pool(PROCESSES, _Worker.start, index.path, CONTEXT.Lock(), limits) as pool,
    ):
        for task in as_completed([pool.submit(_Worker.work, batch) for batch in batches]):
            yield task.result()


class _Worker:
    """What a process of the pool has from one batch to the next."""

    db: ClassVar[sqlite3.Connection]
    turn: ClassVar["Lock"]
    limits: ClassVar[Limits]

    @classmethod
    def start(cls, path: Path, turn: "Lock", limits: Limits) -> None:
        cls.db, cls.turn, cls.limits = connect(path), turn, limits

    @classmethod
    def work(cls, batch: list[Job]) -> int:
        """Read files, and write what they tell when it is this process's turn."""
        done = 0
        for parts in _gathered(batch, cls.limits):
            with cls.turn:
                done += _write(cls.db, parts)
        return done


def _gathered(jobs: Iterable[Job], limits: Limits) -> Iterator[list[Part]]:
    """What files tell, in as many parts as one transaction takes in."""
    parts = chain.from_iterable(_parts(job, limits.part) for job in jobs)
    return gathered(parts, lambda part: part.size, limits.transaction)


def _parts(job: Job, limit: int) -> Iterator[Part]:
    waiting: Job | None = job
    while waiting and (part := _read(waiting, limit)):
        yield part
        rest = part.job._replace(carry=part.facts.carry, is_new=False)
        waiting = None if part.facts.is_last else rest


def _read(job: Job, limit: int) -> Part | None:
    """Read a part of a file; None if it is gone by now."""
    source, start = job.source, job.carry.bookmark.offset
    try:
        lines = _lines(source, start)
        facts = read_facts(source.path.stem, lines, job.carry, source.owner, limit)
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


def _write(db: sqlite3.Connection, parts: list[Part]) -> int:
    """Write parts in one transaction; tell how many bytes they are of."""
    with writing(db):
        writer = Writer(db)
        for part in parts:
            _write_part(writer, part)
        writer.settle()
    return sum(part.size for part in parts)


def _write_part(writer: Writer, part: Part) -> None:
    """Write a part, unless another process was faster."""
    job, path = part.job, part.job.source.name
    known = writer.known(path)
    if job.is_new:
        if known and known != job.known and known.is_of(job.source):
            return
        writer.remove(path)
    elif known is None or known.reached != part.start:
        return
    writer.add(job.source, part.facts, part.title)
