"""Check how entries are linked, and how calls and results match."""

from bisect import bisect, bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from turnlog.conversation.nodes import AssistantNode, BoundaryNode, ChainNode, TipNode, UserNode
from turnlog.conversation.prompts import ASKING, PromptKind
from turnlog.conversation.tree import Tree, can_be_tip, is_compaction, is_progress
from turnlog.edit.check.checked_session import (
    Case,
    Check,
    Fault,
    has_answer,
    is_talk,
    mark_at,
    some,
)
from turnlog.format.timestamps import parse_timestamp

UNREAD = ("unreadable-line", "several-values", "no-type")
"""Faults of lines that leave a gap, which is not reported again."""


class Gap(NamedTuple):
    """An entry on the path whose parent does not exist for the client."""

    node: ChainNode
    onto: ChainNode
    """The parent that the client uses instead; if it starts here, the parent in turnlog's tree."""
    is_bridged: bool
    """True if the client continues with another entry."""
    is_unknown: bool
    """True if the parent is in the file, but has an unknown type."""


def no_uuid(case: Case) -> Iterator[Fault]:
    """Yield lines without a uuid.

    The client keeps only the last of them, and no other line can name it as its parent.
    """
    nodes = case.facts.nameless
    lost = [node for node in nodes[:-1] if is_talk(node)]
    gaps = {gap.is_bridged: gap.node for gap in _gaps(case) if not gap.onto.uuid}
    is_bridged, start = False not in gaps, gaps.get(False, gaps.get(True))
    rule = "no-uuid" if lost else "no-uuid-old" if is_bridged else "no-uuid-cut"
    for node in lost or nodes[-1:]:
        if start:
            case.starts[node.line] = start
        yield mark_at(rule, node)._replace(lost=[node] if lost else ())


def no_parent(case: Case) -> Iterator[Fault]:
    """Yield lines without the field `parentUuid`, except the first line."""
    first, indexes = case.tree.chain[:1], {node.index for node in case.whole}
    for node in case.facts.parentless:
        starts = node in first or is_compaction(node) or not node.uuid
        if is_talk(node) and node.index in indexes and not starts:
            yield mark_at("no-parent", node)


def dangling_parents(case: Case) -> Iterator[Fault]:
    """Yield entries whose parent is not in the file."""
    broken = sorted(mark.line or 0 for mark in case.facts.marks if mark.rule in UNREAD)
    for gap in _gaps(case):
        place = bisect(broken, gap.node.line)
        if gap.is_bridged:
            case.bridged.add(gap.node.index)
        # A line of several entries is both: the client reads the first one only.
        if bisect_left(broken, gap.onto.line) < place:
            case.starts[broken[place - 1]] = gap.node
        elif gap.node.uuid and gap.onto.uuid and not gap.is_unknown:  # else reported elsewhere
            rule = "dangling-parent-old" if gap.is_bridged else "dangling-parent"
            yield mark_at(rule, gap.node, gap.onto)


def unknown_parents(case: Case) -> Iterator[Fault]:
    """Yield entries whose parent has a type that clients do not know, and therefore ignore."""
    for gap in _gaps(case):
        if gap.is_unknown:
            rule = "unknown-parent-old" if gap.is_bridged else "unknown-parent"
            yield mark_at(rule, gap.node, gap.onto)


def progress_parents(case: Case) -> Iterator[Fault]:
    """Yield entries below a progress entry, where clients up to 2.0.76 stop reading."""
    tree = case.tree
    for rank in case.path:
        node = tree.chain[rank]
        named = tree.rank_of(node.parent)
        above = tree.links[rank]
        is_behind = named is not None and is_progress(tree.chain[named])
        if is_behind and above >= 0 and can_be_tip(node):
            yield mark_at("progress-parent", node, tree.chain[above])


def circular_parents(case: Case) -> Iterator[Fault]:
    """Yield nodes that are part of a cycle of parents."""
    tree = case.tree
    # The tree breaks a cycle by giving one of its nodes another parent than the one it names: with
    # A -> B -> A in the file, A is attached to the entry before it. That difference is the
    # evidence.
    for rank, node in enumerate(tree.chain):
        named = tree.rank_of(node.parent) if node.uuid else None
        used = tree.parents[rank]
        if named is not None and used != named:
            is_cut = used >= 0 and case.path[-1:] == [rank] and not is_compaction(node)
            rule = "circular-parents-cut" if is_cut else "circular-parents"
            yield mark_at(rule, node, tree.chain[used] if used >= 0 else None)


def duplicate_uuids(case: Case) -> Iterator[Fault]:
    """Yield entries that share their uuid with another one."""
    tree = case.tree
    for uuid, contents in case.facts.twins.items():
        rank = tree.rank_of(uuid)
        if rank is None:
            continue
        node = tree.chain[rank]
        twins = [case.session.nodes[index] for index in contents]
        differ = len(set(contents.values())) > 1 and any(map(is_talk, twins))
        is_lost = differ and node.index in case.sent_indexes
        fault = mark_at("duplicate-uuid" if is_lost else "duplicate-uuid-note", node)
        yield fault._replace(lost=[twin for twin in twins if twin is not node])


def second_root(case: Case) -> Iterator[Fault]:
    """Yield entries without a parent that hide an earlier conversation in the file."""
    for rank in case.history:
        node = case.tree.chain[rank]
        is_start = case.tree.parents[rank] < 0 and not is_compaction(node)
        if is_start and not case.is_parentless(node) and (end := case.end_before(rank)) >= 0:
            yield mark_at("second-root", node, case.tree.chain[end])


def stray_tip(case: Case) -> Iterator[Fault]:
    """Yield a fault if the last line has an old parent, so that lines after the parent are lost."""
    tree, leaf = case.tree, case.tree.active_leaf
    if leaf is None or leaf != tree.leaves[-1]:
        return
    has_notes = any(isinstance(node, TipNode) for node in case.session.nodes)
    # Walk up from the tip. Branches that the user created by going back must not be reported, so
    # stop at the first answer and, if the file has no notes about rewinds, at the first prompt.
    # Example: after 50 turns, a note is attached to turn 3. The client would then resume at turn 3
    # without the other 47.
    before, said = leaf, 0
    for rank in case.path:
        node = tree.chain[rank]
        others = [child for child in tree.children.get(rank, []) if child != before]
        lost = case.lost_talk(others) if others and rank != leaf else []
        if lost and isinstance(lost[-1], AssistantNode) and len(lost) > said:
            if has_answer(lost) and case.last_rewind < lost[-1].index:
                end = tree.chain[case.last_leaf(tree.rank_of(lost[-1].uuid) or rank, before)]
                line = tree.chain[leaf].line
                yield Fault("stray-tip", line, {}, tree.chain[before], end, lost=lost)
            return
        asks = isinstance(node, UserNode) and node.prompt in ASKING
        if isinstance(node, AssistantNode) or (asks and not has_notes):
            return
        before, said = rank, said + is_talk(node)


def parallel_results(case: Case) -> Iterator[Fault]:
    """Yield a fault for entries that are not among the ancestors of the latest one.

    Clients up to 2.1.45 follow parents from the latest entry, and miss parallel results.
    """
    tree = case.tree
    first = tree.chain[case.path[-1]] if case.path else None
    # Clients old enough to miss parallel results do not write compactions that preserve messages.
    start = first.index if isinstance(first, BoundaryNode) else -1
    latest = [] if tree.newest_leaf is None else tree.ancestors(tree.newest_leaf)
    kept = [rank for rank in _preserved(case) if rank is not None]
    visible = case.path_indexes | {tree.chain[rank].index for rank in [*latest, *kept]}
    missed = [node for node in case.read if node.index > start and node.index not in visible]
    lost = [node for node in missed if node.uuid and is_talk(node)]
    results = sum(len(node.results) for node in lost if isinstance(node, UserNode))
    if lost:
        counts = some(results, "result"), some(len(lost), "line")
        fault = mark_at("parallel-results", lost[0], results=counts[0], lines=counts[1])
        yield fault._replace(lost=lost)


def late_times(case: Case) -> Iterator[Fault]:
    """Yield a fault if the latest entry is not the tip: clients up to 2.1.45 resume at it."""
    tree = case.tree
    if tree.newest_leaf is None or not case.path or tree.newest_leaf == case.path[0]:
        return
    if parse_timestamp(tree.chain[case.path[0]].time) is None:
        return
    visible = set(tree.ancestors(tree.newest_leaf))
    lost = [tree.chain[rank] for rank in case.path if rank not in visible]
    lost = [node for node in lost if is_talk(node)]
    if lost:
        newest = tree.chain[tree.newest_leaf]
        yield mark_at("late-time", newest, lost=some(len(lost), "line"))._replace(lost=lost)


def gone_preserved(case: Case) -> Iterator[Fault]:
    """Yield a fault if messages that the last compaction preserved are missing."""
    missing = [rank for rank in _preserved(case) if rank is None]
    if missing:
        boundary = case.tree.chain[case.path[-1]]
        fault = mark_at("gone-preserved", boundary, gone=len(missing))
        yield fault._replace(lost=_present(case))


def gone_anchor(case: Case) -> Iterator[Fault]:
    """Yield a fault if the anchor of preserved messages is missing."""
    nodes = [case.tree.chain[rank] for rank in reversed(case.path)]
    boundary = nodes[0] if nodes else None
    if not isinstance(boundary, BoundaryNode) or not _preserved(case):
        return
    anchor = boundary.preserved.anchor_uuid if boundary.preserved else None
    # Preserved messages follow their anchor, and the entries that followed the anchor follow them.
    named = {uuid for node in nodes for uuid in (node.uuid, node.parent)}
    if anchor not in named:
        is_summary = len(nodes) > 1 and _is_summary(nodes[1])
        fault = mark_at("gone-anchor", boundary, nodes[1] if is_summary else boundary)
        yield fault._replace(lost=_present(case))


def unanswered_calls(case: Case) -> Iterator[Fault]:
    """Yield calls without a result."""
    for name, node in case.unanswered.items():
        yield mark_at(
            "open-call" if name in case.open_calls else "unanswered-call", node, call=name
        )


def orphan_results(case: Case) -> Iterator[Fault]:
    """Yield lines with results whose call is not sent."""
    calls = {c.id for node in case.sent if isinstance(node, AssistantNode) for c in node.calls}
    for node in case.sent:
        if isinstance(node, UserNode) and any(r.call_id not in calls for r in node.results):
            yield mark_at("orphan-result", node)


def duplicate_calls(case: Case) -> Iterator[Fault]:
    """Yield calls whose id was used before."""
    counts: Counter[str] = Counter()
    for node in case.sent:
        for call in node.calls if isinstance(node, AssistantNode) else ():
            counts[call.id] += 1
            if counts[call.id] > 1:
                yield mark_at("duplicate-call", node)


def unnamed_answers(case: Case) -> Iterator[Fault]:
    """Yield answers without a message id that clients would merge with an earlier answer.

    Clients merge such answers across results. They join user lines first: a prompt right after a
    result does not separate two answers.
    """
    # Two answers "a" and "b" of one turn, separated only by a result, become one message if neither
    # has an id.
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
    """Return the ranks of messages that the last compaction preserved; None for missing ones."""
    tree = case.tree
    boundary = tree.chain[case.path[-1]] if case.path else None
    if not isinstance(boundary, BoundaryNode) or boundary.preserved is None:
        return []
    return [tree.rank_of(uuid) for uuid in boundary.preserved.uuids or []]


def _present(case: Case) -> list[ChainNode]:
    """Return those messages that the last compaction preserved and that are in the file."""
    return [case.tree.chain[rank] for rank in _preserved(case) if rank is not None]


def _gaps(case: Case) -> Iterator[Gap]:
    """Yield entries of the history whose parent is missing or of a type that clients ignore."""
    tree, end = case.tree, len(case.path)
    seen: set[int] = set()
    skips: dict[int, int] = {}
    for position, rank in enumerate(case.history):
        node = tree.chain[rank]
        seen.add(rank)
        if tree.links[rank] >= 0 or tree.is_root(rank) or is_compaction(node) or is_progress(node):
            continue
        if position + 1 < end:
            onto, is_bridged = case.path[position + 1], True
        else:  # where the client would walk on if the breaks before it were mended
            onto = _joined_to(tree, rank)
            is_bridged = tree.timeline.latest_before(rank, seen, skips) >= 0
        if onto >= 0:
            named = tree.rank_of(node.parent)
            is_unknown = named is not None and not is_progress(tree.chain[named])
            yield Gap(node, tree.chain[onto], is_bridged, is_unknown)


def _joined_to(tree: Tree, rank: int) -> int:
    """Return the nearest ancestor that clients read, else the direct parent; -1 for none."""
    above = first = tree.parents[rank]
    while above >= 0 and not can_be_tip(tree.chain[above]):
        above = tree.parents[above]
    return above if above >= 0 else first


def _is_summary(node: ChainNode) -> bool:
    return isinstance(node, UserNode) and node.prompt is PromptKind.COMPACT_SUMMARY


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
