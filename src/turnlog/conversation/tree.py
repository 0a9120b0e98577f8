"""The conversation as a tree: parents, roots, branches, leaves, and the path to a leaf.

Linear in the number of nodes and never recursive. Nodes are named by their rank in `chain`.

There are two readings of a file. `parents` is complete: where a parent is missing, an entry is
joined to another one, so that nothing is hidden. `resumed_path` is what the client makes of it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from turnlog.conversation.nodes import (
    AssistantNode,
    BoundaryNode,
    ChainNode,
    Node,
    TipNode,
    UserNode,
)
from turnlog.conversation.prompts import PromptKind
from turnlog.conversation.timeline import Timeline, moment_of

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
    """Nodes whose parent is not in the file, joined to another one."""
    tip_note: TipNode | None = None
    cuts: frozenset[int] = frozenset()
    """Ranks of orphans without another entry near in time: the client starts there."""

    @cached_property
    def links(self) -> list[int]:
        """The rank of each node's parent as the client resolves it; -1 if there is none.

        The client reads through progress entries; a parent of an unknown type does not exist for it
        (observed: 2.1.325).
        """
        return [self._linked(node) for node in self.chain]

    def _linked(self, node: ChainNode) -> int:
        rank = self.ranks.get(node.parent or "", -1)
        seen: set[int] = set()
        while rank >= 0 and rank not in seen and is_progress(self.chain[rank]):
            seen.add(rank)
            rank = self.ranks.get(self.chain[rank].parent or "", -1)
        return rank if rank >= 0 and can_be_tip(self.chain[rank]) else -1

    def is_root(self, rank: int) -> bool:
        """Whether a node names no parent, be it through progress entries."""
        node: ChainNode | None = self.chain[rank]
        seen: set[str] = set()
        while node and node.parent and node.parent not in seen:
            seen.add(node.parent)
            above = self.rank_of(node.parent)
            if above is None or not is_progress(self.chain[above]):
                return False
            node = self.chain[above]
        return True

    def resumed_path(self, rank: int) -> list[int]:
        """The nodes from a leaf up that the client reads when it resumes there.

        Where a parent is missing, or would close a circle, the client continues with the latest
        entry that is at most five seconds older; without one, the conversation starts there
        (observed: 2.1.325).
        """
        path: list[int] = []
        seen: set[int] = set()
        skips: dict[int, int] = {}
        while rank >= 0:
            path.append(rank)
            seen.add(rank)
            above = self.links[rank]
            if above in seen or (above < 0 and not self.is_root(rank)):
                above = self.timeline.latest_before(rank, seen, skips)
            else:
                path += self.progress_above(rank)
            rank = above
        return path

    def progress_above(self, rank: int) -> list[int]:
        """The progress entries between a node and the one that it follows on."""
        found: list[int] = []
        above = self.rank_of(self.chain[rank].parent)
        while above is not None and above not in found and is_progress(self.chain[above]):
            found.append(above)
            above = self.rank_of(self.chain[above].parent)
        return found

    @property
    def is_plain(self) -> bool:
        """Whether no entry has a uuid, as in the logs of some exporters."""
        return not self.ranks

    def starts_late(self, path: list[int]) -> bool:
        """Whether a resumed path starts at a node whose parent is missing, with history before."""
        return bool(path) and not self.is_root(path[-1]) and self.parents[path[-1]] >= 0

    @cached_property
    def timeline(self) -> Timeline:
        """The entries that can stand in for a missing parent."""
        return Timeline(self.chain, can_be_tip)

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

        A note counts if the last tip does not follow on the entry that it names, or if the user
        chose that entry and has said nothing since. It does not count for an entry that a
        compaction with preserved messages has replaced. A tip that leads to nothing said does not
        count, such as a boundary without a summary (observed: 2.1.325).
        """
        tips = self._last_tips
        note = self.tip_note
        noted = self.rank_of(note.leaf) if note else None
        if note and tips and noted is not None and self._overrules(noted, note, tips[0]):
            return noted
        silent: set[int] = set()
        speaking = (rank for rank in tips if self._leads_to_talk(rank, silent))
        return next(speaking, tips[0] if tips else None)

    @property
    def _last_tips(self) -> list[int]:
        """The entries that no other one names as its parent, the last in the file first."""
        tips = list(self._tips())
        inner = {self.links[rank] for rank in tips if not self._closes_circle(rank)}
        return [rank for rank in reversed(tips) if rank not in inner] or self.leaves[::-1]

    def _closes_circle(self, rank: int) -> bool:
        """Whether a node names a parent that it is not joined to, as that would close a circle."""
        named = self.rank_of(self.chain[rank].parent)
        return named is not None and named != self.parents[rank]

    def _leads_to_talk(self, rank: int, silent: set[int]) -> bool:
        """Whether something was said at a node or above; remembers nodes where nothing was."""
        while rank >= 0 and rank not in silent:
            if isinstance(self.chain[rank], UserNode | AssistantNode):
                return True
            silent.add(rank)
            rank = self.links[rank]
        return False

    def _overrules(self, noted: int, note: TipNode, tip: int) -> bool:
        if self._is_above(noted, tip):
            return note.is_explicit and self.chain[tip].index < note.index
        if note.is_explicit:
            return True
        is_aside = self.chain[noted].is_sidechain and not self.chain[tip].is_sidechain
        return not (is_aside or self._is_replaced(noted))

    def _is_above(self, rank: int, leaf: int) -> bool:
        seen: set[int] = set()
        while leaf >= 0 and leaf not in seen:
            seen.add(leaf)
            leaf = self.links[leaf]
        return rank in seen

    def _is_replaced(self, rank: int) -> bool:
        later = (node for node in self.chain[rank + 1 :] if isinstance(node, BoundaryNode))
        return any(node.preserved and node.preserved.uuids for node in later)

    @cached_property
    def newest_leaf(self) -> int | None:
        """Where clients up to 2.1.45 go on: at the latest timestamp."""
        timed = [(moment_of(node), rank) for rank, node in enumerate(self.chain) if _is_known(node)]
        known = [(moment, rank) for moment, rank in timed if moment]
        return max(known)[1] if known else None

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


def can_be_tip(node: ChainNode) -> bool:
    """Whether the conversation may go on at a node."""
    return node.kind.partition("/")[0] in TIP_TYPES


def is_progress(node: ChainNode) -> bool:
    """Whether a node only tells how something is going."""
    return node.kind.startswith("progress")


def _is_known(node: ChainNode) -> bool:
    return can_be_tip(node) or is_progress(node)


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
            # What a note says of the tip holds until the next compaction (observed: 2.1.325).
            note = None if isinstance(node, BoundaryNode) else note
    chain = _last_of_each(found)
    ranks = {node.uuid: rank for rank, node in enumerate(chain) if node.uuid}
    parents, orphans, cuts = _join(chain, ranks)
    _cut_cycles(parents)
    return Tree(chain, parents, ranks, orphans, note, frozenset(cuts))


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


def _join(
    chain: list[ChainNode], ranks: dict[str, int]
) -> tuple[list[int], list[ChainNode], set[int]]:
    """Return the parent of each node, the orphans, and those of them that the client starts at."""
    if not any(node.uuid or node.parent for node in chain):
        # Some exporters write plain logs: what follows is a matter of the order alone.
        return list(range(-1, len(chain) - 1)), [], set()
    parents: list[int] = []
    orphans: list[ChainNode] = []
    cuts: set[int] = set()
    timeline = Timeline(chain, can_be_tip)
    for rank, node in enumerate(chain):
        if node.parent in ranks:
            parents.append(ranks[node.parent])
        elif not node.parent:
            parents.append(-1)
        else:
            near = timeline.latest_before(rank, {rank}, {})
            parents.append(rank - 1 if near < 0 else near)
            if parents[-1] >= 0 and node.uuid:
                orphans.append(node)
            if near < 0:
                cuts.add(rank)
    return parents, orphans, cuts


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
