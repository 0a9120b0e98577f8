"""Order the events of a session and its sub-agents in time.

Lines are the clock. A child's line never counts as earlier than its parent's, because clients write
some lines late: a prompt after the first lines of its answer (2.1.150), a call after its result
(2.1.45), a snapshot after the turn that it belongs to (2.1.325; all observed). Sub-agents have
files of their own; their events are put between the session's lines by timestamp.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from turnlog.conversation.nodes import ChainNode, Node
from turnlog.conversation.session import Session
from turnlog.conversation.tree import Tree
from turnlog.format.timestamps import seconds_of

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


class MainClock:
    """The places of a session's own lines."""

    def __init__(self, session: Session) -> None:
        self._places = _places_of(session.tree)
        self._starts = _running_times(session.nodes)

    def place(self, node: Node) -> SessionPosition:
        """Return the place of a node."""
        return self._places.get(node.index) or SessionPosition(node.line)

    def line_at(self, seconds: float) -> int:
        """Return the last line that was written at or before a time; 0 if there is none."""
        times, lines = self._starts
        found = bisect_right(times, seconds)
        return lines[found - 1] if found else 0


class AgentClock:
    """The places of the lines of a sub-agent's own file."""

    def __init__(self, main: MainClock, nodes: Iterable[Node], earliest: int) -> None:
        """`earliest` is the line of the call that started it."""
        self._main = main
        self._earliest = earliest
        self._times: dict[int, float] = {}
        latest = 0.0
        for node in nodes:
            latest = max(latest, seconds_of(node.time) or latest)
            self._times[node.index] = latest

    def place(self, node: Node) -> SessionPosition:
        """Return the place of a node."""
        seconds = self._times.get(node.index, 0.0)
        # Clocks of two files may differ: no agent works before the call that started it.
        line = max(self._main.line_at(seconds), self._earliest)
        return SessionPosition(line, AMONG, int(seconds * 1000), node.line)


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
