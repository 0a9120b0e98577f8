"""Repair how entries are linked: uuids, times and parents."""

from datetime import UTC, datetime
from functools import partial
from itertools import pairwise, zip_longest
from typing import Any

from turnlog.conversation.nodes import BoundaryNode, ChainNode
from turnlog.conversation.tree import can_be_tip, is_compaction
from turnlog.edit.check.checked_session import Case, Fault, is_talk
from turnlog.edit.check.line_checks import flat_content
from turnlog.edit.plan import Plan, main_nodes, without_preserved
from turnlog.edit.repair.repair_types import Repair, marked_nodes, new_uuid, set_fields
from turnlog.edit.transforms import TransformOptions, straighten
from turnlog.format.json_values import Fields, is_array, is_object
from turnlog.format.timestamps import TICK, parse_timestamp, stamp_of


def drop_lines_without_content(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Drop lines without content, unless no other line would be left."""
    nodes = marked_nodes(marks)
    # A session without any line could not be resumed at all.
    if len(nodes) < sum(is_talk(node) for node in main_nodes(case.session)):
        plan.dropped |= {node.index for node in nodes}


def wrap_contents(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Move flat content into a message, where clients read it."""
    nodes = marked_nodes(marks)
    for node, value in zip(nodes, case.session.values(nodes), strict=True):
        message = {"role": node.kind, "content": flat_content(value)}
        set_fields(plan, node, message=message)


def set_types(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Set the missing type of entries, derived from their messages."""
    for node in marked_nodes(marks):
        set_fields(plan, node, type=node.kind)


def name_entries(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Assign uuids to entries without one: the missing parent of the next entry, or a new uuid.

    An entry that names no known parent is attached to the entry before it.
    """
    known = set(case.session.tree.ranks)
    nodes = [node for node in main_nodes(case.session) if node.index not in plan.dropped]
    before = None
    for node, following in zip_longest(nodes, nodes[1:]):
        name = node.uuid
        if not name:
            named = following.parent if following else None
            # If the next entry names a parent that does not exist, it most likely means this one.
            name = named if named and named not in known else new_uuid()
            set_fields(plan, node, uuid=name)
            if node.parent not in known and not isinstance(node, BoundaryNode):
                set_fields(plan, node, parentUuid=before)
            known.add(name)
        before = name


def set_times(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Set missing times to a moment after the preceding entry."""
    missing = {node.index for node in marked_nodes(marks)}
    nodes = list(main_nodes(case.session))
    clock = _start_of_time(case, nodes, missing)
    for node in nodes:
        if node.index in missing:
            clock += TICK
            set_fields(plan, node, timestamp=stamp_of(clock))
        else:
            clock = parse_timestamp(node.time) or clock


def separate_duplicates(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Keep the last of identical entries; assign new uuids to those that differ."""
    for mark in marks:
        uuid = (mark.node and mark.node.uuid) or ""
        # Identical content is a repeated write. Different content is two entries that share a uuid
        # by mistake.
        contents = case.facts.twins[uuid]
        last = {content: index for index, content in sorted(contents.items())}
        for index in contents.keys() - set(last.values()):
            plan.drop(case.session.nodes[index])
        for first, second in pairwise(sorted(last.values())):
            end = _rename(case, plan, uuid, first, second)
            later = case.session.nodes[second]
            # The later entry continues the conversation after the descendants of the first one.
            if mark.rule == "duplicate-uuid" and end and not isinstance(later, BoundaryNode):
                set_fields(plan, later, parentUuid=end)


def attach_parentless(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Attach entries without the field `parentUuid` to the entry before them."""
    tree = case.session.tree
    for node in case.facts.parentless:
        rank = tree.rank_of(node.uuid)
        if rank and tree.chain[rank] is node and not is_compaction(node):
            set_fields(plan, node, parentUuid=tree.chain[rank - 1].uuid)


def attach_to_found_parents(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Set the parents that the check determined."""
    for mark in marks:
        if mark.node:
            set_fields(plan, mark.node, parentUuid=mark.onto.uuid if mark.onto else None)


def join_ends(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Attach the tip's conversation to the end of the one it hid, and update the tip note."""
    attach_to_found_parents(case, marks, plan)
    # A tip note that names an older entry would override the tip once a compaction comes in
    # between.
    tree = case.session.tree
    if tree.tip_note and tree.active_leaf is not None:
        tip = tree.chain[tree.active_leaf].uuid
        plan.rewrite(tree.tip_note, lambda value: value | {"leafUuid": tip})


def forget_preserved(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Remove missing messages from a compaction's lists of preserved ones."""
    for mark in marks:
        if isinstance(mark.node, BoundaryNode) and mark.node.preserved:
            kept = mark.node.preserved
            named = {*(kept.uuids or []), *(kept.all_uuids or [])}
            gone = {uuid for uuid in named if case.session.tree.rank_of(uuid) is None}
            plan.rewrite(mark.node, partial(_without_gone, gone=gone))


def set_anchor(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Attach preserved messages to the summary, or to the boundary if the summary is missing."""
    for mark in marks:
        if mark.node and mark.onto:
            plan.rewrite(mark.node, partial(_anchored, uuid=mark.onto.uuid))


def make_straight(case: Case, marks: list[Fault], plan: Plan) -> None:
    """Turn the conversation into one chain, including entries that name no parent."""
    straighten(case.session, plan, TransformOptions())
    branch = case.session.branch_to(case.session.tree.active_leaf)
    before = None
    for node in branch:
        if before and node.parent is None and not is_compaction(node):
            set_fields(plan, node, parentUuid=before.uuid)
        before = node if can_be_tip(node) else before


def _start_of_time(case: Case, nodes: list[ChainNode], missing: set[int]) -> datetime:
    """Return a start time that leaves room for leading entries without a time."""
    count = 1
    for node in nodes:
        if node.index in missing:
            count += 1
        elif moment := parse_timestamp(node.time):
            return moment - TICK * count
    return datetime.fromtimestamp(case.session.state.mtime_ns / 1e9, UTC)


def _rename(case: Case, plan: Plan, uuid: str, first: int, second: int) -> str | None:
    """Rename the first of two entries with the same uuid, and references to it up to the second.

    Return the last descendant of the first; None if the second already descends from it.
    """
    nodes = case.session.nodes
    name = end = new_uuid()
    set_fields(plan, nodes[first], uuid=name)
    below = {uuid}
    # Entries between the two can only mean the first one; later ones mean the second.
    for node in nodes[first + 1 : second]:
        plan.rewrite(node, partial(_with_name, old=uuid, new=name))
        if isinstance(node, ChainNode) and node.uuid and node.parent in below:
            below.add(node.uuid)
            end = node.uuid
    later = nodes[second]
    return None if isinstance(later, ChainNode) and later.parent in below - {uuid} else end


def _with_name(value: Fields, old: str, new: str) -> Fields:
    changed = _replaced(value, old, new)
    return changed if changed != value else value


def _replaced(value: Any, old: str, new: str) -> Any:
    if is_object(value):
        return {key: _replaced(item, old, new) for key, item in value.items()}
    if is_array(value):
        return [_replaced(each, old, new) for each in value]
    return new if value == old else value


def _without_gone(value: Fields, gone: set[str]) -> Fields:
    """Remove missing messages from a compaction; if none is left, remove the lists."""
    changed = without_preserved(value, gone)
    metadata = changed["compactMetadata"]
    if metadata["preservedMessages"].get("uuids"):
        return changed
    lists = ("preservedMessages", "preservedSegment")
    kept = {key: field for key, field in metadata.items() if key not in lists}
    return changed | {"compactMetadata": kept}


def _anchored(value: Fields, uuid: str | None) -> Fields:
    metadata = dict(value["compactMetadata"])
    for name in ("preservedMessages", "preservedSegment"):
        if is_object(metadata.get(name)):
            metadata[name] = metadata[name] | {"anchorUuid": uuid}
    return value | {"compactMetadata": metadata}


NAMES: dict[str, Repair] = {
    "no-message": drop_lines_without_content,
    "flat-message": wrap_contents,
    "no-type": set_types,
    "no-uuid": name_entries,
    "no-uuid-cut": name_entries,
    "no-uuid-old": name_entries,
    "no-timestamp": set_times,
    "no-timestamp-old": set_times,
}
TWINS: dict[str, Repair] = {
    "duplicate-uuid": separate_duplicates,
    "duplicate-uuid-note": separate_duplicates,
}
PARENTS: dict[str, Repair] = {
    "no-parent": attach_parentless,
    "dangling-parent": attach_to_found_parents,
    "dangling-parent-old": attach_to_found_parents,
    "unknown-parent": attach_to_found_parents,
    "unknown-parent-old": attach_to_found_parents,
    "circular-parents": attach_to_found_parents,
    "circular-parents-cut": attach_to_found_parents,
}
ENDS: dict[str, Repair] = {
    "second-root": join_ends,
    "stray-tip": join_ends,
    "gone-preserved": forget_preserved,
    "gone-anchor": set_anchor,
}
STRAIGHT: dict[str, Repair] = {
    "parallel-results": make_straight,
    "late-time": make_straight,
    "progress-parent": make_straight,
}
