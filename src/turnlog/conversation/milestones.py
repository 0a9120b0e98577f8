"""Milestones of a session's tree: its prompts and compactions, each with the next milestones.

They are numbered in file order, across all branches.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Protocol

from turnlog.conversation.nodes import BoundaryNode, ChainNode, UserNode
from turnlog.conversation.prompts import ASKING, PromptKind
from turnlog.conversation.tree import Tree

MILESTONES = ASKING | {PromptKind.COMMAND}


class Milestones(Protocol):
    """The milestones of a session, given by their numbers."""

    def __len__(self) -> int: ...

    @property
    def firsts(self) -> Sequence[int]:
        """The milestones without a predecessor."""
        ...

    def node(self, number: int) -> ChainNode: ...

    def is_active(self, number: int) -> bool:
        """Return whether a milestone is on the active branch."""
        ...

    def following(self, number: int) -> Sequence[int]:
        """Return the next milestones; several where the conversation branches."""
        ...

    def above(self, node: ChainNode) -> int | None:
        """Return the nearest milestone before an entry."""
        ...

    @property
    def ends(self) -> Sequence[int]:
        """The last milestone of each branch, in file order."""
        ...

    def depth(self, number: int) -> int:
        """Return the number of milestones from the first one to this one."""
        ...

    def last_entry(self, number: int) -> ChainNode:
        """Return the last entry below a milestone; if the branch forks, that of its last branch."""
        ...


class TreeMilestones:
    """The milestones of a tree in memory."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.ranks = [rank for rank, node in enumerate(tree.chain) if is_milestone(node)]
        self._numbers = {rank: number for number, rank in enumerate(self.ranks)}
        self._above: dict[int, int] = {}
        self._following: dict[int, list[int]] = {}
        for number, rank in enumerate(self.ranks):
            self._following.setdefault(self._nearest(rank), []).append(number)

    def __len__(self) -> int:
        return len(self.ranks)

    @property
    def firsts(self) -> Sequence[int]:
        return self._following.get(-1, [])

    def node(self, number: int) -> ChainNode:
        return self.tree.chain[self.ranks[number]]

    def is_active(self, number: int) -> bool:
        return self.ranks[number] in self._active

    def following(self, number: int) -> Sequence[int]:
        return self._following.get(number, [])

    def above(self, node: ChainNode) -> int | None:
        rank = self.tree.rank_of(node.uuid)
        nearest = self._nearest(rank) if rank is not None else -1
        return None if nearest < 0 else nearest

    @property
    def ends(self) -> Sequence[int]:
        return [number for number in range(len(self)) if number not in self._following]

    def depth(self, number: int) -> int:
        return self.depths[number]

    @cached_property
    def depths(self) -> dict[int, int]:
        """The depth of each milestone."""
        found: dict[int, int] = {}
        waiting = [(number, 1) for number in self.firsts]
        while waiting:
            number, depth = waiting.pop()
            found[number] = depth
            waiting += [(following, depth + 1) for following in self.following(number)]
        # A compaction that names a later entry as its parent is on a cycle, which the walk from
        # the first milestones does not reach.
        return dict.fromkeys(range(len(self)), 1) | found

    def last_entry(self, number: int) -> ChainNode:
        rank = self.ranks[number]
        while rank in self.tree.children:
            rank = self.tree.children[rank][-1]
        return self.tree.chain[rank]

    @cached_property
    def _active(self) -> set[int]:
        leaf = self.tree.active_leaf
        return set(self.tree.path_to(leaf)) if leaf is not None else set()

    def _nearest(self, rank: int) -> int:
        """Return the nearest milestone before a node, or -1."""
        # Remember the result for every node passed: a branch with thousands of entries between two
        # prompts is walked once, not once per sub-agent.
        passed: list[int] = []
        at = self.tree.step_back(rank)
        while at >= 0 and at not in self._numbers and at not in self._above:
            passed.append(at)
            at = self.tree.step_back(at)
        found = self._above.get(at, self._numbers.get(at, -1))
        self._above.update(dict.fromkeys(passed, found))
        return found


def is_milestone(node: ChainNode) -> bool:
    """Return whether a node is a prompt or a compaction."""
    is_prompt = isinstance(node, UserNode) and node.prompt in MILESTONES
    return is_prompt or isinstance(node, BoundaryNode)


def chain_children(stones: Milestones) -> tuple[list[int], list[int]]:
    """Return each milestone's first child and next sibling, -1 if there is none."""
    child, sibling = [-1] * len(stones), [-1] * len(stones)
    for number in range(len(stones)):
        following = stones.following(number)
        child[number] = following[0] if following else -1
        for first, second in pairwise(following):
            sibling[first] = second
    return child, sibling
