"""The conversation as a tree: parents, roots, branches, leaves, and the path to a leaf.

Linear in the number of nodes and never recursive. Nodes are identified by their rank in `chain`.

There are two readings of a file. `parents` is complete: an entry whose parent is missing is
attached to another entry, so nothing is hidden. `resumed_path` is the path that the client follows.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

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
"""Types that can be the tip; the client ignores progress and unknown types (observed: 2.1.325)."""


@dataclass(frozen=True)
class Tree:
    """The entries of a conversation, and the parent of each."""

    chain: list[ChainNode]
    """In file order; if several entries have the same uuid, only the last one is included."""
    parents: list[int]
    """The rank of each node's parent; -1 for a root."""
    ranks: dict[str, int]
    """The rank of each uuid."""
    orphans: list[ChainNode] = field(default_factory=list[ChainNode])
    """Nodes whose parent is not in the file, attached to another node."""
    tip_note: TipNode | None = None
    cuts: frozenset[int] = frozenset()
    """Ranks of orphans with no other entry near in time: the client starts reading there."""

    @cached_property
    def links(self) -> list[int]:
        """The rank of each node's parent as the client resolves it; -1 if there is none.

        The client skips progress entries and ignores a parent of an unknown type (observed:
        2.1.325).
        """
        return [self._parent_for_client(node) for node in self.chain]

    def _parent_for_client(self, node: ChainNode) -> int:
        rank = self.ranks.get(node.parent or "", -1)
        seen: set[int] = set()
        while rank >= 0 and rank not in seen and is_progress(self.chain[rank]):
            seen.add(rank)
            rank = self.ranks.get(self.chain[rank].parent or "", -1)
        return rank if rank >= 0 and can_be_tip(self.chain[rank]) else -1

    def is_root(self, rank: int) -> bool:
        """Return whether a node has no parent; progress entries above it do not count."""
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
        """Return the nodes that the client reads when it resumes at a leaf, from the leaf up.

        If a parent is missing or would close a cycle, the client continues with the latest entry
        that is at most five seconds older; without one, the conversation starts there (observed:
        2.1.325).
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
        """Return the progress entries between a node and its parent."""
        found: list[int] = []
        above = self.rank_of(self.chain[rank].parent)
        while above is not None and above not in found and is_progress(self.chain[above]):
            found.append(above)
            above = self.rank_of(self.chain[above].parent)
        return found

    @property
    def is_plain(self) -> bool:
        """True if no entry has a uuid, as in the logs of some exporters."""
        return not self.ranks

    def starts_late(self, path: list[int]) -> bool:
        """Return whether a resumed path starts at an orphan although there is earlier history."""
        return bool(path) and not self.is_root(path[-1]) and self.parents[path[-1]] >= 0

    @cached_property
    def timeline(self) -> Timeline:
        """The entries that can replace a missing parent."""
        return Timeline(self.chain, can_be_tip)

    def rank_of(self, uuid: str | None) -> int | None:
        """Return the rank of the node with a uuid, or None."""
        return self.ranks.get(uuid) if uuid else None

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """The children of each node that has any; the roots are the children of -1."""
        found: dict[int, list[int]] = {}
        for rank, parent in enumerate(self.parents):
            found.setdefault(parent, []).append(rank)
        return found

    @property
    def roots(self) -> list[int]:
        return self.children.get(-1, [])

    @cached_property
    def leaves(self) -> list[int]:
        """Possible tips that no other possible tip descends from, in file order."""
        inner = set(self._nearest_tips())
        return [rank for rank in self._tips() if rank not in inner]

    @cached_property
    def active_leaf(self) -> int | None:
        """The leaf at which the current client resumes: the recorded tip, or else the last tip.

        The record counts if the last tip does not descend from the entry it names, or if the user
        chose that entry and has not continued since. It does not count for an entry that a
        compaction with preserved messages replaced. A tip without any message above it does not
        count either, such as a boundary without a summary (observed: 2.1.325).
        """
        tips = self._last_tips
        note = self.tip_note
        noted = self.rank_of(note.leaf) if note else None
        if note and tips and noted is not None and self._overrules(noted, note, tips[0]):
            return noted
        silent: set[int] = set()
        speaking = (rank for rank in tips if self._has_message_above(rank, silent))
        return next(speaking, tips[0] if tips else None)

    @property
    def _last_tips(self) -> list[int]:
        """The entries that no other entry names as its parent, last in the file first."""
        tips = list(self._tips())
        inner = {self.links[rank] for rank in tips if not self._closes_cycle(rank)}
        return [rank for rank in reversed(tips) if rank not in inner] or self.leaves[::-1]

    def _closes_cycle(self, rank: int) -> bool:
        """Return whether a node was detached from the parent it names to break a cycle."""
        named = self.rank_of(self.chain[rank].parent)
        return named is not None and named != self.parents[rank]

    def _has_message_above(self, rank: int, silent: set[int]) -> bool:
        """Return whether a message is at a node or above it; `silent` caches nodes without one."""
        while rank >= 0 and rank not in silent:
            if isinstance(self.chain[rank], UserNode | AssistantNode):
                return True
            silent.add(rank)
            rank = self.links[rank]
        return False

    def _overrules(self, noted: int, note: TipNode, tip: int) -> bool:
        # The user went back to `noted`, an ancestor of the last tip. That choice holds only until
        # something is said after it.
        if self.is_above(noted, tip):
            return note.is_explicit and self.chain[tip].index < note.index
        if note.is_explicit:
            return True
        is_aside = self.chain[noted].is_sidechain and not self.chain[tip].is_sidechain
        return not (is_aside or self._is_replaced(noted))

    def is_above(self, rank: int, leaf: int) -> bool:
        """Return whether a node is `leaf` or one of its ancestors, as the client sees parents."""
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
        """The leaf at which clients up to 2.1.45 resume: the entry with the latest timestamp."""
        timed = [(moment_of(node), rank) for rank, node in enumerate(self.chain) if _is_known(node)]
        known = [(moment, rank) for moment, rank in timed if moment]
        return max(known)[1] if known else None

    def ancestors(self, rank: int) -> list[int]:
        """Return a node and its ancestors, from the node up to a root or a compaction."""
        found: list[int] = []
        while rank >= 0:
            found.append(rank)
            rank = self.parents[rank]
        return found

    def path_to(self, rank: int) -> list[int]:
        """Return the nodes from the first one to a leaf, across compactions."""
        found: list[int] = []
        seen: set[int] = set()
        while rank >= 0 and rank not in seen:
            found.append(rank)
            seen.add(rank)
            rank = self.step_back(rank)
        return found[::-1]

    def below(self, rank: int) -> list[ChainNode]:
        """Return a node and all its descendants, in file order."""
        found: list[int] = []
        waiting = [rank]
        while waiting:
            found.append(waiting.pop())
            waiting += self.children.get(found[-1], [])
        return [self.chain[descendant] for descendant in sorted(found)]

    def step_back(self, rank: int) -> int:
        """Return the node before a node, also across a compaction; -1 if there is none."""
        if self.parents[rank] >= 0 or not is_compaction(self.chain[rank]):
            return self.parents[rank]
        if rank not in self._steps_across:
            # A compaction of a damaged file may name itself or an entry after it: a cycle.
            before = (self._stated_step(rank), rank - 1)
            steps = (each for each in before if not self._leads_back(each, rank))
            self._steps_across[rank] = next(steps, -1)
        return self._steps_across[rank]

    @cached_property
    def _steps_across(self) -> dict[int, int]:
        return {}

    def _stated_step(self, rank: int) -> int:
        """Return the node before a node as the file states it, which may form a cycle."""
        node = self.chain[rank]
        if self.parents[rank] >= 0 or not is_compaction(node):
            return self.parents[rank]
        logical = self.rank_of(node.logical_parent)
        return rank - 1 if logical is None else logical

    def _leads_back(self, start: int, rank: int) -> bool:
        """Return whether a walk back from one node arrives at another."""
        if start < rank and self._is_in_order:
            return False
        seen: set[int] = set()
        while start >= 0 and start not in seen and start != rank:
            seen.add(start)
            start = self._stated_step(start)
        return start == rank

    @cached_property
    def _is_in_order(self) -> bool:
        """True if no step back leads forward in the file, as in every file that a client wrote."""
        return all(self._stated_step(rank) < rank for rank in range(len(self.chain)))

    def _tips(self) -> Iterator[int]:
        return (rank for rank, node in enumerate(self.chain) if can_be_tip(node))

    def _nearest_tips(self) -> Iterator[int]:
        """Yield the nearest possible tip above each possible tip."""
        # Nodes that cannot be a tip are remembered in `above`: without that, ten thousand tips on
        # top of one long run of progress entries would walk the run ten thousand times.
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
    """Return whether the conversation may continue at a node."""
    return _is_tip_kind(node.kind)


@lru_cache(256)
def _is_tip_kind(kind: str) -> bool:
    return kind.partition("/")[0] in TIP_TYPES


def is_progress(node: ChainNode) -> bool:
    """Return whether a node only reports progress."""
    return node.kind.startswith("progress")


def _is_known(node: ChainNode) -> bool:
    return can_be_tip(node) or is_progress(node)


def is_compaction(node: ChainNode) -> bool:
    """Return whether the model's history restarts at a node: a boundary, or a summary (1.0.60)."""
    is_summary = isinstance(node, UserNode) and node.prompt is PromptKind.COMPACT_SUMMARY
    return isinstance(node, BoundaryNode) or (is_summary and node.parent is None)


def grow_tree(nodes: Iterable[Node]) -> Tree:
    """Build the tree of some nodes, given in file order."""
    note: TipNode | None = None
    found: list[ChainNode] = []
    for node in nodes:
        if isinstance(node, TipNode):
            note = node if node.leaf.strip("0-") else note
        elif isinstance(node, ChainNode):
            found.append(node)
            # A recorded tip is valid until the next compaction (observed: 2.1.325).
            note = None if isinstance(node, BoundaryNode) else note
    chain = _last_per_uuid(found)
    ranks = {node.uuid: rank for rank, node in enumerate(chain) if node.uuid}
    parents, orphans, cuts = _attach_to_parents(chain, ranks)
    _cut_cycles(parents)
    return Tree(chain, parents, ranks, orphans, note, frozenset(cuts))


def _last_per_uuid(nodes: list[ChainNode]) -> list[ChainNode]:
    """Return the last node with each uuid, and the last one without a uuid (observed: 2.1.325).

    In a plain log without uuids, as some exporters write it, every node is kept.
    """
    if not any(node.uuid or node.parent for node in nodes):
        return nodes
    last: dict[str | None, ChainNode] = {}
    for node in nodes:
        last.pop(node.uuid, None)
        last[node.uuid] = node
    return list(last.values())


def _attach_to_parents(
    chain: list[ChainNode], ranks: dict[str, int]
) -> tuple[list[int], list[ChainNode], set[int]]:
    """Return the parent of each node, the orphans, and the orphans that the client starts at."""
    if not any(node.uuid or node.parent for node in chain):
        # A plain log of some exporters has no uuids: every line follows the line before it.
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
            # The named parent is not in the file (a truncated copy, a deleted line). Attach the
            # node to the entry that the client would pick, else to the previous line: a reader
            # must be able to see everything above it, even though the client would start here.
            near = timeline.latest_before(rank, {rank}, {})
            parents.append(rank - 1 if near < 0 else near)
            if parents[-1] >= 0 and node.uuid:
                orphans.append(node)
            if near < 0:
                cuts.add(rank)
    return parents, orphans, cuts


def _cut_cycles(parents: list[int]) -> None:
    """Break every cycle by attaching its earliest node to the node before it in the file.

    If that node leads into the same cycle, the earliest node becomes a root.
    """
    # Damaged or hand-edited files can name parents in a cycle: lines 3 → 5 → 4 → 3. A walk along
    # `parents`, such as `ancestors`, would never end. Line 3, the earliest of the cycle, gets line
    # 2 as its parent instead; 5 and 4 keep theirs, so every entry stays reachable.
    # A node is unvisited (0), on the trail being walked (2), or known to reach a root (1). Meeting
    # a 2 means that the trail has run into itself. Each node joins one trail only: O(n).
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
                # The walk goes on from the new parent. If that leads back into this trail through
                # nodes not visited yet, the loop finds and breaks that cycle in the same way.
                is_free = first == 0 or settled[first - 1] != 2
                parents[first] = first - 1 if is_free else -1
                rank = parents[first]
        for visited in trail:
            settled[visited] = 1
