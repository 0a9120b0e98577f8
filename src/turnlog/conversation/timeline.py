"""Entries sorted by time, to find a replacement for a missing parent."""

from bisect import bisect
from collections.abc import Callable, Container, Sequence
from datetime import datetime, timedelta
from functools import cached_property

from turnlog.conversation.nodes import ChainNode
from turnlog.format.timestamps import parse_timestamp

NEAR = timedelta(seconds=5)
"""How much older a replacement for a missing parent may be (observed: 2.1.150, 2.1.325)."""
MILLISECOND = 1000
"""A millisecond in microseconds: the precision with which clients compare times."""


class Timeline:
    """The entries of a conversation sorted by time; sorted on first use."""

    def __init__(self, chain: Sequence[ChainNode], is_candidate: Callable[[ChainNode], bool]):
        self._chain = chain
        self._is_candidate = is_candidate

    @cached_property
    def _entries(self) -> list[tuple[datetime, int]]:
        is_agent = all(node.is_sidechain for node in self._chain)
        return sorted(
            (moment, -rank)
            for rank, node in enumerate(self._chain)
            if self._is_candidate(node) and (is_agent or not node.is_sidechain)
            if (moment := moment_of(node))
        )

    def latest_before(self, rank: int, seen: Container[int], skips: dict[int, int]) -> int:
        """Return the latest entry at most five seconds older than a node, or -1.

        Among entries with the same time, the first in the file wins. Entries in `seen` are skipped;
        `skips` caches runs of them, which requires that `seen` only grows between calls.
        """
        moment = moment_of(self._chain[rank])
        if moment is None:
            return -1
        position = bisect(self._entries, (moment, 1)) - 1
        # Without `skips`, a file whose parents are all missing would scan the whole run of seen
        # entries for each node, which is quadratic.
        passed: list[int] = []
        while position >= 0 and -self._entries[position][1] in seen:
            passed.append(position)
            position = skips.get(position, position - 1)
        skips.update(dict.fromkeys(passed, position))
        if position < 0 or moment - self._entries[position][0] > NEAR:
            return -1
        return -self._entries[position][1]


def moment_of(node: ChainNode) -> datetime | None:
    """Return the time of an entry, truncated to milliseconds."""
    moment = parse_timestamp(node.time)
    return moment and moment.replace(microsecond=moment.microsecond // MILLISECOND * MILLISECOND)
