"""Process many files in parallel, in batches of about equal size."""

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from turnlog.store.batches import in_batches

T = TypeVar("T")

WORTH_SHARING = 32 << 20
"""Total bytes below which starting a second process takes longer than reading the files."""
SHARES = 32
"""Batches per process: enough that no process works alone on the last batch for long."""


def map_files(
    function: Callable[[Sequence[Path]], T], paths: Sequence[Path], processes: int = 2
) -> Iterator[tuple[int, T]]:
    """Yield the result of `function` for each batch of files, with the batch's size in bytes."""
    sizes = {path: path.stat().st_size for path in paths}
    batches = in_batches(
        paths, lambda path: sizes[path], sum(sizes.values()) // (SHARES * processes)
    )
    weights = [sum(sizes[path] for path in batch) for batch in batches]
    # If there is little to do, stay in this process. The results are the same, but come in another
    # order.
    if processes == 1 or sum(weights) < WORTH_SHARING:
        yield from zip(weights, map(function, batches), strict=True)
        return
    with open_pool(processes) as pool:
        tasks = {pool.submit(function, b): w for b, w in zip(batches, weights, strict=True)}
        for task in as_completed(tasks):
            yield tasks[task], task.result()


# Forking is three times as fast as spawning, but unsafe with macOS system libraries.
CONTEXT = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")

if CONTEXT.get_start_method() == "spawn":
    # Spawned processes run `python -c`, which imports modules from the current directory first:
    # in a stranger's repository, a file `multiprocessing.py` would run.
    os.environ["PYTHONSAFEPATH"] = "1"


def open_pool(
    processes: int, prepare: Callable[..., None] | None = None, *arguments: Any
) -> ProcessPoolExecutor:
    """Return a pool of processes that call `prepare` first and exit when this process does."""
    return ProcessPoolExecutor(processes, CONTEXT, _prepare, (prepare, arguments))


def _prepare(prepare: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    if prepare:
        prepare(*arguments)


def _end_with_parent() -> None:
    """Exit when the parent process does; a killed parent cannot stop its pool."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
