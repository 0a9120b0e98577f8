"""The context of a request as a stack of items, over which the request's cost is spread.

A request costs O(log n) for n items: the cost per token is constant between the borders of its
zones, so it is added to a difference array, which is summed up when items leave the stack.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from turnlog.conversation.carried_items import CarriedItem
from turnlog.conversation.request_costs import Zone

SMALLEST_SCALE, LARGEST_SCALE = 0.25, 4.0
"""Limits of the factor between estimated and recorded tokens.

A factor beyond them means that something else was sent as well: hex digits take twice as many
tokens as estimated, not ten times as many.
"""


class _Mark(NamedTuple):
    """A request on the path."""

    length: int
    """Items that it carried."""
    prompt: int
    """Tokens of its prompt."""
    system: float
    """Tokens before the first item, as measured at the first request on the path."""


class CarriedPath:
    """The items of one branch, from its start or last compaction to the current entry."""

    def __init__(self) -> None:
        self._items: list[CarriedItem] = []
        self._ends: list[float] = []
        """The end of each item, in tokens from the start of the first one."""
        # Entry k of the next two lists applies to items 0 to k.
        self._prices: list[float] = []
        self._sent: list[int] = []
        self._scaled = 0
        """Items at the start of the stack whose tokens are final."""
        self._marks: list[_Mark] = []

    @property
    def state(self) -> tuple[int, int]:
        """The state to return to with `restore`."""
        return len(self._items), len(self._marks)

    def restore(self, state: tuple[int, int]) -> None:
        """Remove the items and requests that were added since a state, and sum up their costs."""
        length, marks = state
        while len(self._items) > length:
            item, end = self._items.pop(), self._ends.pop()
            price, sent = self._prices.pop(), self._sent.pop()
            item.is_on_path = False
            item.sent += sent
            if self._items:
                item.carried += price * (end - self._ends[-1])
                self._prices[-1] += price
                self._sent[-1] += sent
            else:
                item.carried += price * end
        self._scaled = min(self._scaled, length)
        del self._marks[marks:]

    def push(self, item: CarriedItem) -> None:
        """Add an item, unless the path contains it already."""
        if not item.is_on_path:
            item.is_on_path = True
            self._items.append(item)
            self._ends.append(self._total + item.tokens)
            self._prices.append(0.0)
            self._sent.append(0)

    def measure(self, prompt: int) -> CarriedItem | None:
        """Scale the items added since the last request to the growth of the prompt since then.

        Return an item for growth that they do not explain, such as reminders, if there is any.
        """
        # A request of 50,000 tokens after one of 40,000: what was added in between took 10,000. The
        # first request also contains the system prompt, so nothing can be concluded from it.
        before = self._marks[-1] if self._marks else None
        start = self._scaled
        scale = 1.0
        if before:
            grown = prompt - before.prompt - (self._end(start) - self._end(before.length))
            estimate = self._total - self._end(start)
            scale = grown / estimate if estimate else 1.0
            # A shrunk prompt says nothing about new items: something older was left out.
            scale = min(max(scale, SMALLEST_SCALE), LARGEST_SCALE) if grown > 0 else 1.0
        for place in range(start, len(self._items)):
            item = self._items[place]
            if not item.is_scaled:
                item.tokens *= scale
                item.is_scaled = True
            self._ends[place] = self._end(place) + item.tokens
        self._scaled = len(self._items)
        system = before.system if before else max(0.0, prompt - self._total)
        filler = self._fill(prompt - system - self._total)
        self._marks.append(_Mark(len(self._items), prompt, system))
        return filler

    def _fill(self, tokens: float) -> CarriedItem | None:
        # Without a filler, later items would be placed too far forward, in the wrong cache zone.
        if tokens <= 0:
            return None
        filler = CarriedItem("system", 0, tokens=tokens, is_scaled=True)
        self.push(filler)
        self._scaled = len(self._items)
        return filler

    def spread(self, zones: Sequence[Zone], system: CarriedItem) -> None:
        """Spread the cost of a prompt over the items; charge the remainder to the system prompt.

        The prompt consists of the system prompt and tool definitions, then the items. If it is
        shorter than the estimate, the items are shrunk to fit.
        """
        prompt = sum(zone.tokens for zone in zones)
        total = self._total
        before = max(prompt - total, min(self._marks[-1].system if self._marks else 0.0, prompt))
        shrink = (prompt - before) / total if total else 0.0
        system.sent += 1
        if self._sent:
            self._sent[-1] += 1
        start = 0
        for tokens, cost in zones:
            end = start + tokens
            outside = min(end, before) - start if start < before else 0.0
            if not shrink:
                outside = tokens
            system.carried += cost * outside / tokens
            if outside < tokens:
                price = cost / tokens * shrink
                self._add((max(start, before) - before) / shrink, (end - before) / shrink, price)
            start = end

    def _add(self, start: float, end: float, price: float) -> None:
        """Add a price per token to the tokens from `start` to `end`."""
        last = len(self._items) - 1
        first = min(bisect_right(self._ends, start), last)
        final = min(bisect_left(self._ends, end), last)
        if first >= final:
            self._items[final].carried += price * (end - start)
            return
        # The borders cut two items; the items between them get the price for all their tokens.
        self._items[first].carried += price * (self._ends[first] - start)
        self._items[final].carried += price * (end - self._ends[final - 1])
        self._prices[final - 1] += price
        self._prices[first] -= price

    @property
    def _total(self) -> float:
        return self._ends[-1] if self._ends else 0.0

    def _end(self, length: int) -> float:
        """Return the total tokens of the first `length` items."""
        return self._ends[length - 1] if length else 0.0
