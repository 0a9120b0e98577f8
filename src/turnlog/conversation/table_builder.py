"""Build the node table of a session that was read from its file."""

import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from turnlog.conversation.calls import Call
from turnlog.conversation.milestones import chain_children
from turnlog.conversation.node_log import is_sidechain
from turnlog.conversation.node_table import (
    NONE,
    TYPES,
    Columns,
    NodeTable,
    StaleTable,
    TableHead,
    full_version,
    hash_name,
    probe_of,
    table_in_memory,
)
from turnlog.conversation.nodes import AssistantNode, BoundaryNode, ChainNode, Node, TipNode
from turnlog.conversation.prompts import ASKING
from turnlog.conversation.session import Session, version_of
from turnlog.conversation.session_tail import is_independent, names_of, names_within
from turnlog.conversation.table_outline import encode_figures
from turnlog.conversation.table_session import TableSession
from turnlog.conversation.timeline import moment_of
from turnlog.conversation.tree import Tree
from turnlog.conversation.turn_blocks import NEEDED, encode_blocks
from turnlog.conversation.turn_figures import figures_of, models_of
from turnlog.conversation.turns import Turn
from turnlog.format.jsonl import Bookmark
from turnlog.format.regular_files import open_regular

LONGEST_TAIL = 1 << 20
"""Maximum size in bytes of the tail, which is read whenever the session is opened."""
TRIED_TURNS = 5
"""Number of last turns in which to look for the start of the tail; local commands are skipped."""


class TableParts(NamedTuple):
    """A table to be written."""

    head: TableHead
    columns: Columns


class Cut(NamedTuple):
    """The place between the lines that a table describes and the tail."""

    offset: int
    lines: int
    nodes: int
    turns: int
    boundary: ChainNode


def build_table(session: Session, version: str) -> TableParts | None:
    """Return the table of a session; None if its tree is not suitable."""
    sides = {node.is_sidechain for node in session.nodes if isinstance(node, ChainNode)}
    if len(sides) != 1 or not session.turns:
        return None  # a sub-agent in a session's own file: its prompts have to be compared anyway
    tables = (build_at(session, cut, version) for cut in possible_cuts(session))
    return next(filter(None, tables), None)


def build_at(session: Session, cut: Cut, version: str) -> TableParts | None:
    """Return the table that ends at a cut; None if it would not yield the turns of the session."""
    try:
        parts = _Builder(session, cut).build(version)
    except (IndexError, OverflowError):
        return None  # branches that the tail continues, or numbers that no client writes
    # Trust no shortcut: the table is opened once and compared with the session, before anyone
    # relies on it.
    return parts if _is_equal(session, cut, table_in_memory(*parts)) else None


def possible_cuts(session: Session) -> Iterator[Cut]:
    """Yield the places to end the table at, the best one first."""
    # A tail that starts at the last prompt can grow: its lines are read again. A table that covers
    # the whole file can only be followed by lines that start with a prompt.
    for turn in reversed(session.turns[-TRIED_TURNS:]):
        if turn.n > 1 and turn.kind in ASKING:
            cut = _cut_at(session, turn)
            if cut and session.state.size - cut.offset <= LONGEST_TAIL:
                yield cut
            break
    extent, leaf = session.extent, session.tree.active_leaf
    if leaf is not None and extent.offset == session.state.size:
        count, boundary = len(session.nodes), session.tree.chain[leaf]
        yield Cut(extent.offset, extent.lines, count, len(session.turns), boundary)


def _cut_at(session: Session, turn: Turn) -> Cut | None:
    """Return the cut before a turn; None if later lines depend on earlier ones."""
    prompt = turn.prompt
    rank = session.tree.rank_of(prompt.parent) if prompt else None
    if not prompt or prompt.position or rank is None:
        return None
    boundary = session.tree.chain[rank]
    early, late = session.nodes[: prompt.index], session.nodes[prompt.index :]
    wanted = {name for node in late for name in names_of(node)}
    known = wanted.intersection(_names(early))
    if boundary.index >= prompt.index or not is_independent(
        late, boundary.uuid, known.__contains__
    ):
        return None
    return Cut(prompt.offset, prompt.line - 1, prompt.index, turn.n - 1, boundary)


def _is_equal(session: Session, cut: Cut, table: NodeTable) -> bool:
    """Return whether a table with its tail yields the turns of the session."""
    try:
        opened = TableSession(session.path, table)
    except StaleTable:
        return False
    turns = session.turns
    late, early = turns[cut.turns :], turns[: cut.turns]
    return (
        all(rank < cut.nodes for turn in early for rank in _ranks_in(turn))
        and len(opened.turns) == len(turns)
        and all(a == b for a, b in zip(opened.turns[cut.turns :], late, strict=True))
    )


def _ranks_in(turn: Turn) -> Iterator[int]:
    for node in turn.nodes:
        yield node.index
    for message in turn.messages:
        for node in message.nodes:
            yield node.index
    for call in turn.calls:
        yield call.use.index
        if call.result:
            yield call.result.index


class _Builder:
    """Fills the columns of a table."""

    def __init__(self, session: Session, cut: Cut) -> None:
        self.session = session
        self.cut = cut
        self.nodes: Sequence[Node] = session.nodes[: cut.nodes]
        self.turns = session.turns[: cut.turns]
        self.models = models_of(self.turns)
        self.columns: dict[str, array[Any]] = {}

    def build(self, version: str) -> TableParts:
        self._add_nodes()
        self._add_turns()
        self._add_calls()
        self._add_milestones()
        figures = list(map(figures_of, self.turns))
        self.columns |= encode_figures(figures, self.models)
        needed = {name: [getattr(each, name) for each in figures] for name in NEEDED}
        self.columns |= encode_blocks(needed, self.models)
        return TableParts(self._head(version), self.columns)

    def _add(self, name: str, values: Iterable[Any]) -> None:
        self.columns[name] = array(TYPES[name], values)

    def _add_nodes(self) -> None:
        nodes = self.nodes
        self._add("offset", [node.offset for node in nodes])
        self._add("size", [node.size for node in nodes])
        self._add("line", [node.line for node in nodes])
        self._add("position", [node.position for node in nodes])
        self._add("checksum", _checksums(self.session.path, nodes))
        self._add("parent", _parents(self.session.tree, nodes))
        turn_of = [0] * len(nodes)
        for turn in self.turns:
            for node in turn.nodes:
                turn_of[node.index] = turn.n
        self._add("turn_of", turn_of)
        self._add("names", sorted(set(map(hash_name, _names(nodes)))))

    def _add_turns(self) -> None:
        turns = self.turns
        self._add("branch", [node.index for turn in turns for node in turn.nodes])
        self._add("turn_start", _starts(len(turn.nodes) for turn in turns))
        self._add("turn_prompt", [t.prompt.index if t.prompt else NONE for t in turns])
        messages = [message for turn in turns for message in turn.messages]
        self._add("turn_message_start", _starts(len(turn.messages) for turn in turns))
        self._add("message_start", _starts(len(message.nodes) for message in messages))
        self._add("message_nodes", [node.index for each in messages for node in each.nodes])

    def _add_calls(self) -> None:
        calls = [call for call in self.session.calls if call.use.index < self.cut.nodes]
        ranks = {id(call): rank for rank, call in enumerate(calls)}
        self._add("turn_call_start", _starts(len(turn.calls) for turn in self.turns))
        self._add("turn_calls", [ranks[id(call)] for turn in self.turns for call in turn.calls])
        self._add("call_use", [call.use.index for call in calls])
        self._add("call_use_place", map(_use_place, calls))
        self._add("call_result", [c.result.index if c.result else NONE for c in calls])
        self._add("call_result_place", map(_result_place, calls))
        named = sorted((hash_name(call.id), rank) for rank, call in enumerate(calls))
        self._add("call_names", [name for name, _ in named])
        self._add("calls_by_name", [rank for _, rank in named])
        self._add("agent_calls", [rank for rank, call in enumerate(calls) if call.agent_id])

    def _add_milestones(self) -> None:
        stones = self.session.milestones
        ranks = [stones.node(number).index for number in range(len(stones))]
        count = bisect_left(ranks, self.cut.nodes)
        child, sibling = chain_children(stones)
        # The table is read front to back, so parents have to come first.
        if any(0 <= low <= number for number, low in enumerate(child)):
            raise IndexError("a milestone follows a later line")
        numbers = range(count)
        self._add("stone", ranks[:count])
        self._add("stone_child", [_early(child[number], count) for number in numbers])
        self._add("stone_sibling", [_early(sibling[number], count) for number in numbers])
        self._add("stone_active", [stones.is_active(number) for number in numbers])
        self._add("first_stones", [number for number in stones.firsts if number < count])
        self._add("stone_depth", [stones.depth(number) for number in numbers])
        ends = [number for number in numbers if _early(child[number], count) == NONE]
        self._add("stone_end", ends)
        self._add("end_entry", [stones.last_entry(number).index for number in ends])

    def _head(self, version: str) -> TableHead:
        session, cut, tree = self.session, self.cut, self.session.tree
        chain = [node for node in tree.chain if node.index < cut.nodes]
        last = max(self.turns[-1].nodes, key=lambda node: node.time or "") if self.turns else None
        named = (n for n in reversed(chain) if isinstance(n, AssistantNode) and version_of([n]))
        return TableHead(
            version=full_version(version),
            path=str(session.path.absolute()),
            state=(session.state.inode, session.state.size, session.state.mtime_ns),
            offset=cut.offset,
            probe=probe_of(Bookmark.at(session.path, cut.offset)),
            lines=cut.lines,
            boundary=cut.boundary.index,
            is_sidechain=is_sidechain(cut.boundary),
            can_grow=self._can_grow(),
            orphan_time=_orphan_time(tree, chain),
            last_time_node=last.index if last else 0,
            slug_node=session.slug_index if session.slug_index < cut.nodes else NONE,
            version_node=next((node.index for node in named), NONE),
            has_problems=any(p.offset < cut.offset for p in session.problems),
            models=self.models,
        )

    def _can_grow(self) -> bool:
        is_named = bool(self.cut.boundary.uuid)
        return is_named and _has_prompt(self.turns) and self._is_tip_note_above()

    def _is_tip_note_above(self) -> bool:
        """Return whether no recorded tip can overrule the tips of later lines."""
        note: TipNode | None = None
        for node in self.nodes:
            if isinstance(node, TipNode):
                note = node if node.leaf.strip("0-") else note
            elif isinstance(node, BoundaryNode):
                note = None
        tree = self.session.tree
        noted = tree.rank_of(note.leaf) if note else None
        leaf = tree.rank_of(self.cut.boundary.uuid)
        return noted is None or (leaf is not None and tree.is_above(noted, leaf))


def _starts(lengths: Iterable[int]) -> list[int]:
    """Return the start of each part in the joined parts, and the end of the last one."""
    starts = [0]
    for length in lengths:
        starts.append(starts[-1] + length)
    return starts


def _names(nodes: Iterable[Node]) -> Iterator[str]:
    """Yield every id that some nodes have or refer to, in file order."""
    above = None
    for node in nodes:
        if isinstance(node, ChainNode):
            if node.uuid:
                yield node.uuid
            if node.parent and node.parent != above:  # most entries follow the one before
                yield node.parent
            if node.logical_parent:
                yield node.logical_parent
            yield from names_within(node)
            above = node.uuid
        elif isinstance(node, TipNode):
            yield node.leaf


def _checksums(path: Path, nodes: Sequence[Node]) -> Iterator[int]:
    at, end, checksum = -1, 0, 0
    with open_regular(path, 1 << 20) as file:
        for node in nodes:
            if node.offset != at:
                if end != node.offset:
                    file.seek(node.offset)
                raw = file.read(node.size)
                at, end, checksum = node.offset, node.offset + len(raw), zlib.crc32(raw)
            yield checksum


def _parents(tree: Tree, nodes: Sequence[Node]) -> list[int]:
    """Return the rank of the node before each node on its branch; ranks are those in the file."""
    above = [tree.step_back(rank) for rank in range(len(tree.chain))]
    parents = [NONE] * len(nodes)
    for rank, node in enumerate(tree.chain):
        if node.index < len(nodes) and above[rank] >= 0:
            parents[node.index] = tree.chain[above[rank]].index
    if len(tree.chain) == sum(isinstance(node, ChainNode) for node in nodes):
        return parents
    # An entry that was written again is in the tree once; earlier copies share its place.
    for node in nodes:
        rank = tree.rank_of(node.uuid) if isinstance(node, ChainNode) else None
        if rank is not None and tree.chain[rank] is not node and above[rank] >= 0:
            parents[node.index] = tree.chain[above[rank]].index
    return parents


def _has_prompt(turns: Sequence[Turn]) -> bool:
    """Return whether turns include a prompt; entries before the first one belong to its turn."""
    return len(turns) > 1 or any(turn.kind in ASKING for turn in turns)


def _use_place(call: Call) -> int:
    # The last one: of two calls with one id in a line, `pair_calls` keeps the second.
    return max(place for place, ref in enumerate(call.use.calls) if ref.id == call.id)


def _result_place(call: Call) -> int:
    wanted = call.id, call.is_error
    results = call.result.results if call.result else ()
    found = (place for place, ref in enumerate(results) if (ref.call_id, ref.is_error) == wanted)
    return next(found, 0)


def _early(number: int, count: int) -> int:
    return number if number < count else NONE


def _orphan_time(tree: Tree, chain: Sequence[ChainNode]) -> float | None:
    orphans = (node for node in chain if node.parent and node.parent not in tree.ranks)
    moments = [moment for node in orphans if (moment := moment_of(node))]
    return max(moments).timestamp() if moments else None
