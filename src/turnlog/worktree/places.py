"""Order the events of a session and its sub-agents in time.

Lines are the clock. A child's line never counts as earlier than its parent's, because clients write
some lines late: a prompt after the first lines of its answer (2.1.150), a call after its result
(2.1.45), a snapshot after the turn that it belongs to (2.1.325; all observed). Sub-agents have
files of their own; their events are put between the session's lines by timestamp, unless the
timestamps contradict the order of lines: a clock was set, or two machines worked on the session.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from turnlog.conversation.nodes import AssistantNode, ChainNode, Node, UserNode
from turnlog.conversation.session import Session
from turnlog.conversation.tree import Tree
from turnlog.format.timestamps import seconds_of

JITTER = 1.0
"""Seconds by which a line may be earlier than the one before it (at most 0.8 in our corpus)."""
BEFORE, AT, AMONG, BEHIND = -1, 0, 1, 2
"""Before a line, at it, between it and the next (sub-agents), and after all of those."""


class SessionPosition(NamedTuple):
    """A moment of a session; comparable."""

    line: int
    rank: int = AT
    order: int = 0
    """Depth in the tree for lines; milliseconds for sub-agents."""
    inner: int = 0
    """The line in the sub-agent's own file; 1 for a backup right behind a line."""


END = SessionPosition(2**62, BEHIND)
START = SessionPosition(0, BEFORE)
PlaceSpan = tuple[SessionPosition, SessionPosition]

Placing = Callable[[Node], SessionPosition]


class MainClock:
    """The places of a session's own lines."""

    def __init__(self, session: Session) -> None:
        self._places = _places_of(session.tree)
        self._nodes = session.nodes

    def place(self, node: Node) -> SessionPosition:
        """Return the place of a node."""
        return self._places.get(node.index) or SessionPosition(node.line)

    def nodes_between(self, first: int, last: int) -> Sequence[Node]:
        """Return the nodes in a range of lines."""
        start = bisect_left(self._nodes, first, key=lambda node: node.line)
        return self._nodes[start : bisect_right(self._nodes, last, key=lambda node: node.line)]


class AgentClock:
    """The places of the lines of a sub-agent's own file."""

    def __init__(self, main: MainClock, nodes: Iterable[Node], span: PlaceSpan) -> None:
        """`span` reaches from the call that started it to the report of its end."""
        self._times: dict[int, float] = {}
        own: list[Node] = []
        latest = 0.0
        for node in nodes:
            own.append(node)
            latest = max(latest, seconds_of(node.time) or latest)
            self._times[node.index] = latest
        self._first = span[0].line
        around = main.nodes_between(span[0].line, span[1].line)
        self._starts = _running_times(around)
        self.doubt = _order_doubt(own, around, span)
        """The range in which it worked if its order among the session's lines is not certain."""

    def place(self, node: Node) -> SessionPosition:
        """Return the place of a node."""
        seconds = self._times.get(node.index, 0.0)
        times, lines = self._starts
        found = bisect_right(times, seconds)
        # Clocks of two files may differ: no agent works before the call that started it.
        line = lines[found - 1] if found else self._first
        return SessionPosition(line, AMONG, int(seconds * 1000), node.line)


def _order_doubt(own: Iterable[Node], around: Iterable[Node], span: PlaceSpan) -> PlaceSpan | None:
    """Return the range in which an agent worked; None if times tell where it did what."""
    start, end = span
    times, others = _message_times(own), _message_times(around)
    is_known = end != END
    if not times:
        return None
    # It was resumed by another call, or its end is not the one that was reported.
    is_early = bool(others) and times[0] < others[0] - JITTER
    is_late = is_known and bool(others) and max(times) > others[-1] + JITTER
    if is_early or is_late or not (_is_rising(times) and _is_rising(others)):
        return (START if is_early else start, END if is_late else end)
    return None


def _message_times(nodes: Iterable[Node]) -> list[float]:
    """Return the times of messages; other lines may be written late."""
    messages = (node for node in nodes if isinstance(node, UserNode | AssistantNode))
    return [seconds for node in messages if (seconds := seconds_of(node.time)) is not None]


def _is_rising(times: Sequence[float]) -> bool:
    """Return whether no time is earlier than one before it.

    >>> _is_rising([1.0, 1.5, 1.25, 9.0]), _is_rising([5.0, 1.0, 9.0])
    (True, False)
    """
    latest = accumulate(times, max)
    return all(each >= top - JITTER for each, top in zip(times, latest, strict=True))


def _places_of(tree: Tree) -> dict[int, SessionPosition]:
    """Return the place of every node of a tree, by index."""
    found: dict[int, SessionPosition] = {}
    waiting = [(rank, 0, 0) for rank in tree.roots]
    while waiting:
        rank, line, depth = waiting.pop()
        node: ChainNode = tree.chain[rank]
        # A parent may be written after its child: the child then counts as just as late, and the
        # depth orders the two.
        line = max(line, node.line)
        found[node.index] = SessionPosition(line, AT, depth)
        waiting += [(child, line, depth + 1) for child in tree.children.get(rank, [])]
    return found


def _running_times(nodes: Iterable[Node]) -> tuple[list[float], list[int]]:
    """Return the times of lines that are not earlier than any line before, and the line numbers."""
    times: list[float] = []
    lines: list[int] = []
    for node in nodes:
        seconds = seconds_of(node.time)
        # Only rising times: bisect needs them sorted, and a line with an earlier time was
        # written late.
        if seconds is not None and (not times or seconds >= times[-1]):
            times.append(seconds)
            lines.append(node.line)
    return times, lines
