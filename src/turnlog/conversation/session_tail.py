"""The lines after those that a node table describes, read as a session of their own.

The turns of a session are those of its table followed by those of its tail, provided that the tail
depends on earlier lines in one way only: its first prompts descend from the boundary, the last node
of the table's branch. Otherwise there is no tail, and the whole file has to be read.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from turnlog.conversation.branch import whole_branch
from turnlog.conversation.node_log import ReadExtent
from turnlog.conversation.node_table import NodeTable, hash_name
from turnlog.conversation.nodes import AssistantNode, ChainNode, Node, TipNode, UserNode
from turnlog.conversation.prompts import ASKING
from turnlog.conversation.session import PartialSession, Session, open_session
from turnlog.conversation.timeline import moment_of
from turnlog.conversation.tree import is_compaction
from turnlog.conversation.turns import EarlierTurns, Turn, split_turns

IsKnown = Callable[[str], bool]
"""Returns whether an earlier line contains an id."""


class SessionTail:
    """The end of a session that has a node table."""

    def __init__(self, log: Session, part: PartialSession, turns: list[Turn]) -> None:
        self.log = log
        """The lines as they were read; ranks of nodes are those in the whole file."""
        self.part = part
        """The same lines, with the boundary as their root."""
        self.turns = turns


def open_tail(path: Path, table: NodeTable) -> Session:
    """Open the lines after a table; ranks of nodes are those in the tail."""
    return open_session(path, ReadExtent(table.head.offset, table.head.lines))


def read_tail(
    log: Session, table: NodeTable, boundary: ChainNode, earlier: EarlierTurns
) -> SessionTail | None:
    """Return the tail that the lines after a table form; None if they depend on earlier lines."""
    head = table.head
    for rank, node in enumerate(log.nodes, len(table["offset"])):
        node.index = rank
    if log.nodes and log.nodes[0].offset < head.offset:
        return None  # replaced since the table was compared with it, and read from its start
    # Without its parent, the boundary is the root of the tail's tree. It keeps its uuid, so the
    # first prompts of the tail find their parent.
    root = replace(boundary, parent=None, logical_parent=None)
    part = PartialSession(log, [root, *log.nodes])
    if not any(isinstance(node, ChainNode | TipNode) for node in log.nodes):
        return SessionTail(log, part, [])
    rules = _TailRules(table, boundary)
    if not head.can_grow or not rules.allow(log.nodes):
        return None
    turns = _turns_of(log, part, earlier)
    return SessionTail(log, part, turns) if turns else None


def _turns_of(log: Session, part: PartialSession, earlier: EarlierTurns) -> list[Turn]:
    """Return the turns of independent lines; none if their branch does not begin with a prompt."""
    leaf = part.tree.active_leaf
    branch = whole_branch(part.tree, leaf) if leaf is not None else []
    # A prompt right after the boundary always starts a turn, and no later line can change whether
    # the turn before it was answered.
    if len(branch) < 2 or branch[0].index != part.nodes[0].index or not _is_asking(branch[1]):
        return []
    return split_turns(branch[1:], log.messages, log.calls, earlier=earlier)


class _TailRules:
    """The conditions under which a tail does not depend on earlier lines.

    No id in it occurs earlier, except for the boundary's; its tree has neither orphans nor cycles.
    """

    def __init__(self, table: NodeTable, boundary: ChainNode) -> None:
        self.is_sidechain = table.head.is_sidechain
        self.orphan_time = table.head.orphan_time
        self.names = table["names"]
        self.boundary = boundary.uuid

    def allow(self, nodes: Sequence[Node]) -> bool:
        return is_independent(nodes, self.boundary, self._is_known) and all(
            self._is_in_place(node) for node in nodes if isinstance(node, ChainNode)
        )

    def _is_known(self, name: str) -> bool:
        wanted = hash_name(name)
        place = bisect_left(self.names, wanted)
        return place < len(self.names) and self.names[place] == wanted

    def _is_in_place(self, node: ChainNode) -> bool:
        if node.is_sidechain != self.is_sidechain:
            return False
        # An earlier orphan is attached to the entry nearest in time, which may be a later line.
        moment = moment_of(node) if self.orphan_time is not None else None
        return moment is None or moment.timestamp() > (self.orphan_time or 0)


def is_independent(nodes: Iterable[Node], boundary: str | None, is_known: IsKnown) -> bool:
    """Return whether lines refer to no earlier line, except that prompts descend from a boundary.

    Examples of dependent lines: an entry written again, a rewind, the result of an earlier call,
    the rest of an earlier message, or an entry whose parent is missing.
    """
    own: set[str] = set()
    for node in nodes:
        if isinstance(node, TipNode):
            if node.leaf not in own and node.leaf != boundary and is_known(node.leaf):
                return False
        elif isinstance(node, ChainNode):
            if not node.uuid or node.uuid in own or not boundary:
                return False
            if not _is_attached(node, boundary, own, is_known):
                return False
            if any(not name or is_known(name) for name in (node.uuid, *names_within(node))):
                return False
            own.add(node.uuid)
    return True


def _is_attached(node: ChainNode, boundary: str, own: set[str], is_known: IsKnown) -> bool:
    """Return whether a node descends from the boundary or an earlier node of the tail."""
    if node.parent == boundary:
        return _is_asking(node)
    if node.parent is not None:
        return node.parent in own
    # The summary of a compaction continues the conversation from its logical parent, or from the
    # line before it, which has to be in the tail as well.
    logical = node.logical_parent
    is_close = logical is None or logical in own or not is_known(logical)
    return is_compaction(node) and is_close and bool(own)


def names_of(node: Node) -> Iterator[str]:
    """Yield every id that a node has or refers to."""
    if isinstance(node, TipNode):
        yield node.leaf
    if isinstance(node, ChainNode):
        yield from filter(None, (node.uuid, node.parent, node.logical_parent))
        yield from names_within(node)


def names_within(node: ChainNode) -> Iterator[str]:
    """Yield the ids of the message, calls and results in a node."""
    if isinstance(node, AssistantNode):
        if node.message_id:
            yield node.message_id
        for call in node.calls:
            yield call.id
    elif isinstance(node, UserNode):
        for result in node.results:
            yield result.call_id


def _is_asking(node: ChainNode) -> bool:
    return isinstance(node, UserNode) and node.prompt in ASKING
