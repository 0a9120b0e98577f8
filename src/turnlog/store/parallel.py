"""Work on many files shared among processes, in batches of about equal size."""

import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

WORTH_SHARING = 32 << 20
"""Starting a second process takes longer than reading this many bytes."""


def map_files(
    function: Callable[[Sequence[Path]], T], paths: Sequence[Path], processes: int = 2
) -> Iterator[tuple[int, T]]:
    """Yield what `function` makes of each batch of files, with the bytes in that batch."""
    sizes = {path: path.stat().st_size for path in paths}
    batches = _batches(sizes, sum(sizes.values()) // (8 * processes))
    weights = [sum(sizes[path] for path in batch) for batch in batches]
    if processes == 1 or sum(weights) < WORTH_SHARING:
        yield from zip(weights, map(function, batches), strict=True)
        return
    # A fork starts three times as fast, but is safe only where the system's own libraries are.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        tasks = {pool.submit(function, b): w for b, w in zip(batches, weights, strict=True)}
        for task in as_completed(tasks):
            yield tasks[task], task.result()


def _batches(sizes: dict[Path, int], limit: int) -> list[list[Path]]:
    """The largest files first, so that no process is left with a large one at the end."""
    batches: list[list[Path]] = []
    filled = limit
    for path in sorted(sizes, key=lambda path: sizes[path], reverse=True):
        if filled >= limit:
            batches.append([])
            filled = 0
        batches[-1].append(path)
        filled += sizes[path]
    return batches
