"""A session opened with its node table: the same as one read from its file, but lazy.

Turns are built from their own lines when they are asked for. What the table does not hold is
computed from the whole file, read on first use; a table that proves stale is dropped for it.
"""

import os
import zlib
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, overload

from turnlog.conversation.calls import Call, Orphan
from turnlog.conversation.messages import Message, join_group
from turnlog.conversation.milestones import Milestones, TreeMilestones
from turnlog.conversation.node_table import NONE, NodeTable, StaleTable, hash_name
from turnlog.conversation.nodes import AssistantNode, ChainNode, Node, UserNode, node_of
from turnlog.conversation.prompts import Round
from turnlog.conversation.session import Session, open_session, version_of
from turnlog.conversation.session_tail import read_tail
from turnlog.conversation.subagents import SubAgent, subagents_in_files
from turnlog.conversation.tree import Tree
from turnlog.conversation.turns import EarlierTurns, Turn
from turnlog.format.decode import Problem, decode_line
from turnlog.format.entries import ChainEntry
from turnlog.format.jsonl import FileState, Line
from turnlog.format.portable import read_at
from turnlog.format.regular_files import open_descriptor

T = TypeVar("T")
N = TypeVar("N", bound=Node)

ROUNDS = tuple(Round)
UNKNOWN_IDLE = -(1 << 63)
MICROSECOND = timedelta(microseconds=1)
KEPT_TURNS = 64
"""Turns kept in memory; a page asks for the same ones several times."""
DAMAGED = (StaleTable, IndexError, KeyError, ValueError, OverflowError)
"""Raised by a table that does not fit its session. Its numbers are used as ranks and sizes: those
of a damaged table may be out of range."""


class TableReader:
    """Builds nodes, calls and turns from a table and the lines of its session."""

    def __init__(self, path: Path, table: NodeTable) -> None:
        self.path = path
        self.table = table

    def nodes(self, ranks: Iterable[int]) -> dict[int, Node]:
        """Return some nodes by rank, decoded from their lines."""
        file = open_descriptor(self.path)
        try:
            return {rank: self._node(file, rank) for rank in ranks}
        finally:
            os.close(file)

    def node(self, rank: int) -> Node:
        return self.nodes([rank])[rank]

    def slug(self, rank: int) -> str | None:
        """Return the nickname in an entry."""
        file = open_descriptor(self.path)
        try:
            entry = self._entry(self._line(file, rank), self.table["position"][rank])
        finally:
            os.close(file)
        return (entry.slug or None) if isinstance(entry, ChainEntry) else None

    def turn(self, place: int) -> Turn:
        """Return a turn, given its position on the active branch."""
        table = self.table
        branch = _slice(table, "turn_start", place, "branch")
        groups = [
            _slice(table, "message_start", message, "message_nodes")
            for message in _range(table, "turn_message_start", place)
        ]
        calls = _slice(table, "turn_call_start", place, "turn_calls")
        ends = [end for call in calls for end in self._ends_of(call)]
        wanted = dict.fromkeys([*branch, *(rank for group in groups for rank in group), *ends])
        nodes = self.nodes(wanted)
        prompt = table["turn_prompt"][place]
        idle = table["turn_idle"][place]
        return Turn(
            n=place + 1,
            prompt=None if prompt == NONE else _of(UserNode, nodes[prompt]),
            nodes=[_of(ChainNode, nodes[rank]) for rank in branch],
            round=ROUNDS[table["turn_round"][place]],
            messages=[join_group([_of(AssistantNode, nodes[r]) for r in g]) for g in groups],
            calls=[self._call(call, nodes) for call in calls],
            idle=None if idle == UNKNOWN_IDLE else idle * MICROSECOND,
        )

    def call(self, call: int) -> Call:
        """Return a call by its rank."""
        return self._call(call, self.nodes(self._ends_of(call)))

    def calls_named(self, name: str) -> list[Call]:
        """Return the calls with an id, in file order."""
        names, wanted = self.table["call_names"], hash_name(name)
        place = bisect_left(names, wanted)
        found: list[int] = []
        while place < len(names) and names[place] == wanted:
            found.append(self.table["calls_by_name"][place])
            place += 1
        return [call for call in map(self.call, sorted(found)) if call.id == name]

    def _ends_of(self, call: int) -> list[int]:
        result = self.table["call_result"][call]
        use = self.table["call_use"][call]
        return [use] if result == NONE else [use, result]

    def _call(self, call: int, nodes: dict[int, Node]) -> Call:
        table = self.table
        use = _of(AssistantNode, nodes[table["call_use"][call]])
        ref = use.calls[table["call_use_place"][call]]
        result = table["call_result"][call]
        if result == NONE:
            return Call(ref.id, ref.name, use, None)
        holder = _of(UserNode, nodes[result])
        answer = holder.results[table["call_result_place"][call]]
        return Call(ref.id, ref.name, use, holder, answer.is_error, answer.agent_id)

    def _node(self, file: int, rank: int) -> Node:
        position = self.table["position"][rank]
        line = self._line(file, rank)
        return node_of(rank, line, position, self._entry(line, position))

    def _line(self, file: int, rank: int) -> Line:
        table = self.table
        offset, size = table["offset"][rank], table["size"][rank]
        if offset + size > table.head.offset:
            raise StaleTable("a line ends behind the table")
        raw = read_at(file, size, offset)
        # A file edited in place keeps its bookmark if only earlier lines changed. The checksum
        # notices that for every line that is shown.
        if zlib.crc32(raw) != table["checksum"][rank]:
            raise StaleTable("a line has changed")
        return Line(raw, offset, table["line"][rank])

    def _entry(self, line: Line, position: int) -> Any:
        entries = decode_line(line).entries
        if position >= len(entries):
            raise StaleTable("an entry is missing")
        return entries[position]


class LazyTurns(Sequence[Turn]):
    """The turns of the active branch, built when they are asked for."""

    def __init__(self, session: "TableSession", count: int, tail: list[Turn]) -> None:
        self._session = session
        self._count = count
        self._tail = tail
        self._recent: OrderedDict[int, Turn] = OrderedDict()

    def __len__(self) -> int:
        return self._count + len(self._tail)

    @overload
    def __getitem__(self, place: int) -> Turn: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Turn]: ...
    def __getitem__(self, place: int | slice) -> Turn | Sequence[Turn]:
        if isinstance(place, slice):
            return [self._turn(each) for each in range(*place.indices(len(self)))]
        return self._turn(range(len(self))[place])

    def _turn(self, place: int) -> Turn:
        if place >= self._count:
            return self._tail[place - self._count]
        turn = self._recent.get(place)
        if turn is None:
            turn = self._recent[place] = self._session.build_turn(place)
            if len(self._recent) > KEPT_TURNS:
                self._recent.popitem(last=False)
        return turn


class TableMilestones:
    """The milestones of a table, followed by those of the tail."""

    def __init__(self, session: "TableSession") -> None:
        self._session = session
        table, tail = session.reader.table, session.tail
        # Each column is verified here, so that a damaged one does not show up half-way.
        self._stones, self._parents = table["stone"], table["parent"]
        self._children, self._siblings = table["stone_child"], table["stone_sibling"]
        self._active, self._firsts = table["stone_active"], table["first_stones"].tolist()
        self._late = TreeMilestones(tail.part.tree)
        root = tail.part.nodes[0].index
        # The boundary is the root of the tail's tree. If it is a milestone, it is in both.
        self._shared = int(bool(len(self._late)) and self._late.node(0).index == root)
        self._parting = self._numbered(root) if self._shared else self._nearest(root)

    def __len__(self) -> int:
        return len(self._stones) + len(self._late) - self._shared

    @property
    def firsts(self) -> Sequence[int]:
        return self._firsts if self._parting is not None else self._firsts + self._late_firsts

    def node(self, number: int) -> ChainNode:
        if number >= len(self._stones):
            return self._late.node(self._in_tail(number))
        return self._session.with_table(
            lambda: _of(ChainNode, self._session.reader.node(self._stones[number])),
            lambda whole: whole.milestones.node(number),
        )

    def is_active(self, number: int) -> bool:
        if number < len(self._stones):
            return bool(self._active[number])
        return self._late.is_active(self._in_tail(number))

    def following(self, number: int) -> Sequence[int]:
        if number >= len(self._stones):
            return list(map(self._in_all, self._late.following(self._in_tail(number))))
        return self._session.with_table(
            lambda: self._early_following(number), lambda whole: whole.milestones.following(number)
        )

    def above(self, node: ChainNode) -> int | None:
        if node.index >= len(self._parents):
            found = self._late.above(node)
            return self._parting if found is None or found < self._shared else self._in_all(found)
        return self._session.with_table(
            lambda: self._nearest(node.index) if node.uuid else None,
            lambda whole: whole.milestones.above(node),
        )

    def _early_following(self, number: int) -> list[int]:
        found: list[int] = []
        at = self._children[number]
        while at != NONE:
            found.append(at)
            at = self._siblings[at]
            if len(found) > len(self._stones):
                raise StaleTable("the milestones form a cycle")
        return found + self._late_firsts if number == self._parting else found

    @property
    def _late_firsts(self) -> list[int]:
        """The first milestones behind the boundary."""
        found = self._late.following(0) if self._shared else self._late.firsts
        return list(map(self._in_all, found))

    def _nearest(self, rank: int) -> int | None:
        """Return the nearest milestone before a node of the table."""
        for _ in range(len(self._parents)):
            rank = self._parents[rank]
            number = self._numbered(rank) if rank != NONE else None
            if rank == NONE or number is not None:
                return number
        raise StaleTable("the parents form a cycle")

    def _numbered(self, rank: int) -> int | None:
        """Return the number of the milestone at a node of the table, if it is one."""
        number = bisect_left(self._stones, rank)
        is_there = number < len(self._stones) and self._stones[number] == rank
        return number if is_there else None

    def _in_tail(self, number: int) -> int:
        return number - len(self._stones) + self._shared

    def _in_all(self, number: int) -> int:
        return number + len(self._stones) - self._shared


class TableSession(Session):
    """A session whose earlier lines are described by a node table."""

    _is_stale = False
    """True once the table does not fit the file any more; then `whole` answers everything."""

    def __init__(self, path: Path, table: NodeTable) -> None:
        """Open a session with its table; raise StaleTable if the whole file has to be read."""
        self.path = path
        self.reader = TableReader(path, table)
        self._attach()

    def _attach(self) -> None:
        """Read the lines behind the table."""
        table, reader = self.reader.table, self.reader
        self.state = FileState.of(self.path)
        if not table.holds(self.path):
            raise StaleTable("the file was changed")
        try:
            boundary = _of(ChainNode, reader.node(table.head.boundary))
            count = len(table["turn_prompt"])
            last = reader.node(table.head.last_time_node).time if count else None
            tail = read_tail(self.path, table, boundary, EarlierTurns(count, last))
        except DAMAGED as error:
            raise StaleTable("the table is damaged") from error
        if tail is None:
            raise StaleTable("appended lines depend on earlier ones")
        self.tail = tail
        self._lazy_turns = LazyTurns(self, count, tail.turns)

    def refresh(self) -> bool:
        """Read appended lines and return whether there were any."""
        if self._is_stale:
            is_changed = self.whole.refresh()
            self.state = self.whole.state
            return is_changed
        if FileState.of(self.path) == self.state:
            return False
        for name in ("subagents", "milestones", "slug", "whole"):
            self.__dict__.pop(name, None)
        try:
            self._attach()
        except StaleTable:
            self._read_whole()
        return True

    def with_table(self, use: Callable[[], T], instead: Callable[[Session], T]) -> T:
        """Return a value from the table, or from the whole session if the table is stale."""
        if not self._is_stale:
            try:
                return use()
            except DAMAGED:
                self._read_whole()
        return instead(self.whole)

    def build_turn(self, place: int) -> Turn:
        """Return a turn of the table, given its position."""
        return self.with_table(lambda: self.reader.turn(place), lambda whole: whole.turns[place])

    @cached_property
    def whole(self) -> Session:
        """The same session, read from its file."""
        return open_session(self.path)

    def _read_whole(self) -> None:
        self._is_stale = True
        self.__dict__.pop("whole", None)
        self.state = self.whole.state

    @property
    def turns(self) -> Sequence[Turn]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.whole.turns if self._is_stale else self._lazy_turns

    def find_call(self, call_id: str | None) -> Call | None:
        if call_id is None:
            return None
        late = None if self._is_stale else self.tail.log.find_call(call_id)

        def find() -> Call | None:
            found = self.reader.calls_named(call_id)
            return found[-1] if found else None

        return late or self.with_table(find, lambda whole: whole.find_call(call_id))

    @property
    def agent_calls(self) -> list[Call]:
        def read() -> list[Call]:
            early = map(self.reader.call, self.reader.table["agent_calls"])
            return [*early, *self.tail.log.agent_calls]

        return self.with_table(read, lambda whole: whole.agent_calls)

    @cached_property
    def subagents(self) -> list[SubAgent]:
        # A file with sub-agents inside has no table.
        found = subagents_in_files(self.path, self.agent_calls, self.find_call)
        return self.whole.subagents if self._is_stale else found

    @cached_property
    def milestones(self) -> Milestones:
        return self.with_table(lambda: TableMilestones(self), lambda whole: whole.milestones)

    @cached_property
    def slug(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        rank = self.reader.table.head.slug_node
        late = None if self._is_stale else self.tail.log.slug
        early = (lambda: self.reader.slug(rank)) if rank != NONE else lambda: None
        return late or self.with_table(early, lambda whole: whole.slug)

    @property
    def client_version(self) -> str | None:
        rank = self.reader.table.head.version_node
        late = None if self._is_stale else version_of(self.tail.part.tree.chain[1:])

        def read() -> str | None:
            return version_of([self.reader.node(rank)]) if rank != NONE else None

        return late or self.with_table(read, lambda whole: whole.client_version)

    @property
    def nodes(self) -> list[Node]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.whole.nodes

    @property
    def problems(self) -> list[Problem]:  # pyright: ignore[reportIncompatibleVariableOverride]
        is_whole = self._is_stale or self.reader.table.head.has_problems
        return self.whole.problems if is_whole else self.tail.log.problems

    @property
    def tree(self) -> Tree:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.whole.tree

    @property
    def messages(self) -> list[Message]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.whole.messages

    @property
    def calls(self) -> list[Call]:
        return self.whole.calls

    @property
    def orphans(self) -> list[Orphan]:
        return self.whole.orphans

    def branch_to(self, leaf: int | None) -> list[ChainNode]:
        return self.whole.branch_to(leaf)

    def turns_to(self, leaf: int | None) -> Sequence[Turn]:
        return self.whole.turns_to(leaf)


def _range(table: NodeTable, starts: str, place: int) -> range:
    """Return the range that a column of starts gives for a position; the last one is the end."""
    return range(table[starts][place], table[starts][place + 1])


def _slice(table: NodeTable, starts: str, place: int, values: str) -> list[int]:
    found = _range(table, starts, place)
    return table[values][found.start : found.stop].tolist()


def _of(kind: type[N], node: Node) -> N:
    if not isinstance(node, kind):
        raise StaleTable(f"expected a {kind.__name__}")
    return node
