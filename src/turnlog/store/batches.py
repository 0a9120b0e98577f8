"""Work in batches of about equal size."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def in_batches(items: Iterable[T], size: Callable[[T], int], limit: int) -> list[list[T]]:
    """Items in batches of at least a size, the last one apart.

    The largest come first, so that no process is left with a large one at the end.
    """
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
    """Items as they come, in batches of at least a size, the last one apart."""
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
