"""Split work into batches of about equal size; does not import multiprocessing, which is slow."""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def in_batches(items: Iterable[T], size: Callable[[T], int], limit: int) -> list[list[T]]:
    """Return items in batches with a total size of at least `limit`, largest items first.

    With the largest first, no process is still busy with a large item when the others are done.
    """
    # Starts as if the batch before the first one were full, so that no empty batch is returned.
    batches: list[list[T]] = []
    filled = limit
    for item in sorted(items, key=size, reverse=True):
        if filled >= limit:
            batches.append([])
            filled = 0
        batches[-1].append(item)
        filled += size(item)
    return batches


def gathered(items: Iterable[T], size: Callable[[T], int], limit: int) -> Iterator[list[T]]:
    """Yield batches of consecutive items, each but the last with a total size of at least `limit`.

    >>> list(gathered([3, 9, 2, 4, 1], int, 6))
    [[3, 9], [2, 4], [1]]
    """
    batch: list[T] = []
    filled = 0
    for item in items:
        batch.append(item)
        filled += size(item)
        if filled >= limit:
            yield batch
            batch, filled = [], 0
    if batch:
        yield batch


def bounded(
    items: Iterable[T], size: Callable[[T], int], limit: int, count: int = sys.maxsize
) -> Iterator[list[T]]:
    """Yield batches of at most `count` consecutive items with a total size of at most `limit`.

    An item larger than the limit is a batch of its own.

    >>> list(bounded([3, 9, 2, 4], int, 6, 5)), list(bounded([1, 1, 1], int, 6, 2))
    ([[3], [9], [2, 4]], [[1, 1], [1]])
    """
    batch: list[T] = []
    filled = 0
    for item in items:
        # Computed once: a caller's `size` may have to walk the whole item.
        weight = size(item)
        if batch and (filled + weight > limit or len(batch) >= count):
            yield batch
            batch, filled = [], 0
        batch.append(item)
        filled += weight
    if batch:
        yield batch
