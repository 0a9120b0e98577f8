"""Answer the first report of a store from memory, and write the index in the background.

Reading all files takes most of the time of a first report, and writing the rows takes the rest. A
separate process therefore writes them in the background. Until it ends, it holds a lock; other
processes that want to bring the index up to date wait for it. If it is killed, the lock is free and
the next process resumes the build.
"""

import gc
import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from turnlog.index.database import Index, build_lock, connect, is_built
from turnlog.index.ingest.phases import FIGURES, FigureJob
from turnlog.index.ingest.sync import StoreScan, plan_first_build, sync_scanned
from turnlog.index.ingest.tally import FactSpool, StoreTally, TalliedFile, assemble, tally_file
from turnlog.index.ingest.workers import (
    USUAL,
    Progress,
    is_worth_sharing,
    job_weight,
    write_parts,
)
from turnlog.store.archive.archive import Archive
from turnlog.store.batches import gathered, in_batches

MOST_PROCESSES = 8
SHARES = 8
"""Batches per process, so that all finish at about the same time."""
LARGEST_STORE = 4 << 30
"""Maximum size in bytes of a store whose facts are kept in memory."""


def can_detach() -> bool:
    """Return whether a fork can outlive this process safely."""
    # A fork copies the locks that other threads hold, but not the threads that would release them.
    return sys.platform == "linux" and threading.active_count() == 1


def build_in_background(
    index: Index, scan: StoreScan, archive: Archive | None, progress: Progress
) -> sqlite3.Connection | None:
    """Return a database in memory for reports on work, and start a process that writes the index.

    Return None if the build has already begun, or if there is too little or too much to read.
    """
    with build_lock(index.path) as held:
        if is_built(index.db) or index.db.execute("SELECT 1 FROM files LIMIT 1").fetchone():
            return None
        planned = plan_first_build(index.db, scan, archive)
        is_small = sum(job.size for job in planned) <= LARGEST_STORE
        if not (is_small and is_worth_sharing(planned)):
            return None
        spool = FactSpool()
        # No connection may cross the fork: its copy would believe that it holds the same locks.
        with index.disconnected():
            found = {file.path: file for file in _tally(planned, spool, progress)}
            jobs = {job.source.name: job for job in planned}
            # In the order of the plan, so that sums of costs are the same in every run.
            files = [found[path] for path in jobs if path in found]
            tally = StoreTally(files, jobs, spool)
            kept = {held, spool.descriptor}
            _detach(lambda: write_tallied(index.path, tally, scan, archive), kept)
    database = assemble(tally)
    spool.close()
    return database


def _tally(jobs: list[FigureJob], spool: FactSpool, progress: Progress) -> Iterator[TalliedFile]:
    """Read files in a pool of processes."""
    from concurrent.futures import as_completed

    from turnlog.store.parallel import open_pool

    processes = min(MOST_PROCESSES, os.cpu_count() or 1)
    total, done = sum(job.size for job in jobs), 0
    progress(done, total)
    share = sum(map(job_weight, jobs)) // (SHARES * processes)
    with open_pool(processes, _TallyWorker.start, spool) as pool:
        batches = in_batches(jobs, job_weight, share)
        tasks = {pool.submit(_TallyWorker.tally, batch): batch for batch in batches}
        for task in as_completed(tasks):
            yield from task.result()
            done += sum(job.size for job in tasks[task])
            progress(done, total)


class _TallyWorker:
    """State of a process that reads files."""

    spool: ClassVar[FactSpool]

    @classmethod
    def start(cls, spool: FactSpool) -> None:
        cls.spool = spool
        gc.disable()

    @classmethod
    def tally(cls, jobs: list[FigureJob]) -> list[TalliedFile]:
        return [file for job in jobs if (file := tally_file(job, cls.spool))]


def write_tallied(path: Path, tally: StoreTally, scan: StoreScan, archive: Archive | None) -> None:
    """Write tallied files into an index, in their order, and finish its first build."""
    index = Index(path, connect(path), None)
    parts = (file.part(tally.jobs[file.path], tally.spool) for file in tally.files)
    for batch in gathered(parts, job_weight, USUAL.transaction):
        write_parts(index.db, FIGURES, batch)
    # Finds nothing to read, unless a file was rewritten meanwhile.
    sync_scanned(index, scan, lambda done, total: None, archive=archive, words=False)
    index.close()


def _detach(work: Callable[[], None], kept: Collection[int]) -> None:
    """Run `work` in a process that outlives this one, with only the `kept` files open."""
    with suppress(OSError):  # the process limit is reached: the next command builds the index
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            return
        try:
            # The parent waits for the first fork only, and the second has no terminal: neither
            # Ctrl-C nor a closed window ends it.
            os.setsid()
            if os.fork() == 0:
                _close_files(kept)
                gc.disable()  # facts have no reference cycles
                work()
        finally:
            os._exit(0)  # without the parent's exit handlers, which would flush its buffers again


def _close_files(kept: Collection[int]) -> None:
    """Close other inherited files: readers of this program's output wait until they are closed."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    # Not os.closerange: the limit of open files may be a billion.
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2 and descriptor not in kept:
            with suppress(OSError):  # the one that listed the folder is closed already
                os.close(descriptor)
