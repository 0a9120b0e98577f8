"""A change to a session, before it is made: which entries go, which are rewritten, which are new.

A plan is made from nodes and applied line by line, so that a session need not fit in memory. Lines
that it does not concern keep their bytes.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from turnlog.conversation.log import Log
from turnlog.conversation.nodes import BoundaryNode, Node
from turnlog.format.decode import values_of
from turnlog.format.fields import is_object
from turnlog.format.jsonl import Line, read_lines

Fields = dict[str, Any]
Rewrite = Callable[[Fields], Fields]
"""Gives the new content of an entry; the same object where nothing changes."""

UUID = rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
QUOTED_UUID = re.compile(rb'"(' + UUID + rb')"')
QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"')
"""Any string: for sessions whose ids are not UUIDs."""


@dataclass
class Plan:
    """What is to become of each entry of a file, by its index; what is not named stays."""

    log: Log
    dropped: set[int] = field(default_factory=set[int])
    rewrites: dict[int, list[Rewrite]] = field(default_factory=dict[int, list[Rewrite]])
    added: dict[int, list[Fields]] = field(default_factory=dict[int, list[Fields]])
    """New entries, behind the entry of an index; -1 for the start of the file."""
    ids: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    """New ids for old ones, wherever they stand; None for an entry that is gone without heir."""

    @property
    def is_empty(self) -> bool:
        return not (self.dropped or self.rewrites or self.added or self.ids)

    def drop(self, node: Node) -> None:
        self.dropped.add(node.index)

    def rewrite(self, node: Node, how: Rewrite) -> None:
        self.rewrites.setdefault(node.index, []).append(how)

    def add_after(self, index: int, entry: Fields) -> None:
        self.added.setdefault(index, []).append(entry)


def close_gaps(plan: Plan) -> None:
    """Let what followed on a dropped entry follow on the nearest one before it that stays."""
    tree = plan.log.tree
    heirs: dict[int, str | None] = {}
    for rank, node in enumerate(tree.chain):
        if node.index in plan.dropped and node.uuid:
            plan.ids.setdefault(node.uuid, _heir(plan, rank, heirs))
        elif isinstance(node, BoundaryNode) and node.preserved:
            gone = {uuid for uuid in node.preserved.all_uuids or [] if _is_dropped(plan, uuid)}
            gone |= {uuid for uuid in node.preserved.uuids or [] if _is_dropped(plan, uuid)}
            if gone:
                plan.rewrite(node, partial(_without_preserved, gone=gone))


def _is_dropped(plan: Plan, uuid: str) -> bool:
    rank = plan.log.tree.rank_of(uuid)
    return rank is not None and plan.log.tree.chain[rank].index in plan.dropped


def _without_preserved(value: Fields, gone: set[str]) -> Fields:
    """A compaction's list of what it preserved, without what is gone: no heir takes its place."""
    metadata = dict(value["compactMetadata"])
    kept = dict(metadata["preservedMessages"])
    for name in ("uuids", "allUuids"):
        if name in kept:
            kept[name] = [uuid for uuid in kept[name] if uuid not in gone]
    metadata["preservedMessages"] = kept
    if kept.get("uuids") and is_object(metadata.get("preservedSegment")):
        ends = {"headUuid": kept["uuids"][0], "tailUuid": kept["uuids"][-1]}
        metadata["preservedSegment"] = metadata["preservedSegment"] | ends
    return value | {"compactMetadata": metadata}


def _heir(plan: Plan, rank: int, heirs: dict[int, str | None]) -> str | None:
    """The uuid of the nearest kept entry before one, remembering what was found on the way."""
    tree = plan.log.tree
    passed: list[int] = []
    while rank >= 0 and rank not in heirs and tree.chain[rank].index in plan.dropped:
        passed.append(rank)
        rank = tree.parents[rank]
    found = heirs[rank] if rank in heirs else tree.chain[rank].uuid if rank >= 0 else None
    heirs.update(dict.fromkeys(passed, found))
    return found


def carry_out(plan: Plan) -> Iterator[bytes]:
    """The lines of the file as the plan wants it."""
    nodes = _nodes_by_line(plan.log.nodes)
    swap = swapping(plan.ids)
    yield from map(_encoded, plan.added.get(-1, []))
    for number, line in enumerate(read_lines(plan.log.path), 1):
        held = nodes.get(number, [])
        if _is_touched(plan, held):
            for content in _rewritten(plan, line, held):
                yield swap(content)
        else:
            yield swap(_whole(line))


def _nodes_by_line(nodes: list[Node]) -> dict[int, list[Node]]:
    found: dict[int, list[Node]] = {}
    for node in nodes:
        found.setdefault(node.line, []).append(node)
    return found


def _is_touched(plan: Plan, nodes: list[Node]) -> bool:
    return any(
        node.index in plan.dropped or node.index in plan.rewrites or node.index in plan.added
        for node in nodes
    )


def _rewritten(plan: Plan, line: Line, nodes: list[Node]) -> Iterator[bytes]:
    values = [value for value in values_of(line) if is_object(value)]
    if len(values) != len(nodes):  # one of them can be typed, but not be written again
        yield _whole(line)
        return
    for node, value in zip(nodes, values, strict=True):
        yield from _one(plan, line, node, value, is_alone=len(nodes) == 1)
        yield from map(_encoded, plan.added.get(node.index, []))


def _one(plan: Plan, line: Line, node: Node, value: Fields, is_alone: bool) -> Iterator[bytes]:
    if node.index in plan.dropped:
        return
    rewrites = plan.rewrites.get(node.index, [])
    if not rewrites and is_alone:
        yield _whole(line)
        return
    kept = value
    for how in rewrites:
        kept = how(kept)
    yield _whole(line) if kept is value and is_alone else _encoded(kept)


def swapping(ids: dict[str, str | None]) -> Callable[[bytes], bytes]:
    """A function that puts new ids in the place of old ones, and leaves all other bytes."""
    if not ids:
        return lambda raw: raw
    known = {old.encode(): _quoted(new) for old, new in ids.items()}
    are_uuids = all(re.fullmatch(UUID, old) for old in known)
    pattern = QUOTED_UUID if are_uuids else QUOTED
    return lambda raw: pattern.sub(lambda found: known.get(found[1], found[0]), raw)


def _quoted(name: str | None) -> bytes:
    return b"null" if name is None else f'"{name}"'.encode()


def _encoded(value: Fields) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair has no UTF-8
        return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _whole(line: Line) -> bytes:
    return line.raw if line.is_whole else line.raw + b"\n"
