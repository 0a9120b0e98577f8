"""Build nodes, calls and turns from a node table and the lines of its session."""

import os
import zlib
from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from turnlog.conversation.calls import Call
from turnlog.conversation.messages import Message, join_group
from turnlog.conversation.node_table import NONE, NodeTable, StaleTable, hash_name
from turnlog.conversation.nodes import AssistantNode, ChainNode, Node, UserNode, node_of
from turnlog.conversation.turn_blocks import TurnBlock, decode_blocks
from turnlog.conversation.turns import Turn
from turnlog.format.decode import decode_line
from turnlog.format.entries import ChainEntry
from turnlog.format.jsonl import Line
from turnlog.format.portable import read_at
from turnlog.format.regular_files import open_descriptor

N = TypeVar("N", bound=Node)


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
        """Return the slug in an entry."""
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
        if not branch:
            raise StaleTable("a turn has no lines")
        groups = [
            _slice(table, "message_start", message, "message_nodes")
            for message in _range(table, "turn_message_start", place)
        ]
        calls = _slice(table, "turn_call_start", place, "turn_calls")
        ends = [end for call in calls for end in self._ends_of(call)]
        wanted = dict.fromkeys([*branch, *(rank for group in groups for rank in group), *ends])
        nodes = self.nodes(wanted)
        prompt = table["turn_prompt"][place]
        idle_ms = table["figure_idle_ms"][place]
        return Turn(
            n=place + 1,
            prompt=None if prompt == NONE else require_node(UserNode, nodes[prompt]),
            nodes=[require_node(ChainNode, nodes[rank]) for rank in branch],
            messages=[_message(nodes[rank] for rank in group) for group in groups],
            calls=[self._call(call, nodes) for call in calls],
            idle_ms=None if idle_ms == NONE else idle_ms,
        )

    def prompts(self, first: int, last: int) -> list[UserNode | None]:
        """Return the prompts of some turns."""
        ranks = self.table["turn_prompt"][first:last].tolist()
        nodes = self.nodes(rank for rank in ranks if rank != NONE)
        return [None if r == NONE else require_node(UserNode, nodes[r]) for r in ranks]

    @cached_property
    def blocks(self) -> list[TurnBlock]:
        """The figures of whole blocks of turns."""
        return decode_blocks(self.table)

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
        use = require_node(AssistantNode, nodes[table["call_use"][call]])
        ref = use.calls[table["call_use_place"][call]]
        result = table["call_result"][call]
        if result == NONE:
            return Call(ref.id, ref.name, use, None)
        holder = require_node(UserNode, nodes[result])
        answer = holder.results[table["call_result_place"][call]]
        outcome = answer.is_error, answer.agent_id, answer.is_rejected
        return Call(ref.id, ref.name, use, holder, *outcome)

    def _node(self, file: int, rank: int) -> Node:
        position = self.table["position"][rank]
        line = self._line(file, rank)
        return node_of(rank, line, position, self._entry(line, position))

    def _line(self, file: int, rank: int) -> Line:
        table = self.table
        offset, size = table["offset"][rank], table["size"][rank]
        if offset + size > table.head.offset:
            raise StaleTable("a line ends after the table")
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


def _message(nodes: Iterable[Node]) -> Message:
    found = [require_node(AssistantNode, node) for node in nodes]
    if not found:
        raise StaleTable("a message has no lines")
    return join_group(found)


def _range(table: NodeTable, starts: str, place: int) -> range:
    """Return the range from the start at a position to the next one in a column of starts."""
    return range(table[starts][place], table[starts][place + 1])


def _slice(table: NodeTable, starts: str, place: int, values: str) -> list[int]:
    found = _range(table, starts, place)
    if not 0 <= found.start <= found.stop <= len(table[values]):
        raise StaleTable(f"the ranges of {values} are damaged")
    return table[values][found.start : found.stop].tolist()


def require_node(kind: type[N], node: Node) -> N:
    if not isinstance(node, kind):
        raise StaleTable(f"expected a {kind.__name__}")
    return node
