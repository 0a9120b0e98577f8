"""A session file, read once into nodes, and the tree that they form.

Reading is incremental: `refresh` reads appended lines, with the same result as opening the file
again.
"""

import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from msgspec.structs import replace

from turnlog.conversation.nodes import ChainNode, Node, node_of, share_values
from turnlog.conversation.tree import Tree, grow_tree
from turnlog.errors import Ambiguous, NotFound
from turnlog.format.decode import Problem, decode_line, values_of
from turnlog.format.entries import ChainEntry, Entry, Unknown
from turnlog.format.json_values import is_object
from turnlog.format.jsonl import Bookmark, FileState, Line, Trail, read_lines
from turnlog.format.portable import read_at
from turnlog.format.regular_files import open_descriptor


class ReadExtent(NamedTuple):
    """The part of a file that need not be read again: up to the end of its last whole line."""

    offset: int = 0
    lines: int = 0
    nodes: int = 0
    problems: int = 0


WHOLE = ReadExtent()


class Recall:
    """A cache of decoded values, limited by the size of their lines; it evicts the oldest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._kept: dict[Any, tuple[Any, int]] = {}

    def get(self, key: Any) -> Any:
        """Return a value that was kept; None if there is none."""
        return self._kept.get(key, (None, 0))[0]

    def keep(self, key: Any, value: Any, size: int) -> None:
        """Keep a value that was decoded from `size` bytes."""
        self._kept[key] = value, size
        self._size += size
        while self._size > self._most and self._kept:
            self._size -= self._kept.pop(next(iter(self._kept)))[1]


class NodeLog:
    """The entries of one file, or those from a given line on."""

    slug: str | None = None
    """The client's latest nickname for the session, also used as its plan's file name (2.1.x)."""
    _file: int | None = None
    """The descriptor of the file while it is kept open."""
    recall: "Recall | None" = None
    """Recently decoded entries, while the file is kept open."""
    slug_index: int = -1
    """Rank of the node that contains the slug; -1 if there is none."""
    _end: int | None = None
    """Offset at which reading stops; None to read the whole file."""
    _derived: tuple[str, ...] = ("tree",)
    """Cached properties to recompute when the file has grown."""

    def __init__(self, path: Path, start: ReadExtent = WHOLE) -> None:
        self.path = path
        self.nodes: list[Node] = []
        self.problems: list[Problem] = []
        self._extent = start
        self._mark = Bookmark.at(path, start.offset)
        self.state = FileState(0, 0, 0)
        """The file's state when it was last read."""
        self.refresh()

    @property
    def id(self) -> str:
        return self.path.stem

    @cached_property
    def tree(self) -> Tree:
        """The main conversation as a tree; in a sub-agent's own file, it contains every entry."""
        main = [node for node in self.nodes if not is_sidechain(node)]
        is_main = any(isinstance(node, ChainNode) for node in main)
        return grow_tree(_with_ancestors(main, self.nodes) if is_main else self.nodes)

    def refresh(self) -> bool:
        """Read appended lines and return whether there were any.

        A last line without a newline is read again; a replaced file is read from its start.
        """
        # Size alone cannot tell an appended file from a replaced one: a rewritten file may have
        # grown past its old size. The bookmark compares the last bytes read.
        state = FileState.of(self.path)
        is_same = self._mark.holds(self.path)
        if not is_same:
            self._extent = WHOLE
            self._mark = Bookmark()
        is_read = is_same and state.size == self.state.size
        self.state = state
        if is_read:
            return False
        self._read_on()
        return True

    def _read_on(self) -> None:
        """Read appended lines, and drop the cached properties that lack them."""
        self._read_appended()
        for name in self._derived:
            self.__dict__.pop(name, None)

    def entry(self, node: Node) -> Entry:
        """Return the entry of a node, decoded from its line."""
        return next(self.entries([node]))

    def entries(self, nodes: Iterable[Node]) -> Iterator[Entry]:
        """Yield the entries of some nodes, in the given order."""
        if self.recall:
            yield from self._recalled(nodes, self.recall)
            return
        for node, line in self.lines_of(nodes):
            found = decode_line(line).entries
            # A line nested almost as deep as the stack allows may fail to decode here, further down
            # the stack, although it decoded when the file was read.
            yield found[node.position] if node.position < len(found) else Unknown()

    def _recalled(self, nodes: Iterable[Node], recall: "Recall") -> Iterator[Entry]:
        for node in nodes:
            entry = recall.get(node.index)
            if entry is None:
                _, line = next(self.lines_of([node]))
                found = decode_line(line).entries
                entry = found[node.position] if node.position < len(found) else Unknown()
                recall.keep(node.index, entry, node.size)
            yield entry

    def values(self, nodes: Iterable[Node]) -> Iterator[dict[str, Any]]:
        """Yield the complete JSON objects of some nodes, including unknown fields."""
        for node, line in self.lines_of(nodes):
            objects = [value for value in values_of(line) if is_object(value)]
            yield objects[node.position] if node.position < len(objects) else {}

    def lines_of(self, nodes: Iterable[Node]) -> Iterator[tuple[Node, Line]]:
        """Yield the lines of some nodes, in the given order."""
        file = open_descriptor(self.path) if self._file is None else self._file
        try:
            for node in nodes:
                yield node, Line(read_at(file, node.size, node.offset), node.offset, node.line)
        finally:
            if file != self._file:
                os.close(file)

    @contextmanager
    def kept_open(self, recalled: int = 0) -> Generator[None]:
        """Keep the file open, because opening it for each entry takes longer than reading it.

        Cache decoded entries of up to `recalled` bytes, because several views show the same lines.
        """
        if self._file is not None:
            yield
            return
        self._file = file = open_descriptor(self.path)
        self.recall = Recall(recalled) if recalled else None
        try:
            yield
        finally:
            self._file = self.recall = None
            os.close(file)

    def node(self, uuid: str) -> ChainNode:
        """Return the node with a uuid, or the only one whose uuid starts with the given text."""
        rank = self.tree.rank_of(uuid)
        if rank is not None:
            return self.tree.chain[rank]
        found = [node for node in self.tree.chain if (node.uuid or "").startswith(uuid)]
        if len(found) > 1:
            names = [f"{node.uuid}  line {node.line}" for node in found]
            raise Ambiguous(f"{len(found)} uuids in {self.path} start with {uuid!r}", names)
        if not found:
            raise NotFound(f"no entry {uuid!r} in {self.path}", f"turnlog entries {quote(self.id)}")
        return found[0]

    @property
    def extent(self) -> ReadExtent:
        """The part of the file that was read, up to the end of its last whole line."""
        return self._extent

    def _read_appended(self) -> None:
        # Drop what came from an unfinished last line: it is read again from the extent's end.
        start = self._extent
        extent: tuple[int, ...] = start
        del self.nodes[start.nodes :]
        del self.problems[start.problems :]
        lines, trail = start.lines, Trail(self._mark)
        for line in read_lines(self.path, start.offset):
            lines += 1
            if not line.is_blank:
                self._add(line if line.number == lines else replace(line, number=lines))
            if line.is_whole:
                extent = line.end, lines, len(self.nodes), len(self.problems)
                trail.add(line.raw)
            if self._end is not None and line.end >= self._end:
                break
        self._extent, self._mark = ReadExtent(*extent), trail.bookmark

    def _add(self, line: Line) -> None:
        decoded = decode_line(line)
        for why in decoded.problems:
            self.problems.append(Problem(self.path, line.number, line.offset, why))
        for position, entry in enumerate(decoded.entries):
            if isinstance(entry, ChainEntry) and entry.slug:
                self.slug, self.slug_index = entry.slug, len(self.nodes)
            node = node_of(len(self.nodes), line, position, entry)
            share_values(node, self.nodes[-1] if self.nodes else None)
            self.nodes.append(node)


def _with_ancestors(main: list[Node], nodes: list[Node]) -> list[Node]:
    """Add the sidechain entries that the main conversation descends from.

    The client follows a parent regardless of its kind (observed: 2.1.325).
    """
    aside = {node.uuid: node for node in nodes if isinstance(node, ChainNode) and node.is_sidechain}
    chain = [node for node in main if isinstance(node, ChainNode)] if aside else []
    known = {node.uuid for node in chain}
    pending = [node.parent for node in chain]
    found: list[Node] = []
    while pending:
        node = aside.pop(pending.pop(), None)
        if node and node.uuid not in known:
            found.append(node)
            pending.append(node.parent)
    return sorted([*main, *found], key=lambda node: node.index) if found else main


def is_sidechain(node: Node) -> bool:
    """Return whether a node belongs to a sub-agent."""
    return isinstance(node, ChainNode) and node.is_sidechain
