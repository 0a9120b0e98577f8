"""What is wrong with how the entries hang together, and with calls and results among them."""

from bisect import bisect
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from turnlog.conversation.nodes import AssistantNode, BoundaryNode, ChainNode, TipNode, UserNode
from turnlog.conversation.prompts import ASKING, PromptKind
from turnlog.conversation.tree import Tree, can_be_tip, is_compaction, is_progress
from turnlog.edit.check.checked_session import Case, Check, Fault, is_talk, mark_at, some
from turnlog.format.timestamps import parse_timestamp

UNREAD = ("unreadable-line", "unreadable-note")


class Gap(NamedTuple):
    """An entry on the path whose parent does not exist for the client."""

    node: ChainNode
    onto: ChainNode
    """What it follows on: for the client, or in the file where the client starts here."""
    is_bridged: bool
    """Whether the client goes on with another entry."""
    is_unknown: bool
    """Whether the parent is in the file, but of an unknown type."""


def no_uuid(case: Case) -> Iterator[Fault]:
    """The client keeps one line without a uuid, the last; nothing can name it as its parent."""
    nodes = case.facts.nameless
    lost = [node for node in nodes[:-1] if is_talk(node)]
    is_cut = any(not gap.onto.uuid and not gap.is_bridged for gap in _gaps(case))
    rule = "no-uuid" if lost else "no-uuid-cut" if is_cut else "no-uuid-old"
    for node in lost or nodes[-1:]:
        yield mark_at(rule, node)


def no_parent(case: Case) -> Iterator[Fault]:
    first = case.session.tree.chain[:1]
    for node in case.facts.parentless:
        starts = node in first or is_compaction(node) or not node.uuid
        if is_talk(node) and node.index in case.sent_indexes and not starts:
            yield mark_at("no-parent", node)


def dangling_parents(case: Case) -> Iterator[Fault]:
    broken = sorted(mark.line or 0 for mark in case.facts.marks if mark.rule in UNREAD)
    for gap in _gaps(case):
        is_unread = bisect(broken, gap.onto.line) < bisect(broken, gap.node.line)
        is_named = gap.node.uuid and gap.onto.uuid
        if is_named and not is_unread and not gap.is_unknown:  # else it is told already
            rule = "dangling-parent-old" if gap.is_bridged else "dangling-parent"
            yield mark_at(rule, gap.node, gap.onto)


def unknown_parents(case: Case) -> Iterator[Fault]:
    """An entry of a type that a client does not know is not there for it."""
    for gap in _gaps(case):
        if gap.is_unknown:
            rule = "unknown-parent-old" if gap.is_bridged else "unknown-parent"
            yield mark_at(rule, gap.node, gap.onto)


def progress_parents(case: Case) -> Iterator[Fault]:
    """Clients up to 2.0.76 do not know progress entries, and stop at one in the chain."""
    tree = case.session.tree
    for rank in case.path:
        node = tree.chain[rank]
        named = tree.rank_of(node.parent)
        above = tree.links[rank]
        is_behind = named is not None and is_progress(tree.chain[named])
        if is_behind and above >= 0 and can_be_tip(node):
            yield mark_at("progress-parent", node, tree.chain[above])


def circular_parents(case: Case) -> Iterator[Fault]:
    """Where the tree had to cut a circle, a node is not joined to the parent that it names."""
    tree = case.session.tree
    for rank, node in enumerate(tree.chain):
        named = tree.rank_of(node.parent) if node.uuid else None
        used = tree.parents[rank]
        if named is not None and used != named:
            is_cut = used >= 0 and case.path[-1:] == [rank] and not is_compaction(node)
            rule = "circular-parents-cut" if is_cut else "circular-parents"
            yield mark_at(rule, node, tree.chain[used] if used >= 0 else None)


def duplicate_uuids(case: Case) -> Iterator[Fault]:
    tree = case.session.tree
    for uuid, contents in case.facts.twins.items():
        rank = tree.rank_of(uuid)
        if rank is None:
            continue
        node = tree.chain[rank]
        twins = [case.session.nodes[index] for index in contents]
        differ = len(set(contents.values())) > 1 and any(map(is_talk, twins))
        is_lost = differ and node.index in case.sent_indexes
        yield mark_at("duplicate-uuid" if is_lost else "duplicate-uuid-note", node)


def second_root(case: Case) -> Iterator[Fault]:
    """An earlier conversation in the same file that nothing joins to the one that is sent."""
    tree = case.session.tree
    root = case.path[-1] if case.path else None
    if root is None or is_compaction(tree.chain[root]) or tree.chain[root].uuid is None:
        return
    if not tree.is_root(root):  # told as a missing parent
        return
    start = tree.chain[root]
    if is_talk(start) and any(node is start for node in case.facts.parentless):
        return
    following = root
    for rank in reversed(tree.roots):
        first = tree.chain[rank]
        if rank == root or first.index > start.index or is_compaction(first) or not first.uuid:
            continue
        lost = _lost_talk(case, [rank])
        if _has_answer(lost) and case.last_rewind < lost[-1].index:
            facts = {"lost": some(len(lost), "line")}
            end = _end_of(tree, rank, following)
            yield Fault("second-root", start.line, facts, tree.chain[following], end)
            following = rank


def stray_tip(case: Case) -> Iterator[Fault]:
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
                facts = {"lost": some(len(lost), "line")}
                end = _end_of(tree, tree.rank_of(lost[-1].uuid) or rank, before)
                yield Fault("stray-tip", tree.chain[leaf].line, facts, tree.chain[before], end)
            return
        asks = isinstance(node, UserNode) and node.prompt in ASKING
        if isinstance(node, AssistantNode) or (asks and not has_notes):
            return
        before, said = rank, said + is_talk(node)


def parallel_results(case: Case) -> Iterator[Fault]:
    """Clients up to 2.1.45 follow parents from the latest entry, and see nothing beside them."""
    tree = case.session.tree
    first = tree.chain[case.path[-1]] if case.path else None
    # What a compaction preserved is known to no client that would lose it.
    start = first.index if isinstance(first, BoundaryNode) else -1
    latest = [] if tree.newest_leaf is None else tree.ancestors(tree.newest_leaf)
    kept = [rank for rank in _preserved(case) if rank is not None]
    seen = case.path_indexes | {tree.chain[rank].index for rank in [*latest, *kept]}
    missed = [node for node in case.sent if node.index > start and node.index not in seen]
    aside = [node for node in missed if node.uuid and is_talk(node)]
    results = sum(len(node.results) for node in aside if isinstance(node, UserNode))
    if aside:
        told = some(results, "result"), some(len(aside), "line")
        yield mark_at("parallel-results", aside[0], results=told[0], lines=told[1])


def late_times(case: Case) -> Iterator[Fault]:
    """Clients up to 2.1.45 go on at the latest time, wherever that stands."""
    tree = case.session.tree
    if tree.newest_leaf is None or not case.path or tree.newest_leaf == case.path[0]:
        return
    if parse_timestamp(tree.chain[case.path[0]].time) is None:
        return
    seen = set(tree.ancestors(tree.newest_leaf))
    lost = [rank for rank in case.path if is_talk(tree.chain[rank]) and rank not in seen]
    if lost:
        newest = tree.chain[tree.newest_leaf]
        yield mark_at("late-time", newest, lost=some(len(lost), "line"))


def gone_preserved(case: Case) -> Iterator[Fault]:
    missing = [rank for rank in _preserved(case) if rank is None]
    if missing:
        boundary = case.session.tree.chain[case.path[-1]]
        yield mark_at("gone-preserved", boundary, gone=len(missing))


def gone_anchor(case: Case) -> Iterator[Fault]:
    """Preserved messages follow on an anchor; what followed on it follows on them."""
    nodes = [case.session.tree.chain[rank] for rank in reversed(case.path)]
    boundary = nodes[0] if nodes else None
    if not isinstance(boundary, BoundaryNode) or not _preserved(case):
        return
    anchor = boundary.preserved.anchor_uuid if boundary.preserved else None
    named = {uuid for node in nodes for uuid in (node.uuid, node.parent)}
    if anchor not in named:
        is_summary = len(nodes) > 1 and _is_summary(nodes[1])
        yield mark_at("gone-anchor", boundary, nodes[1] if is_summary else boundary)


def unanswered_calls(case: Case) -> Iterator[Fault]:
    for name, node in case.unanswered.items():
        yield mark_at(
            "open-call" if name in case.open_calls else "unanswered-call", node, call=name
        )


def orphan_results(case: Case) -> Iterator[Fault]:
    calls = {c.id for node in case.sent if isinstance(node, AssistantNode) for c in node.calls}
    for node in case.sent:
        if isinstance(node, UserNode) and any(r.call_id not in calls for r in node.results):
            yield mark_at("orphan-result", node)


def duplicate_calls(case: Case) -> Iterator[Fault]:
    seen: Counter[str] = Counter()
    for node in case.sent:
        for call in node.calls if isinstance(node, AssistantNode) else ():
            seen[call.id] += 1
            if seen[call.id] > 1:
                yield mark_at("duplicate-call", node)


def unnamed_answers(case: Case) -> Iterator[Fault]:
    """Clients take answers without a message id for one, as far as results go.

    They join user lines first: a prompt right behind a result does not part two answers.
    """
    is_first = True
    between: list[UserNode] = []
    for node in case.sent:
        if isinstance(node, UserNode):
            between.append(node)
        elif isinstance(node, AssistantNode):
            is_first = is_first or (bool(between) and not any(each.results for each in between))
            between.clear()
            if node.message_id is None:
                if not is_first:
                    yield mark_at("no-message-id", node)
                is_first = False


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


def _gaps(case: Case) -> Iterator[Gap]:
    """Entries on the path whose parent is not in the file, or of a type that clients ignore."""
    tree = case.session.tree
    for place, rank in enumerate(case.path):
        node = tree.chain[rank]
        if tree.links[rank] >= 0 or tree.is_root(rank) or is_compaction(node):
            continue
        is_bridged = place + 1 < len(case.path)
        onto = case.path[place + 1] if is_bridged else _joined_to(tree, rank)
        if onto >= 0:
            named = tree.rank_of(node.parent)
            is_unknown = named is not None and not is_progress(tree.chain[named])
            yield Gap(node, tree.chain[onto], is_bridged, is_unknown)


def _joined_to(tree: Tree, rank: int) -> int:
    """The nearest entry above a node that clients read, or the one right above it; -1 for none."""
    above = first = tree.parents[rank]
    while above >= 0 and not can_be_tip(tree.chain[above]):
        above = tree.parents[above]
    return above if above >= 0 else first


def _is_summary(node: ChainNode) -> bool:
    return isinstance(node, UserNode) and node.prompt is PromptKind.COMPACT_SUMMARY


def _end_of(tree: Tree, rank: int, aside: int) -> ChainNode:
    """The last tip in the file that follows on a node, across compactions, and not on another."""
    for leaf in reversed(tree.leaves):
        path = tree.path_to(leaf)
        if rank in path and aside not in path:
            return tree.chain[leaf]
    return tree.chain[rank]


def _has_answer(nodes: list[ChainNode]) -> bool:
    return any(isinstance(node, AssistantNode) and not node.is_error for node in nodes)


CHECKS: tuple[Check, ...] = (
    no_uuid,
    no_parent,
    dangling_parents,
    unknown_parents,
    progress_parents,
    circular_parents,
    duplicate_uuids,
    second_root,
    stray_tip,
    parallel_results,
    late_times,
    gone_preserved,
    gone_anchor,
    unanswered_calls,
    orphan_results,
    duplicate_calls,
    unnamed_answers,
)
