"""Ingest files in this process or, if there is much to read, in a pool of processes.

A part of a file and the offset reached in that file are written in one transaction.
"""

import gc
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from turnlog.index.database import Index, connect, writing
from turnlog.store.batches import gathered, in_batches

if TYPE_CHECKING:
    from multiprocessing.synchronize import Lock

WORTH_SHARING = 32 << 20
"""Minimum number of bytes for which starting a pool of processes pays off."""
PROCESSES = 3
"""One process writes while two read."""
SHARES = 4
"""Minimum number of batches per process, so that all finish at about the same time."""
PER_FILE = 4 << 10
"""Overhead of a file, expressed in bytes."""


class BatchLimits(NamedTuple):
    """Limits on the bytes processed at a time."""

    part: int = 8 << 20
    """Bytes read before the facts are handed on."""
    transaction: int = 24 << 20
    """Bytes ingested in one transaction."""


USUAL = BatchLimits()

Progress = Callable[[int, int], None]
"""Called with the bytes done and the total."""


class Sized(Protocol):
    @property
    def size(self) -> int: ...


class Phase(NamedTuple):
    """The functions that read jobs and write parts; module-level, so that they can be pickled."""

    read: Callable[[Any, int], Iterator[Sized]]
    """Yields the parts of a job, each at most `limit` bytes plus one line."""
    write: Callable[[sqlite3.Connection, Sequence[Any]], None]
    """Writes parts within the caller's transaction."""


def ingest(
    index: Index,
    phase: Phase,
    jobs: Iterable[Sized],
    progress: Progress,
    limits: BatchLimits = USUAL,
) -> int:
    """Read files into the index; return the number of bytes."""
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
    """Return whether a pool of processes would finish sooner than one process."""
    return sum(map(job_weight, jobs)) >= WORTH_SHARING


def job_weight(job: Sized) -> int:
    """Return the size of a job with the overhead of its file."""
    return job.size + PER_FILE


def _written(
    db: sqlite3.Connection, phase: Phase, jobs: Iterable[Sized], limits: BatchLimits
) -> Iterator[int]:
    """Read and write in this process; yield the bytes of each transaction."""
    for parts in _gathered(phase, jobs, limits):
        yield write_parts(db, phase, parts)


def _shared(index: Index, phase: Phase, jobs: list[Sized], limits: BatchLimits) -> Iterator[int]:
    """Read and write in a pool of processes; yield the bytes of each batch."""
    from concurrent.futures import as_completed

    from turnlog.store.parallel import CONTEXT, open_pool

    share = sum(map(job_weight, jobs)) // (SHARES * PROCESSES)
    batches = in_batches(jobs, job_weight, min(limits.transaction, share))
    with (
        index.disconnected(),
        open_pool(PROCESSES, _PoolWorker.start, index.path, CONTEXT.Lock(), phase, limits) as pool,
    ):
        for task in as_completed([pool.submit(_PoolWorker.work, batch) for batch in batches]):
            yield task.result()


class _PoolWorker:
    """State of a worker process that lasts from batch to batch."""

    db: ClassVar[sqlite3.Connection]
    turn: ClassVar["Lock"]
    phase: ClassVar[Phase]
    limits: ClassVar[BatchLimits]

    @classmethod
    def start(cls, path: Path, turn: "Lock", phase: Phase, limits: BatchLimits) -> None:
        cls.db, cls.turn, cls.phase, cls.limits = connect(path), turn, phase, limits
        # Facts contain no reference cycles, and the collector would take a sixth of the time.
        gc.disable()

    @classmethod
    def work(cls, batch: list[Sized]) -> int:
        """Read files in parallel with other workers; write them while holding the lock."""
        done = 0
        for parts in _gathered(cls.phase, batch, cls.limits):
            # SQLite allows one writer. A worker waiting for this lock wakes up at once, whereas
            # SQLite would poll with growing delays until its timeout.
            with cls.turn:
                done += write_parts(cls.db, cls.phase, parts)
        return done


def _gathered(phase: Phase, jobs: Iterable[Sized], limits: BatchLimits) -> Iterator[list[Sized]]:
    """Yield the parts of files, grouped into transactions."""
    parts = chain.from_iterable(phase.read(job, limits.part) for job in jobs)
    return gathered(parts, job_weight, limits.transaction)


def write_parts(db: sqlite3.Connection, phase: Phase, parts: Sequence[Sized]) -> int:
    """Write parts in one transaction; return the number of bytes."""
    with writing(db):
        phase.write(db, parts)
    return sum(part.size for part in parts)
