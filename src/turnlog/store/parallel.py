"""Work on many files shared among processes, in batches of about equal size."""

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
"""Starting a second process takes longer than reading this many bytes."""
SHARES = 32
"""Batches for each process: none is left alone for long with the last one."""


def map_files(
    function: Callable[[Sequence[Path]], T], paths: Sequence[Path], processes: int = 2
) -> Iterator[tuple[int, T]]:
    """Yield what `function` makes of each batch of files, with the bytes in that batch."""
    sizes = {path: path.stat().st_size for path in paths}
    batches = in_batches(
        paths, lambda path: sizes[path], sum(sizes.values()) // (SHARES * processes)
    )
    weights = [sum(sizes[path] for path in batch) for batch in batches]
    if processes == 1 or sum(weights) < WORTH_SHARING:
        yield from zip(weights, map(function, batches), strict=True)
        return
    with open_pool(processes) as pool:
        tasks = {pool.submit(function, b): w for b, w in zip(batches, weights, strict=True)}
        for task in as_completed(tasks):
            yield tasks[task], task.result()


# A fork starts three times as fast, but is safe only where the system's own libraries are.
CONTEXT = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


def open_pool(
    processes: int, prepare: Callable[..., None] | None = None, *arguments: Any
) -> ProcessPoolExecutor:
    """Processes to share work among, each prepared for it; they end when this one does."""
    return ProcessPoolExecutor(processes, CONTEXT, _prepare, (prepare, arguments))


def _prepare(prepare: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    if prepare:
        prepare(*arguments)


def _end_with_parent() -> None:
    """Wait for a parent that was killed: it cannot tell its pool to stop."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
