"""A change to a session, before it is made: which entries go, which are rewritten, which are new.

A plan is made from nodes and applied line by line, so that a session need not fit in memory. Lines
that it does not concern keep their bytes.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from turnlog.conversation.node_log import NodeLog
from turnlog.conversation.nodes import BoundaryNode, ChainNode, Node
from turnlog.edit.effect import Tally
from turnlog.format.decode import Piece, split_values
from turnlog.format.json_values import Fields, is_object
from turnlog.format.jsonl import Line, line_end, read_lines

Rewrite = Callable[[Fields], Fields]
"""Gives the new content of an entry; the same object where nothing changes."""

UUID = rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
IS_UUID = re.compile(UUID).fullmatch
QUOTED_UUID = re.compile(rb'"(' + UUID + rb')"')
STRING = rb'"(?:[^"\\]|\\.)*"'
QUOTED = re.compile(STRING)
STRINGS = STRING + rb'|\[(?:[^][{}"]|' + STRING + rb")*\]"
NAMED = re.compile(rb'("\w*(?:[uU]uid|UUID|[mM]essageId)s?"\s*:\s*)(' + STRINGS + rb")")
"""A field that holds ids, by its name; and what it holds."""


@dataclass
class Plan:
    """What is to become of each entry of a file, by its index; what is not named stays."""

    log: NodeLog
    dropped: set[int] = field(default_factory=set[int])
    rewrites: dict[int, list[Rewrite]] = field(default_factory=dict[int, list[Rewrite]])
    everywhere: list[Rewrite] = field(default_factory=list[Rewrite])
    """Rewrites of every entry, after its own."""
    added: dict[int, list[Fields]] = field(default_factory=dict[int, list[Fields]])
    """New entries, behind the entry of an index; -1 for the start of the file."""
    ids: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    """New ids for old ones, wherever they stand; None for an entry that is gone without heir."""
    dropped_lines: set[int] = field(default_factory=set[int])
    """Numbers of lines of which all goes that no entry could be read from; entries that stand on
    one of them get lines of their own."""
    leaf: int | None = None
    """The rank of the entry where the only branch that stays is to end."""
    transcript: Path | None = None
    """A file that a summary says to read: a clone does not put its own in its place."""

    @property
    def tip(self) -> int | None:
        """The rank of the entry where the conversation will go on."""
        return self.log.tree.active_leaf if self.leaf is None else self.leaf

    @property
    def touched(self) -> set[int]:
        """The indexes of entries that do not simply stay."""
        return self.dropped | self.rewrites.keys() | self.added.keys()

    def drop(self, node: Node) -> None:
        self.dropped.add(node.index)

    def rewrite(self, node: Node, how: Rewrite) -> None:
        self.rewrites.setdefault(node.index, []).append(how)

    def add_after(self, index: int, entry: Fields) -> None:
        self.added.setdefault(index, []).append(entry)


def close_gaps(plan: Plan) -> None:
    """Let what followed on a dropped entry follow on the nearest one before it that stays."""
    tree = plan.log.tree
    _drop_replaced(plan)
    heirs: dict[int, str | None] = {}
    for rank, node in enumerate(tree.chain):
        if node.index in plan.dropped and node.uuid:
            if node.uuid not in plan.ids:
                plan.ids[node.uuid] = _heir(plan, rank, heirs)
        elif isinstance(node, BoundaryNode) and node.preserved:
            gone = {uuid for uuid in node.preserved.all_uuids or [] if _is_dropped(plan, uuid)}
            gone |= {uuid for uuid in node.preserved.uuids or [] if _is_dropped(plan, uuid)}
            if gone:
                plan.rewrite(node, partial(without_preserved, gone=gone))
    for node in tree.orphans:
        rank = tree.ranks[node.uuid or ""]
        parent = tree.parents[rank]
        # Where the client starts anew, it is to start after the change as well.
        if rank not in tree.cuts and parent >= 0 and tree.chain[parent].index in plan.dropped:
            plan.rewrite(node, _hung_on(node.parent, _heir(plan, parent, heirs)))


def _hung_on(gone: str | None, heir: str | None) -> Rewrite:
    """Lets an entry whose parent is not in the file name the one that it really follows on.

    Clients go by times to find it, and would find none that is near enough (observed: 2.1.325).
    """
    return lambda value: value | {"parentUuid": heir} if value.get("parentUuid") == gone else value


def main_nodes(log: NodeLog) -> Iterator[ChainNode]:
    """The entries of the main conversation, with those that a later one of their uuid replaces."""
    is_agent = all(node.is_sidechain for node in log.tree.chain)
    for node in log.nodes:
        if isinstance(node, ChainNode) and (is_agent or not node.is_sidechain):
            yield node


def replaced_nodes(log: NodeLog) -> dict[str | None, list[ChainNode]]:
    """The entries that a later one replaces, by the uuid that they have in common."""
    counting = {node.index for node in log.tree.chain}
    found: dict[str | None, list[ChainNode]] = {}
    for node in main_nodes(log):
        if node.index not in counting:
            found.setdefault(node.uuid, []).append(node)
    return found


def _drop_replaced(plan: Plan) -> None:
    """Drop with an entry those that it replaced: they would come back in its place."""
    gone = {node.uuid for node in plan.log.tree.chain if node.index in plan.dropped}
    replaced = replaced_nodes(plan.log) if gone else {}
    for uuid in gone & replaced.keys():
        for node in replaced[uuid]:
            plan.drop(node)


def _is_dropped(plan: Plan, uuid: str) -> bool:
    rank = plan.log.tree.rank_of(uuid)
    return rank is not None and plan.log.tree.chain[rank].index in plan.dropped


def without_preserved(value: Fields, gone: set[str]) -> Fields:
    """A compaction's list of what it preserved, without what is gone: no heir takes its place."""
    metadata = dict(value["compactMetadata"])
    if "preservedMessages" not in metadata:  # straightened
        return value
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


def carry_out(plan: Plan, tally: Tally | None = None) -> Iterator[bytes]:
    """The lines of the file as the plan wants it, counted in a tally on the way."""
    tally = tally or Tally(plan.log)
    tally.begin(plan.log, plan.tip)
    swap = swapping(plan.ids)
    line = b"\n"
    for raw in _carried_out(plan, tally):
        # A last line without its newline stays so, unless something is to follow it.
        line = swap(raw) if line.endswith(b"\n") else b"\n" + swap(raw)
        tally.bytes_after += len(line)
        yield line


def _carried_out(plan: Plan, tally: Tally) -> Iterator[bytes]:
    yield from _added(plan, -1, tally)
    nodes = iter(plan.log.nodes)
    node = next(nodes, None)
    touched = plan.touched
    for line in read_lines(plan.log.path):
        held: list[Node] = []
        while node is not None and node.line == line.number:
            held.append(node)
            node = next(nodes, None)
        if len(held) == 1 and held[0].index in plan.dropped:
            tally.drop(held[0], line.raw)
        elif line.number in plan.dropped_lines or _concerns(plan, touched, held):
            yield from _rewritten(plan, line, held, tally)
        else:
            yield line.raw
        for each in held:
            yield from _added(plan, each.index, tally)


def _concerns(plan: Plan, touched: set[int], nodes: list[Node]) -> bool:
    return bool(plan.everywhere and nodes) or any(node.index in touched for node in nodes)


def _rewritten(plan: Plan, line: Line, nodes: list[Node], tally: Tally) -> Iterator[bytes]:
    """A line with its entries as the plan wants them; others on it keep their bytes."""
    pieces, rest = split_values(line)
    is_mended = line.number in plan.dropped_lines
    if sum(is_object(piece.value) for piece in pieces) != len(nodes):
        # One of them can be typed, but not be written again.
        yield line.raw
        return
    left = iter(nodes)
    kept: list[bytes] = []
    for piece in pieces:
        if is_object(piece.value):
            kept += _one(plan, next(left), piece, tally)
        elif not is_mended:
            kept.append(piece.raw)
    if is_mended:
        yield from (raw.rstrip() + line_end(line.raw) for raw in kept)
    elif kept == [piece.raw for piece in pieces]:
        yield line.raw
    elif kept:
        # What cannot be read goes with an entry of its line that goes.
        is_rest = rest and len(kept) == len(pieces)
        yield b" ".join([*kept, rest] if is_rest else kept).rstrip() + line_end(line.raw)


def _one(plan: Plan, node: Node, piece: Piece, tally: Tally) -> Iterator[bytes]:
    if node.index in plan.dropped:
        tally.drop(node, piece.raw)
        return
    kept = piece.value
    for how in [*plan.rewrites.get(node.index, []), *plan.everywhere]:
        kept = how(kept)
    if kept is piece.value or (kept == piece.value and _is_sound(piece.raw)):
        yield piece.raw
        return
    new = encoded(kept)
    tally.rewrite(node, piece.raw, new)
    yield new


def _is_sound(raw: bytes) -> bool:
    """Whether every client can read an entry as it is written: if not, it is written anew."""
    try:
        msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _added(plan: Plan, index: int, tally: Tally) -> Iterator[bytes]:
    for entry in plan.added.get(index, []):
        raw = encoded(entry) + b"\n"
        tally.add(raw)
        yield raw


def swapping(ids: dict[str, str | None]) -> Callable[[bytes], bytes]:
    """A function that puts new ids in the place of old ones, and leaves all other bytes.

    What is not a UUID may be any word: it is an id only where a field says so.
    """
    known = {old.encode(): _quoted(new) for old, new in ids.items()}
    are_uuids = [IS_UUID(old) is not None for old in known]

    def swap(raw: bytes) -> bytes:
        return QUOTED_UUID.sub(lambda found: known.get(found[1], found[0]), raw)

    def swap_named(raw: bytes) -> bytes:
        return NAMED.sub(lambda field: field[1] + swap_all(field[2]), raw)

    def swap_all(raw: bytes) -> bytes:
        return QUOTED.sub(lambda found: known.get(found[0][1:-1], found[0]), raw)

    if all(are_uuids):
        return swap if known else lambda raw: raw
    return (lambda raw: swap_named(swap(raw))) if any(are_uuids) else swap_named


def _quoted(name: str | None) -> bytes:
    return b"null" if name is None else f'"{name}"'.encode()


def encoded(value: Fields) -> bytes:
    """An entry as JSON, on one line."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # half of a surrogate pair has no UTF-8
        return json.dumps(value, separators=(",", ":")).encode()
