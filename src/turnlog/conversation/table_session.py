"""A session opened with its node table: the same as one read from its file, but lazy.

Turns are built from their own lines on demand. Everything that the table does not contain is
computed from the whole file, which is read on first use; it also replaces a stale table.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TypeVar, overload

from turnlog.conversation.calls import Call, Orphan
from turnlog.conversation.messages import Message
from turnlog.conversation.milestones import Milestones, TreeMilestones
from turnlog.conversation.node_table import NONE, NodeTable, StaleTable
from turnlog.conversation.nodes import ChainNode, Node, UserNode
from turnlog.conversation.session import Session, open_session, version_of
from turnlog.conversation.session_tail import open_tail, read_tail
from turnlog.conversation.subagents import SubAgent, subagents_in_files
from turnlog.conversation.table_outline import decode_figures
from turnlog.conversation.table_reader import TableReader, require_node
from turnlog.conversation.tree import Tree
from turnlog.conversation.turn_blocks import BLOCK, NEEDED, TurnBlock, blocks_of
from turnlog.conversation.turn_figures import FIGURES, Outline, models_of, outline_of
from turnlog.conversation.turns import EarlierTurns, Turn
from turnlog.format.decode import Problem
from turnlog.format.jsonl import FileState

T = TypeVar("T")

KEPT_TURNS = 64
"""Number of turns cached in memory; a page requests the same ones several times."""
DAMAGED = (StaleTable, IndexError, KeyError, ValueError, OverflowError)
"""Errors raised when a table does not fit its session. Its numbers are used as ranks and sizes, and
those of a damaged table may be out of range."""


class LazyTurns(Sequence[Turn]):
    """The turns of the active branch, built on demand."""

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
        # Reading a column verifies it: read all of them here, so that damage is found at once.
        self._stones, self._parents = table["stone"], table["parent"]
        self._children, self._siblings = table["stone_child"], table["stone_sibling"]
        self._active, self._firsts = table["stone_active"], table["first_stones"].tolist()
        self._depths, self._ends = table["stone_depth"], table["stone_end"].tolist()
        self._entries = table["end_entry"].tolist()
        columns = (self._children, self._siblings, self._active, self._depths)
        numbers = range(len(self._stones))
        if any(len(column) != len(self._stones) for column in columns) or not all(
            number in numbers for number in (*self._firsts, *self._ends)
        ):
            raise StaleTable("the milestones are damaged")
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
            lambda: require_node(ChainNode, self._session.reader.node(self._stones[number])),
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

    @property
    def ends(self) -> Sequence[int]:
        late = [self._in_all(number) for number in self._late.ends if number >= self._shared]
        return [end for end in self._ends if not (late and end == self._parting)] + late

    def depth(self, number: int) -> int:
        if number < len(self._stones):
            return self._depths[number]
        above = self._depths[self._parting] if self._parting is not None else 0
        return above + self._late.depth(self._in_tail(number)) - self._shared

    def last_entry(self, number: int) -> ChainNode:
        if number >= len(self._stones):
            return self._late.last_entry(self._in_tail(number))
        if number not in self._ends or (number == self._parting and self._session.tail.turns):
            return self._session.whole.milestones.last_entry(number)
        rank = self._entries[self._ends.index(number)]
        return self._session.with_table(
            lambda: require_node(ChainNode, self._session.reader.node(rank)),
            lambda whole: whole.milestones.last_entry(number),
        )

    def _early_following(self, number: int) -> list[int]:
        found: list[int] = []
        before, at = number, self._children[number]
        while at != NONE:
            # The builder refuses other orders. Without this check, a hostile table could form a
            # cycle such as 3 → 5 → 3, and the drawing would never end.
            if not before < at < len(self._stones):
                raise StaleTable("the milestones are damaged")
            found.append(at)
            before, at = at, self._siblings[at]
        return found + self._late_firsts if number == self._parting else found

    @property
    def _late_firsts(self) -> list[int]:
        """The first milestones after the boundary."""
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
        self.state = FileState.of(path)
        if not table.holds(path):
            raise StaleTable("the file was changed")
        self._attach(open_tail(path, table))

    def _attach(self, log: Session) -> None:
        """Use the lines after the table; raise StaleTable if they depend on earlier ones."""
        table, reader = self.reader.table, self.reader
        try:
            boundary = require_node(ChainNode, reader.node(table.head.boundary))
            count = len(table["turn_prompt"])
            last = reader.node(table.head.last_time_node).time if count else None
            tail = read_tail(log, table, boundary, EarlierTurns(count, last))
        except DAMAGED as error:
            raise StaleTable("the table is damaged") from error
        if tail is None:
            raise StaleTable("appended lines depend on earlier ones")
        self.tail = tail
        self._lazy_turns = LazyTurns(self, count, tail.turns)

    def refresh(self) -> bool:
        """Read appended lines and return whether there were any."""
        state = FileState.of(self.path)
        if state == self.state:
            return False
        self.state = state
        # Drop all cached properties of a session, not only those overridden here: once the table
        # is stale, the base class computes and caches the others.
        for name in (*self._derived, "slug"):
            self.__dict__.pop(name, None)
        if self._is_stale:
            return self.whole.refresh()
        self.__dict__.pop("whole", None)
        if self.reader.table.holds(self.path):
            self.tail.log.refresh()
            with suppress(StaleTable):
                self._attach(self.tail.log)
                return True
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
        """This session, read from its file instead of the table."""
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

    def outline(
        self, first: int = 0, last: int | None = None, names: Sequence[str] = FIGURES
    ) -> Outline:
        start, end, late = self._split_range(first, last)

        def read() -> Outline:
            early = decode_figures(
                self.reader.table,
                range(start, end),
                names,
                lambda place: self.build_turn(place).started,
            )
            rest = outline_of(late, names)
            return {name: early[name] + rest[name] for name in names}

        return self.with_table(read, lambda whole: whole.outline(first, last, names))

    @property
    def turn_blocks(self) -> list[TurnBlock]:
        def read() -> list[TurnBlock]:
            early = self.reader.blocks
            start = len(early) * BLOCK
            return [*early, *blocks_of(self.outline(start, names=NEEDED), start)]

        return self.with_table(read, lambda whole: whole.turn_blocks)

    def prompts(self, first: int = 0, last: int | None = None) -> list[UserNode | None]:
        start, end, late = self._split_range(first, last)
        return self.with_table(
            lambda: [*self.reader.prompts(start, end), *(turn.prompt for turn in late)],
            lambda whole: whole.prompts(first, last),
        )

    def _split_range(self, first: int, last: int | None) -> tuple[int, int, list[Turn]]:
        """Return the part of a range of turns that is in the table, and the turns of the tail."""
        late = self.tail.turns
        count = len(self.turns) - len(late)
        first, last, _ = slice(first, last).indices(len(self.turns))
        return (
            min(first, count),
            min(last, count),
            late[max(0, first - count) : max(0, last - count)],
        )

    @property
    def models(self) -> list[str]:
        if self._is_stale:
            return self.whole.models
        return sorted({*self.reader.table.head.models, *models_of(self.tail.turns)})

    @property
    def last_line(self) -> int:
        if not self._is_stale and self.tail.log.nodes:
            return self.tail.log.nodes[-1].line
        return self.with_table(lambda: self.reader.table["line"][-1], lambda whole: whole.last_line)

    @property
    def tail_size(self) -> int:
        """Bytes that are read again whenever the session is opened."""
        return self.state.size - self.reader.table.head.offset

    @property
    def nodes_in_memory(self) -> int:
        return len(self.whole.nodes if "whole" in self.__dict__ else self.tail.log.nodes)

    @property
    def active_leaf(self) -> ChainNode | None:
        if self._is_stale:
            return self.whole.active_leaf
        # Without turns in the tail, the branch ends at the boundary.
        part = self.tail.part if self.tail.turns else None
        if part is None:
            boundary = self.reader.table.head.boundary
            return self.with_table(
                lambda: require_node(ChainNode, self.reader.node(boundary)),
                lambda whole: whole.active_leaf,
            )
        return part.active_leaf

    def node_at(self, line: int) -> Node | None:
        if not self._is_stale and line > self.reader.table.head.lines:
            return self.tail.log.node_at(line)

        def find() -> Node | None:
            lines = self.reader.table["line"]
            place = bisect_left(lines, line)
            is_there = place < len(lines) and lines[place] == line
            return self.reader.node(place) if is_there else None

        return self.with_table(find, lambda whole: whole.node_at(line))

    def turn_at(self, line: int) -> int | None:
        def find() -> int | None:
            table = self.reader.table
            if line > table.head.lines:
                numbers = {n.line: turn.n for turn in self.tail.turns for n in turn.nodes}
                return numbers.get(line)
            # A line with two objects may have two turns, of which the later one counts.
            start, end = bisect_left(table["line"], line), bisect_right(table["line"], line)
            return max(table["turn_of"][start:end], default=0) or None

        return self.with_table(find, lambda whole: whole.turn_at(line))

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
