"""What is wrong with how the entries hang together, and with calls and results among them."""

from bisect import bisect
from collections import Counter
from collections.abc import Iterator

from turnlog.conversation.nodes import AssistantNode, BoundaryNode, ChainNode, TipNode, UserNode
from turnlog.conversation.prompts import ASKING
from turnlog.conversation.tree import is_compaction
from turnlog.edit.check_case import Case, Check, Mark, is_talk, some
from turnlog.format.timestamps import parse_timestamp

UNREAD = ("unreadable-line", "unreadable-note")


def no_uuid(case: Case) -> Iterator[Mark]:
    """The client keeps one line without a uuid, the last."""
    lines = case.facts.nameless
    if len(lines) == 1:
        yield Mark("no-uuid-old", lines[0])
    for line in lines[:-1]:
        yield Mark("no-uuid", line)


def dangling_parents(case: Case) -> Iterator[Mark]:
    tree, path = case.session.tree, set(case.path)
    broken = sorted(mark.line or 0 for mark in case.facts.marks if mark.rule in UNREAD)
    for node in tree.orphans:
        rank = tree.ranks.get(node.uuid or "", 0)
        before = tree.chain[rank - 1] if rank else node
        told = bisect(broken, before.line) < bisect(broken, node.line) or before.uuid is None
        if rank in path and not told:
            yield Mark("dangling-parent", node.line)


def circular_parents(case: Case) -> Iterator[Mark]:
    """Where the tree had to cut a circle, a node is not joined to the parent that it names."""
    tree = case.session.tree
    for rank, node in enumerate(tree.chain):
        named = tree.rank_of(node.parent) if node.uuid else None
        if named is not None and tree.parents[rank] != named:
            yield Mark("circular-parents", node.line)


def duplicate_uuids(case: Case) -> Iterator[Mark]:
    tree = case.session.tree
    for uuid, contents in case.facts.twins.items():
        rank = tree.rank_of(uuid)
        if rank is None:
            continue
        node = tree.chain[rank]
        is_lost = len(contents) > 1 and is_talk(node) and node.index in case.sent_indexes
        yield Mark("duplicate-uuid" if is_lost else "duplicate-uuid-note", node.line)


def second_root(case: Case) -> Iterator[Mark]:
    """An earlier conversation in the same file that nothing joins to the one that is sent."""
    tree = case.session.tree
    root = case.path[-1] if case.path else None
    if root is None or is_compaction(tree.chain[root]) or tree.chain[root].uuid is None:
        return
    start = tree.chain[root]
    if any(mark == Mark("no-parent", start.line) for mark in case.facts.marks):
        return
    for rank in tree.roots:
        first = tree.chain[rank]
        if rank == root or first.index > start.index or is_compaction(first) or not first.uuid:
            continue
        lost = _lost_talk(case, [rank])
        if _has_answer(lost) and case.last_rewind < lost[-1].index:
            yield Mark("second-root", start.line, {"lost": some(len(lost), "line")})


def stray_tip(case: Case) -> Iterator[Mark]:
    """A lone line hung on an old entry hides what really followed on that entry."""
    tree, leaf = case.session.tree, case.session.tree.active_leaf
    if leaf is None or leaf != tree.leaves[-1]:
        return
    has_notes = any(isinstance(node, TipNode) for node in case.session.nodes)
    before, said = leaf, 0
    for rank in case.path:
        node = tree.chain[rank]
        others = [child for child in tree.children.get(rank, []) if child != before]
        lost = _lost_talk(case, others) if others and rank != leaf else []
        if lost and isinstance(lost[-1], AssistantNode) and len(lost) > said:
            if _has_answer(lost) and case.last_rewind < lost[-1].index:
                yield Mark("stray-tip", tree.chain[leaf].line, {"lost": some(len(lost), "line")})
            return
        asks = isinstance(node, UserNode) and node.prompt in ASKING
        if isinstance(node, AssistantNode) or (asks and not has_notes):
            return
        before, said = rank, said + is_talk(node)


def parallel_results(case: Case) -> Iterator[Mark]:
    tree = case.session.tree
    on_path = {tree.chain[rank].index for rank in case.path}
    kept = {tree.chain[rank].index for rank in _preserved(case) if rank is not None}
    known = on_path | kept
    aside = [n for n in case.sent if n.index not in known and n.uuid and is_talk(n)]
    results = sum(len(node.results) for node in aside if isinstance(node, UserNode))
    if aside:
        yield Mark(
            "parallel-results",
            aside[0].line,
            {"results": some(results, "result"), "lines": some(len(aside), "line")},
        )


def late_times(case: Case) -> Iterator[Mark]:
    """Clients up to 2.1.45 go on at the latest time, wherever that stands."""
    tree = case.session.tree
    if tree.newest_leaf is None or not case.path or tree.newest_leaf == case.path[0]:
        return
    if parse_timestamp(tree.chain[case.path[0]].time) is None:
        return
    seen = set(tree.ancestors(tree.newest_leaf))
    lost = [rank for rank in case.path if is_talk(tree.chain[rank]) and rank not in seen]
    if lost:
        yield Mark(
            "late-time", tree.chain[tree.newest_leaf].line, {"lost": some(len(lost), "line")}
        )


def gone_preserved(case: Case) -> Iterator[Mark]:
    missing = [rank for rank in _preserved(case) if rank is None]
    if missing:
        line = case.session.tree.chain[case.path[-1]].line
        yield Mark("gone-preserved", line, {"gone": len(missing)})


def unanswered_calls(case: Case) -> Iterator[Mark]:
    for name, node in case.unanswered.items():
        yield Mark("open-call" if name in case.open_calls else "unanswered-call", node.line)


def orphan_results(case: Case) -> Iterator[Mark]:
    calls = {c.id for node in case.sent if isinstance(node, AssistantNode) for c in node.calls}
    for node in case.sent:
        if isinstance(node, UserNode) and any(r.call_id not in calls for r in node.results):
            yield Mark("orphan-result", node.line)


def duplicate_calls(case: Case) -> Iterator[Mark]:
    seen: Counter[str] = Counter()
    for node in case.sent:
        for call in node.calls if isinstance(node, AssistantNode) else ():
            seen[call.id] += 1
            if seen[call.id] > 1:
                yield Mark("duplicate-call", node.line)


def _preserved(case: Case) -> list[int | None]:
    """The ranks of the messages that the last compaction preserved; None for one that is gone."""
    tree = case.session.tree
    boundary = tree.chain[case.path[-1]] if case.path else None
    if not isinstance(boundary, BoundaryNode) or boundary.preserved is None:
        return []
    return [tree.rank_of(uuid) for uuid in boundary.preserved.uuids or []]


def _lost_talk(case: Case, ranks: list[int]) -> list[ChainNode]:
    """What the user and the model said at some nodes and below, and is not sent."""
    nodes = [node for rank in ranks for node in case.session.tree.below(rank)]
    lost = [node for node in nodes if is_talk(node) and node.index not in case.sent_indexes]
    return sorted(lost, key=lambda node: node.index)


def _has_answer(nodes: list[ChainNode]) -> bool:
    return any(isinstance(node, AssistantNode) and not node.is_error for node in nodes)


CHECKS: tuple[Check, ...] = (
    no_uuid,
    dangling_parents,
    circular_parents,
    duplicate_uuids,
    second_root,
    stray_tip,
    parallel_results,
    late_times,
    gone_preserved,
    unanswered_calls,
    orphan_results,
    duplicate_calls,
)
