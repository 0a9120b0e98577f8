"""The entries that belong to one branch: its path, and what a walk from child to parent misses.

Since 2.1.29 each result of parallel calls hangs on its own call, and the next message on only one
of them: the other calls and results are dead ends of the tree, yet part of the conversation.
"""

from collections.abc import Iterable, Sequence

from turnlog.conversation.nodes import AssistantNode, BoundaryNode, ChainNode, UserNode
from turnlog.conversation.tree import Tree, is_compaction


def whole_branch(tree: Tree, leaf: int) -> list[ChainNode]:
    """Every node of the branch that ends at a leaf, across compactions."""
    return _with_siblings(tree, tree.path_to(leaf))


def since_compaction(tree: Tree, leaf: int) -> list[ChainNode]:
    """The nodes that the client sends at a leaf: since the last compaction or missing parent.

    Messages that the compaction preserved follow on its summary; if one of them is gone, so are all
    (observed: 2.1.325).
    """
    ranks = tree.resumed_path(leaf)[::-1]
    cuts = [place for place, rank in enumerate(ranks) if is_compaction(tree.chain[rank])]
    if cuts:
        ranks = ranks[cuts[-1] :]
        boundary = tree.chain[ranks[0]]
        if isinstance(boundary, BoundaryNode):
            ranks = _with_preserved(tree, boundary, ranks)
    return _with_siblings(tree, ranks)


def _with_preserved(tree: Tree, boundary: BoundaryNode, ranks: list[int]) -> list[int]:
    preserved = boundary.preserved
    if preserved is None:
        return ranks
    kept = [tree.rank_of(uuid) for uuid in preserved.uuids or []]
    anchor = tree.rank_of(preserved.anchor_uuid or None)
    if anchor not in ranks or None in kept:
        return ranks
    place = ranks.index(anchor) + 1
    before, found, after = ranks[:place], [rank for rank in kept if rank is not None], ranks[place:]
    if anchor in found:
        # They follow on one of their own: the client walks the circle once (observed: 2.1.325).
        return (found[found.index(anchor) + 1 :] or found) + after
    return before + found + after


def _with_siblings(tree: Tree, ranks: Sequence[int]) -> list[ChainNode]:
    """Put the missing parts of each message, and the results of its calls, where they belong."""
    path = [tree.chain[rank] for rank in ranks]
    wanted = {node.message_id for node in path if isinstance(node, AssistantNode)} - {None}
    on_path = set(ranks)
    missing = [node for rank, node in enumerate(tree.chain) if rank not in on_path]
    parts = [n for n in missing if isinstance(n, AssistantNode) and n.message_id in wanted]
    owners = _owners_of_calls([*path, *parts])
    extras: dict[str, list[ChainNode]] = {}
    for node in missing:
        owner = _owner(node, owners)
        if owner in wanted:
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
    """The id of the message that a node is a part of, or answers a call of."""
    if isinstance(node, AssistantNode):
        return node.message_id
    if isinstance(node, UserNode):
        return next((owners[r.call_id] for r in node.results if r.call_id in owners), None)
    return None


def _merge(path: list[ChainNode], extras: dict[str, list[ChainNode]]) -> list[ChainNode]:
    """Put what was missing of a message behind the last part of it that is on the path.

    Its results, on the path or not, come in the order of the file.
    """
    merged: list[ChainNode] = []
    for node in reversed(path):
        if isinstance(node, AssistantNode) and (missing := extras.pop(node.message_id or "", [])):
            results: list[ChainNode] = []
            while merged and isinstance(merged[-1], UserNode) and merged[-1].results:
                results.append(merged.pop())
            merged += sorted(results + missing, key=lambda each: -each.index)
        merged.append(node)
    return merged[::-1]
