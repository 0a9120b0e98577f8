"""A planned change to a session: entries to drop, rewrite and add.

A plan is made from nodes and applied line by line, so a session need not fit in memory. Lines that
it does not affect keep their bytes.
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
from turnlog.format.decode import MARK, JsonPiece, split_values
from turnlog.format.json_values import Fields, is_object
from turnlog.format.jsonl import Line, line_end, read_lines

Rewrite = Callable[[Fields], Fields]
"""Returns the new content of an entry; the same object if nothing changes."""

UUID = rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
IS_UUID = re.compile(UUID).fullmatch
QUOTED_UUID = re.compile(rb'"(' + UUID + rb')"')
STRING = rb'"(?:[^"\\]|\\.)*"'
QUOTED = re.compile(STRING)
STRINGS = STRING + rb'|\[(?:[^][{}"]|' + STRING + rb")*\]"
NAMED = re.compile(rb'("\w*(?:[uU]uid|UUID|[mM]essageId)s?"\s*:\s*)(' + STRINGS + rb")")
"""A field whose name marks it as an id or a list of ids, and its value."""


@dataclass
class Plan:
    """The changes to a file's entries, by entry index; unlisted entries stay as they are."""

    log: NodeLog
    dropped: set[int] = field(default_factory=set[int])
    rewrites: dict[int, list[Rewrite]] = field(default_factory=dict[int, list[Rewrite]])
    everywhere: list[Rewrite] = field(default_factory=list[Rewrite])
    """Rewrites applied to every entry, after its own."""
    added: dict[int, list[Fields]] = field(default_factory=dict[int, list[Fields]])
    """New entries to insert after the entry with this index; -1 for the start of the file."""
    ids: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    """New ids for old ones wherever they occur; None for a dropped entry without an ancestor."""
    dropped_lines: set[int] = field(default_factory=set[int])
    """Lines whose unreadable remains are dropped; their readable entries get lines of their own."""
    stripped: set[int] = field(default_factory=set[int])
    """Indexes of entries from which only calls or results are removed."""
    is_retimed: bool = False
    """True if times are changed so much that they no longer tell what came first."""
    marks: dict[int, Fields] = field(default_factory=dict[int, Fields])
    """Fields that tell what the plan did; they do not count as changes."""
    leaf: int | None = None
    """Rank of the leaf, if only one branch is kept."""
    transcript: Path | None = None
    """A file that a summary refers to; cloning must not replace the session id in its path."""

    @property
    def tip(self) -> int | None:
        """Rank of the entry where the conversation will continue."""
        return self.log.tree.active_leaf if self.leaf is None else self.leaf

    @property
    def touched(self) -> set[int]:
        """Indexes of entries that are dropped, rewritten or followed by new ones."""
        return self.dropped | self.rewrites.keys() | self.added.keys() | self.marks.keys()

    def drop(self, node: Node) -> None:
        self.dropped.add(node.index)

    def rewrite(self, node: Node, how: Rewrite) -> None:
        self.rewrites.setdefault(node.index, []).append(how)

    def add_after(self, index: int, entry: Fields) -> None:
        self.added.setdefault(index, []).append(entry)


def close_gaps(plan: Plan) -> None:
    """Reattach the children of dropped entries to the nearest kept ancestor."""
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
        # An entry at which the client starts reading (a cut) must stay a starting point.
        if rank not in tree.cuts and parent >= 0 and tree.chain[parent].index in plan.dropped:
            plan.rewrite(node, _with_real_parent(node.parent, _heir(plan, parent, heirs)))


def _with_real_parent(gone: str | None, heir: str | None) -> Rewrite:
    """Return a rewrite that sets the real parent of an entry whose parent is not in the file.

    Clients guess the parent of such an entry by timestamps, and would find none that is near enough
    (observed: 2.1.325).
    """
    return lambda value: value | {"parentUuid": heir} if value.get("parentUuid") == gone else value


def main_nodes(log: NodeLog) -> Iterator[ChainNode]:
    """Yield the entries of the main conversation, including those replaced by a later duplicate."""
    is_agent = all(node.is_sidechain for node in log.tree.chain)
    for node in log.nodes:
        if isinstance(node, ChainNode) and (is_agent or not node.is_sidechain):
            yield node


def replaced_nodes(log: NodeLog) -> dict[str | None, list[ChainNode]]:
    """Return the entries that were replaced by a later entry with the same uuid, by uuid."""
    counting = {node.index for node in log.tree.chain}
    found: dict[str | None, list[ChainNode]] = {}
    for node in main_nodes(log):
        if node.index not in counting:
            found.setdefault(node.uuid, []).append(node)
    return found


def _drop_replaced(plan: Plan) -> None:
    """Drop the duplicates of dropped entries too: clients would read them instead."""
    gone = {node.uuid for node in plan.log.tree.chain if node.index in plan.dropped}
    replaced = replaced_nodes(plan.log) if gone else {}
    for uuid in gone & replaced.keys():
        for node in replaced[uuid]:
            plan.drop(node)


def _is_dropped(plan: Plan, uuid: str) -> bool:
    rank = plan.log.tree.rank_of(uuid)
    return rank is not None and plan.log.tree.chain[rank].index in plan.dropped


def without_preserved(value: Fields, gone: set[str]) -> Fields:
    """Remove dropped messages from a compaction's list of preserved ones."""
    metadata = dict(value["compactMetadata"])
    if "preservedMessages" not in metadata:  # straightened
        return value
    kept = dict(metadata["preservedMessages"])
    # Elsewhere a dropped id is replaced by its ancestor's. Not here: the ancestor was not
    # preserved, and must not be listed as if it were.
    for name in ("uuids", "allUuids"):
        if name in kept:
            kept[name] = [uuid for uuid in kept[name] if uuid not in gone]
    metadata["preservedMessages"] = kept
    if kept.get("uuids") and is_object(metadata.get("preservedSegment")):
        ends = {"headUuid": kept["uuids"][0], "tailUuid": kept["uuids"][-1]}
        metadata["preservedSegment"] = metadata["preservedSegment"] | ends
    return value | {"compactMetadata": metadata}


def _heir(plan: Plan, rank: int, heirs: dict[int, str | None]) -> str | None:
    """Return the uuid of the nearest kept ancestor, caching it for all entries on the way."""
    tree = plan.log.tree
    # Without the cache, dropping a chain of n entries would take n²/2 steps: each entry would walk
    # to the start of the chain again.
    passed: list[int] = []
    while rank >= 0 and rank not in heirs and tree.chain[rank].index in plan.dropped:
        passed.append(rank)
        rank = tree.parents[rank]
    found = heirs[rank] if rank in heirs else tree.chain[rank].uuid if rank >= 0 else None
    heirs.update(dict.fromkeys(passed, found))
    return found


def carry_out(plan: Plan, tally: Tally | None = None) -> Iterator[bytes]:
    """Yield the lines of the changed file, counting changes in a tally."""
    tally = tally or Tally(plan.log)
    tally.begin(plan.log, plan.tip)
    swap = id_replacer(plan.ids)
    line = b"\n"
    for raw in _carried_out(plan, tally):
        # A last line without a newline stays as it is, unless a line follows.
        line = swap(raw) if line.endswith(b"\n") else b"\n" + swap(raw)
        tally.bytes_after += len(line)
        yield line


def _carried_out(plan: Plan, tally: Tally) -> Iterator[bytes]:
    yield from _added(plan, -1, tally)
    nodes = iter(plan.log.nodes)
    node = next(nodes, None)
    touched = plan.touched
    for line in read_lines(plan.log.path):
        here: list[Node] = []
        while node is not None and node.line == line.number:
            here.append(node)
            node = next(nodes, None)
        if len(here) == 1 and here[0].index in plan.dropped:
            tally.drop(here[0], line.raw)
        elif line.number in plan.dropped_lines or _concerns(plan, touched, here):
            yield from _rewritten(plan, line, here, tally)
        else:
            yield line.raw
        for each in here:
            yield from _added(plan, each.index, tally)


def _concerns(plan: Plan, touched: set[int], nodes: list[Node]) -> bool:
    return bool(plan.everywhere and nodes) or any(node.index in touched for node in nodes)


def _rewritten(plan: Plan, line: Line, nodes: list[Node], tally: Tally) -> Iterator[bytes]:
    """Yield a line with its entries rewritten; other values on it keep their bytes."""
    pieces, rest = split_values(line)
    is_mended = line.number in plan.dropped_lines
    if sum(is_object(piece.value) for piece in pieces) != len(nodes):
        # Some entry could be decoded leniently but not split off: leave the line alone.
        yield line.raw
        return
    remaining = iter(nodes)
    kept: list[bytes] = []
    for piece in pieces:
        if is_object(piece.value):
            kept += _one(plan, next(remaining), piece, tally)
        elif not is_mended:
            kept.append(piece.raw)
    if is_mended:
        yield from (raw.rstrip() + line_end(line.raw) for raw in kept)
    elif kept == [piece.raw for piece in pieces]:
        yield line.raw
    elif kept:
        # If an entry of the line is dropped, the unreadable rest of the line is dropped with it.
        is_rest = rest and len(kept) == len(pieces)
        raw = b" ".join([*kept, rest] if is_rest else kept).rstrip() + line_end(line.raw)
        yield MARK + raw if line.raw.startswith(MARK) and not raw.startswith(MARK) else raw


def _one(plan: Plan, node: Node, piece: JsonPiece, tally: Tally) -> Iterator[bytes]:
    if node.index in plan.dropped:
        tally.drop(node, piece.raw)
        return
    kept = piece.value
    for how in [*plan.rewrites.get(node.index, []), *plan.everywhere]:
        kept = how(kept)
    mark = plan.marks.get(node.index, {})
    if kept is piece.value or (kept == piece.value and _is_sound(piece.raw)):
        yield _with_mark(piece, mark) if mark else piece.raw
        return
    new = encoded(kept | mark)
    # The piece may end with the newline of its line, which is written again after the new entry.
    tally.rewrite(node, piece.raw.rstrip(), new)
    yield new


def _with_mark(piece: JsonPiece, mark: Fields) -> bytes:
    """Return an entry with added fields; every other byte stays as it is."""
    if mark.keys() & piece.value.keys():
        return encoded(piece.value | mark) + piece.raw[len(piece.raw.rstrip()) :]
    head, _, tail = piece.raw.rpartition(b"}")
    return head + b"," + encoded(mark)[1:] + tail


def _is_sound(raw: bytes) -> bool:
    """Return whether every client can parse an entry as it is; if not, it is encoded again."""
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


def id_replacer(ids: dict[str, str | None]) -> Callable[[bytes], bytes]:
    """Return a function that replaces ids in a line and leaves all other bytes alone."""
    # Replacing bytes is exact where decoding and encoding is not: number formats, escapes, key
    # order and unknown fields survive. A quoted UUID cannot be anything but an id, so it is
    # replaced wherever it occurs: in {"parentUuid":"<old>"} as well as in a list of uuids. Ids of
    # other exporters may be ordinary words: with an entry named "1", text such as "retries":"1"
    # must stay, so those are replaced only in fields named like an id ("parentUuid", "messageId").
    known = {_raw(old): _quoted(new) for old, new in ids.items()}
    are_uuids = [IS_UUID(old) is not None for old in known]

    def swap(raw: bytes) -> bytes:
        return QUOTED_UUID.sub(lambda found: known.get(found[1], found[0]), raw)

    def swap_named(raw: bytes) -> bytes:
        return NAMED.sub(lambda field: field[1] + swap_all(field[2]), raw)

    def swap_all(raw: bytes) -> bytes:
        return QUOTED.sub(lambda found: known.get(_unquoted(found[0]), found[0]), raw)

    if all(are_uuids):
        return swap if known else lambda raw: raw
    return (lambda raw: swap_named(swap(raw))) if any(are_uuids) else swap_named


def _quoted(name: str | None) -> bytes:
    return json.dumps(name).encode()


def _unquoted(quoted: bytes) -> bytes:
    """Return the content of a JSON string; an id may be written with escapes."""
    if b"\\" not in quoted:
        return quoted[1:-1]
    try:
        return _raw(json.loads(quoted))
    except ValueError:
        return quoted[1:-1]


def _raw(name: str) -> bytes:
    # JSON can name half a surrogate pair, which has no form in UTF-8.
    return name.encode("utf-8", "surrogatepass")


def encoded(value: Fields) -> bytes:
    """Encode an entry as JSON on one line."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate: only json can escape it
        return json.dumps(value, separators=(",", ":")).encode()
