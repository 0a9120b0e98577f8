"""Entries by time: which one stands in for a parent that is missing."""

from bisect import bisect
from collections.abc import Callable, Container, Sequence
from datetime import datetime, timedelta
from functools import cached_property

from turnlog.conversation.nodes import ChainNode
from turnlog.format.timestamps import parse_timestamp

NEAR = timedelta(seconds=5)
"""How much older an entry may be to stand in for a missing parent (observed: 2.1.150, 2.1.325)."""
MILLISECOND = 1000
"""In microseconds: what clients compare no finer than."""


class Timeline:
    """The entries of a conversation in the order of their times; sorted when it is first asked."""

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

        Of several with the same time it is the first in the file. `seen` entries do not count;
        while they only become more, `skips` saves looking at them again.
        """
        moment = moment_of(self._chain[rank])
        if moment is None:
            return -1
        place = bisect(self._entries, (moment, 1)) - 1
        passed: list[int] = []
        while place >= 0 and -self._entries[place][1] in seen:
            passed.append(place)
            place = skips.get(place, place - 1)
        skips.update(dict.fromkeys(passed, place))
        if place < 0 or moment - self._entries[place][0] > NEAR:
            return -1
        return -self._entries[place][1]


def moment_of(node: ChainNode) -> datetime | None:
    """The time of an entry, in whole milliseconds."""
    moment = parse_timestamp(node.time)
    return moment and moment.replace(microsecond=moment.microsecond // MILLISECOND * MILLISECOND)
