"""Split work into batches of about equal size; does not import multiprocessing, which is slow."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def in_batches(items: Iterable[T], size: Callable[[T], int], limit: int) -> list[list[T]]:
    """Return items in batches of at least `limit`, largest items first.

    Starting with the largest, no process is left with a large item at the end.
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
    """Yield items in their order, in batches of at least `limit`, except the last."""
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
