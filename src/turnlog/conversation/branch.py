"""The entries of one branch: its path, and the entries that a walk from child to parent misses.

Since 2.1.29, the parent of each result of parallel calls is its own call, and the parent of the
next message is only one of these results. The other calls and results are dead ends of the tree,
yet part of the conversation.
"""

from collections.abc import Iterable, Sequence
from itertools import takewhile

from turnlog.conversation.nodes import AssistantNode, BoundaryNode, ChainNode, UserNode
from turnlog.conversation.tree import Tree, is_compaction


def whole_branch(tree: Tree, leaf: int) -> list[ChainNode]:
    """Return every node of the branch that ends at a leaf, across compactions."""
    return with_siblings(tree, tree.path_to(leaf))


def branch_as_read(tree: Tree, leaf: int) -> list[ChainNode]:
    """Return every node of a branch, and any others that the client reads when it resumes there.

    There are others only if the client replaces a missing parent by a descendant of its child.
    """
    # P names a missing parent. Its child C has the same time as P, and the leaf L is another child.
    # From L the client walks to P, and then to C, the latest entry that is not newer than P: it
    # reads C, P, L. In the tree, C stays below P.
    path, read = tree.path_to(leaf), tree.resumed_path(leaf)[::-1]
    known = set(read)
    if not known.issubset(path):
        path = [*takewhile(lambda rank: rank not in known, path), *read]
    return with_siblings(tree, path)


def since_compaction(tree: Tree, leaf: int) -> list[ChainNode]:
    """Return the nodes that the client sends at a leaf.

    They start at the last compaction or missing parent. Messages that the compaction preserved
    follow its summary; if one of them is missing, none are included (observed: 2.1.325).
    """
    ranks = tree.resumed_path(leaf)[::-1]
    cuts = [position for position, rank in enumerate(ranks) if is_compaction(tree.chain[rank])]
    if cuts:
        ranks = ranks[cuts[-1] :]
        boundary = tree.chain[ranks[0]]
        if isinstance(boundary, BoundaryNode):
            ranks = _with_preserved(tree, boundary, ranks)
    return with_siblings(tree, ranks)


def _with_preserved(tree: Tree, boundary: BoundaryNode, ranks: list[int]) -> list[int]:
    preserved = boundary.preserved
    if preserved is None:
        return ranks
    kept = [tree.rank_of(uuid) for uuid in preserved.uuids or []]
    anchor = tree.rank_of(preserved.anchor_uuid or None)
    if anchor not in ranks or None in kept:
        return ranks
    position = ranks.index(anchor) + 1
    before, found, after = (
        ranks[:position],
        [rank for rank in kept if rank is not None],
        ranks[position:],
    )
    if anchor in found:
        # The anchor is itself preserved, so the preserved messages form a cycle. The client walks
        # it once, starting after the anchor (observed: 2.1.325).
        return (found[found.index(anchor) + 1 :] or found) + after
    return before + found + after


def with_siblings(tree: Tree, ranks: Sequence[int]) -> list[ChainNode]:
    """Return a path with the parts of its messages, and the results of their calls, beside it."""
    path = [tree.chain[rank] for rank in ranks]
    message_ids = {node.message_id for node in path if isinstance(node, AssistantNode)} - {None}
    on_path = set(ranks)
    missing = [node for rank, node in enumerate(tree.chain) if rank not in on_path]
    parts = [n for n in missing if isinstance(n, AssistantNode) and n.message_id in message_ids]
    owners = _owners_of_calls([*path, *parts])
    extras: dict[str, list[ChainNode]] = {}
    for node in missing:
        owner = _owner(node, owners)
        if owner in message_ids:
            extras.setdefault(owner or "", []).append(node)
    return _merge(path, extras)


def _owners_of_calls(nodes: Iterable[ChainNode]) -> dict[str, str | None]:
    return {
        call.id: node.message_id
        for node in nodes
        if isinstance(node, AssistantNode)
        for call in node.calls
    }


def _owner(node: ChainNode, owners: dict[str, str | None]) -> str | None:
    """Return the id of the message that a node is part of, or whose call it answers."""
    if isinstance(node, AssistantNode):
        return node.message_id
    if isinstance(node, UserNode):
        return next((owners[r.call_id] for r in node.results if r.call_id in owners), None)
    return None


def _merge(path: list[ChainNode], extras: dict[str, list[ChainNode]]) -> list[ChainNode]:
    """Insert the missing parts of each message after its last part on the path.

    The results of a message, on the path or not, are in file order.
    """
    # Two parallel calls of message m, with the parent of each line in brackets:
    #   1 call A, m     2 result A [1]     3 call B, m [1]     4 result B [3]     5 text [4]
    # The path to 5 is 1 3 4 5. Line 2 is a dead end, and goes after line 3, the last part of m on
    # the path. Results after it (4) are sorted together with it by index: 1 3 2 4 5.
    # Going backwards, the first part of m that is met is its last one; popping the extras there
    # makes sure that they are inserted only once.
    merged: list[ChainNode] = []
    for node in reversed(path):
        if isinstance(node, AssistantNode) and (missing := extras.pop(node.message_id or "", [])):
            results: list[ChainNode] = []
            while merged and isinstance(merged[-1], UserNode) and merged[-1].results:
                results.append(merged.pop())
            merged += sorted(results + missing, key=lambda entry: -entry.index)
        merged.append(node)
    return merged[::-1]
