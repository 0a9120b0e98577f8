"""The conversation as a tree: parents, roots, branches, leaves, and the path to a leaf.

Linear in the number of nodes and never recursive. Nodes are named by their rank in `chain`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from turnlog.conversation.nodes import (
    BoundaryNode,
    ChainNode,
    Node,
    TipNode,
    UserNode,
)
from turnlog.conversation.prompts import PromptKind
from turnlog.format.timestamps import parse_timestamp

TIP_TYPES = frozenset({"user", "assistant", "attachment", "system"})
"""Types that can be the tip; progress and unknown types are passed over (observed: 2.1.325)."""


@dataclass(frozen=True)
class Tree:
    """Every entry with a uuid, each with its parent."""

    chain: list[ChainNode]
    """In the order of the file; of several with one uuid, the last."""
    parents: list[int]
    """The rank of each node's parent; -1 for a root."""
    ranks: dict[str, int]
    """The rank of each uuid."""
    orphans: list[ChainNode] = field(default_factory=list[ChainNode])
    """Nodes whose parent is not in the file, joined to the node before them."""
    tip_note: TipNode | None = None

    def rank_of(self, uuid: str | None) -> int | None:
        """The rank of the node with a uuid, if there is one."""
        return self.ranks.get(uuid) if uuid else None

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """The children of each node that has any; the roots are those of -1."""
        found: dict[int, list[int]] = {}
        for rank, parent in enumerate(self.parents):
            found.setdefault(parent, []).append(rank)
        return found

    @property
    def roots(self) -> list[int]:
        return self.children.get(-1, [])

    @cached_property
    def leaves(self) -> list[int]:
        """Nodes that can be a tip and that none such follows on, in the order of the file."""
        inner = set(self._nearest_tips())
        return [rank for rank in self._tips() if rank not in inner]

    @cached_property
    def active_leaf(self) -> int | None:
        """Where the newest client goes on: at its own note of the tip, else at the last tip.

        A note counts if the last tip does not follow on it, or if the user chose it (observed:
        2.1.325).
        """
        tip = self.leaves[-1] if self.leaves else None
        note = self.tip_note
        noted = self.rank_of(note.leaf) if note else None
        if note is None or noted is None or tip is None:
            return tip
        return noted if note.is_explicit or noted not in set(self.path_to(tip)) else tip

    @cached_property
    def newest_leaf(self) -> int | None:
        """Where clients up to 2.1.45 go on: at the latest timestamp."""
        timed = [(moment, rank) for rank in self._tips() if (moment := self._moment(rank))]
        return max(timed)[1] if timed else None

    def ancestors(self, rank: int) -> list[int]:
        """A node and its ancestors, from the node up; ends at a root, or at a compaction."""
        found: list[int] = []
        while rank >= 0:
            found.append(rank)
            rank = self.parents[rank]
        return found

    def path_to(self, rank: int) -> list[int]:
        """The nodes from the first one to a leaf, across compactions."""
        found: list[int] = []
        seen: set[int] = set()
        while rank >= 0 and rank not in seen:
            found.append(rank)
            seen.add(rank)
            rank = self.step_back(rank)
        return found[::-1]

    def below(self, rank: int) -> list[ChainNode]:
        """A node and all that follow on it, in the order of the file."""
        found: list[int] = []
        waiting = [rank]
        while waiting:
            found.append(waiting.pop())
            waiting += self.children.get(found[-1], [])
        return [self.chain[each] for each in sorted(found)]

    def step_back(self, rank: int) -> int:
        """The node before a node, across a compaction; -1 where there is none."""
        node = self.chain[rank]
        if self.parents[rank] >= 0:
            return self.parents[rank]
        if not is_compaction(node):
            return -1
        logical = self.rank_of(node.logical_parent)
        return rank - 1 if logical is None else logical

    def _tips(self) -> Iterator[int]:
        return (rank for rank, node in enumerate(self.chain) if can_be_tip(node))

    def _nearest_tips(self) -> Iterator[int]:
        """For each node that can be a tip, the nearest such node above it."""
        above: dict[int, int] = {}
        for start in self._tips():
            passed: list[int] = []
            rank = self.parents[start]
            while rank >= 0 and rank not in above and not can_be_tip(self.chain[rank]):
                passed.append(rank)
                rank = self.parents[rank]
            nearest = above.get(rank, rank)
            above.update(dict.fromkeys(passed, nearest))
            yield nearest

    def _moment(self, rank: int) -> float | None:
        moment = parse_timestamp(self.chain[rank].time)
        return moment.timestamp() if moment else None


def can_be_tip(node: ChainNode) -> bool:
    """Whether the conversation may go on at a node."""
    return node.kind.partition("/")[0] in TIP_TYPES


def is_compaction(node: ChainNode) -> bool:
    """Whether the history that a model sees starts anew here; 1.0.60 wrote only the summary."""
    is_summary = isinstance(node, UserNode) and node.prompt is PromptKind.COMPACT_SUMMARY
    return isinstance(node, BoundaryNode) or (is_summary and node.parent is None)


def grow_tree(nodes: Iterable[Node]) -> Tree:
    """Build the tree of some nodes, in the order of their file."""
    note: TipNode | None = None
    found: list[ChainNode] = []
    for node in nodes:
        if isinstance(node, TipNode):
            note = node if node.leaf.strip("0-") else note
        elif isinstance(node, ChainNode):
            found.append(node)
    chain = _last_of_each(found)
    ranks = {node.uuid: rank for rank, node in enumerate(chain) if node.uuid}
    parents, orphans = _join(chain, ranks)
    _cut_cycles(parents)
    return Tree(chain, parents, ranks, orphans, note)


def _last_of_each(nodes: list[ChainNode]) -> list[ChainNode]:
    """Of nodes with one uuid the last, and of those without one the last (observed: 2.1.325).

    In a plain log without uuids, as some exporters write it, every node counts.
    """
    if not any(node.uuid or node.parent for node in nodes):
        return nodes
    last: dict[str | None, ChainNode] = {}
    for node in nodes:
        last.pop(node.uuid, None)
        last[node.uuid] = node
    return list(last.values())


def _join(chain: list[ChainNode], ranks: dict[str, int]) -> tuple[list[int], list[ChainNode]]:
    if not any(node.uuid or node.parent for node in chain):
        # Some exporters write plain logs: what follows is a matter of the order alone.
        return list(range(-1, len(chain) - 1)), []
    parents: list[int] = []
    orphans: list[ChainNode] = []
    for rank, node in enumerate(chain):
        if node.parent in ranks:
            parents.append(ranks[node.parent])
        elif node.parent is None or node.uuid is None:
            parents.append(-1)
        else:
            parents.append(rank - 1)
            if rank:
                orphans.append(node)
    return parents, orphans


def _cut_cycles(parents: list[int]) -> None:
    """Where parents run in a circle, join the earliest node of it to the node before it.

    If that one leads into the same circle, the earliest node becomes a root.
    """
    settled = bytearray(len(parents))
    for start in range(len(parents)):
        trail: list[int] = []
        rank = start
        while rank >= 0 and not settled[rank]:
            settled[rank] = 2
            trail.append(rank)
            rank = parents[rank]
            if rank >= 0 and settled[rank] == 2:
                first = min(trail[trail.index(rank) :])
                is_free = first == 0 or settled[first - 1] != 2
                parents[first] = first - 1 if is_free else -1
                rank = parents[first]
        for each in trail:
            settled[each] = 1
