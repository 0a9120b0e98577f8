"""Read files into the index: few in this process, many in several that take turns in writing.

A part of a file is written in one transaction with how far the file was read.
"""

import gc
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from turnlog.index.database import Index, connect, writing
from turnlog.store.batches import gathered, in_batches

if TYPE_CHECKING:
    from multiprocessing.synchronize import Lock

WORTH_SHARING = 32 << 20
"""Starting other processes takes longer than reading this many bytes."""
PROCESSES = 3
"""One writes while two read."""
SHARES = 4
"""Batches for each process, at least: none is left alone for long with the last one."""
PER_FILE = 4 << 10
"""What a file costs beside its bytes, expressed in bytes."""


class BatchLimits(NamedTuple):
    """How many bytes are handled at a time."""

    part: int = 8 << 20
    """Read before what they tell is handed on."""
    transaction: int = 24 << 20
    """Of files that one transaction takes in."""


USUAL = BatchLimits()

Progress = Callable[[int, int], None]
"""Told how many bytes of how many are done."""


class Sized(Protocol):
    @property
    def size(self) -> int: ...


class Phase(NamedTuple):
    """How jobs are read, and how what they give is written; functions of a module."""

    read: Callable[[Any, int], Iterator[Sized]]
    """Yields the parts of a job, each of at most so many bytes and a line."""
    write: Callable[[sqlite3.Connection, list[Any]], None]
    """Writes parts within a transaction."""


def take_in(
    index: Index,
    phase: Phase,
    jobs: Iterable[Sized],
    progress: Progress,
    limits: BatchLimits = USUAL,
) -> int:
    """Read files into the index; return how many bytes that were."""
    jobs = list(jobs)
    total = sum(job.size for job in jobs)
    done = 0
    progress(done, total)
    if is_worth_sharing(jobs):
        sizes = _shared(index, phase, jobs, limits)
    else:
        sizes = _written(index.db, phase, jobs, limits)
    for size in sizes:
        done += size
        progress(done, total)
    return total


def is_worth_sharing(jobs: Iterable[Sized]) -> bool:
    """Return whether several processes would be done sooner than one."""
    return sum(map(_weight, jobs)) >= WORTH_SHARING


def _weight(job: Sized) -> int:
    return job.size + PER_FILE


def _written(
    db: sqlite3.Connection, phase: Phase, jobs: Iterable[Sized], limits: BatchLimits
) -> Iterator[int]:
    """Read and write; yields the bytes of each transaction."""
    for parts in _gathered(phase, jobs, limits):
        yield _write(db, phase, parts)


def _shared(index: Index, phase: Phase, jobs: list[Sized], limits: BatchLimits) -> Iterator[int]:
    """Have other processes read and write; yields the bytes of each batch of files."""
    from concurrent.futures import as_completed

    from turnlog.store.parallel import CONTEXT, open_pool

    share = sum(map(_weight, jobs)) // (SHARES * PROCESSES)
    batches = in_batches(jobs, _weight, min(limits.transaction, share))
    with (
        index.let_go(),
        open_pool(PROCESSES, _PoolWorker.start, index.path, CONTEXT.Lock(), phase, limits) as pool,
    ):
        for task in as_completed([pool.submit(_PoolWorker.work, batch) for batch in batches]):
            yield task.result()


class _PoolWorker:
    """What a process of the pool has from one batch to the next."""

    db: ClassVar[sqlite3.Connection]
    turn: ClassVar["Lock"]
    phase: ClassVar[Phase]
    limits: ClassVar[BatchLimits]

    @classmethod
    def start(cls, path: Path, turn: "Lock", phase: Phase, limits: BatchLimits) -> None:
        cls.db, cls.turn, cls.phase, cls.limits = connect(path), turn, phase, limits
        # Facts hold no cycles; looking for some takes a sixth of the time.
        gc.disable()

    @classmethod
    def work(cls, batch: list[Sized]) -> int:
        """Read files, and write what they tell when it is this process's turn."""
        done = 0
        for parts in _gathered(cls.phase, batch, cls.limits):
            with cls.turn:
                done += _write(cls.db, cls.phase, parts)
        return done


def _gathered(phase: Phase, jobs: Iterable[Sized], limits: BatchLimits) -> Iterator[list[Sized]]:
    """What files tell, in as many parts as one transaction takes in."""
    parts = chain.from_iterable(phase.read(job, limits.part) for job in jobs)
    return gathered(parts, _weight, limits.transaction)


def _write(db: sqlite3.Connection, phase: Phase, parts: list[Sized]) -> int:
    """Write parts in one transaction; return how many bytes they are of."""
    with writing(db):
        phase.write(db, parts)
    return sum(part.size for part in parts)
