"""The node table of a session: positions and links of its entries, cached between runs.

A file of columns, each an array of numbers; no text of the session is in it. Columns are mapped
into memory and verified when they are first used, so opening a table takes the same time for a
thousand lines and for a million.
"""

import mmap
import os
import sys
import zlib
from array import array
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from turnlog.format.atomic import written_beside
from turnlog.format.jsonl import Bookmark, FileState
from turnlog.format.regular_files import open_regular

VERSION = 5
"""Increment when the same lines produce other columns than before; existing tables are rebuilt."""
MAGIC = b"turnlog\x00"
PREAMBLE = len(MAGIC) + 8
ALIGNMENT = 8
PRIVATE = 0o600
NONE = -1
"""Stands for no node, such as the parent of a root, or the result of an unanswered call."""

TypeCode = Literal["B", "I", "Q", "i", "q"]
TYPES: dict[str, TypeCode] = {
    # One value per node.
    "offset": "Q",
    "size": "I",
    "line": "I",
    "position": "I",
    "checksum": "I",
    "parent": "i",
    "turn_of": "I",
    # Hashes of all ids, sorted.
    "names": "Q",
    # The active branch, then one value per turn. `turn_start` has ranks in `branch`; each other
    # `..._start` column has ranks in the column that follows it.
    "branch": "I",
    "turn_start": "I",
    "turn_prompt": "i",
    "turn_message_start": "I",
    "message_start": "I",
    "message_nodes": "I",
    "turn_call_start": "I",
    "turn_calls": "I",
    # One value per call, then the ranks of calls by the hashes of their ids.
    "call_use": "I",
    "call_use_place": "I",
    "call_result": "i",
    "call_result_place": "I",
    "call_names": "Q",
    "calls_by_name": "I",
    "agent_calls": "I",
    # One value per milestone of the tree.
    "stone": "I",
    "stone_child": "i",
    "stone_sibling": "i",
    "stone_active": "B",
    "first_stones": "I",
    "stone_depth": "I",
    "stone_end": "I",
    "end_entry": "I",
    # Figures of each turn, by their names in `TurnFigures`.
    "figure_line": "I",
    "figure_kind": "B",
    "figure_started": "B",
    "figure_calls": "I",
    "figure_failed": "I",
    "figure_errors": "I",
    "figure_edits": "I",
    "figure_rows": "I",
    "figure_tokens": "Q",
    "figure_cost_usd": "q",
    "figure_context": "Q",
    "figure_model": "I",
    "figure_compactions": "I",
    "figure_working_ms": "q",
    "figure_elapsed_ms": "q",
    "figure_idle_ms": "q",
    "figure_is_complete": "B",
    # Figures of each whole block of turns, by their names in `TurnBlock`, then its long turns.
    "block_line": "I",
    "block_calls": "I",
    "block_errors": "I",
    "block_edits": "I",
    "block_compactions": "I",
    "block_tokens": "Q",
    "block_rows": "I",
    "block_cost_units": "q",
    "block_context": "Q",
    "block_model": "I",
    "block_long_turn": "I",
    "block_long_rows": "I",
}
"""The columns and the type codes of their values, as in the `array` module."""

Columns = Mapping[str, "array[Any]"]


class StaleTable(Exception):
    """Raised if a table does not describe its session or is damaged; read the session instead."""


class Section(Struct, frozen=True, array_like=True):
    """The position of a column, counted from the end of the head."""

    offset: int
    length: int
    checksum: int


class TableHead(Struct, frozen=True):
    """The metadata of a table."""

    version: str
    path: str
    """The session file."""
    state: tuple[int, int, int]
    """Inode, size and modification time of the session file when it was read."""
    offset: int
    """The table describes the lines up to here; the rest of the file is read again."""
    probe: bytes
    """A hash of the bytes before `offset`."""
    lines: int
    boundary: int
    """The node that the rest of the branch descends from."""
    is_sidechain: bool
    """True for the file of a sub-agent, in which every entry is marked as a sidechain."""
    can_grow: bool
    """False if appended lines require that the whole file is read again."""
    orphan_time: float | None
    """The latest time of an entry with a missing parent, in seconds."""
    last_time_node: int
    """The node with the latest time in the last turn."""
    slug_node: int
    version_node: int
    """The last answer that names a client version."""
    has_problems: bool
    models: list[str]
    """The models that answered on the branch."""
    sections: dict[str, Section] = {}


def hash_name(name: str) -> int:
    """Return the hash of an id, the same in every process."""
    # Two checksums at a third of the cost of a digest. Readers compare the id that they find, so a
    # collision only costs time: the whole file is read instead.
    encoded = name.encode("utf-8", "surrogatepass")
    return zlib.crc32(encoded) << 32 | zlib.adler32(encoded)


def probe_of(bookmark: Bookmark) -> bytes:
    """Return a hash of a bookmark's bytes, because a table stores no text."""
    return blake2b(bookmark.probe, digest_size=16).digest()


class NodeTable:
    """An open node table; each column is read on first use."""

    def __init__(self, head: TableHead, data: memoryview) -> None:
        self.head = head
        self._data = data
        self._columns: dict[str, memoryview] = {}

    def __getitem__(self, name: str) -> memoryview:
        """Return a column; raise StaleTable if it is damaged."""
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = self._read(name)
        return column

    def _read(self, name: str) -> memoryview:
        section = self.head.sections.get(name)
        if section is None or section.offset < 0 or section.length < 0:
            raise StaleTable(f"no column {name}")
        content = self._data[section.offset : section.offset + section.length]
        if len(content) != section.length or zlib.crc32(content) != section.checksum:
            raise StaleTable(f"column {name} is damaged")
        try:
            return content.cast(TYPES[name])
        except TypeError as error:
            raise StaleTable(f"column {name} has an odd length") from error

    def holds(self, session: Path) -> bool:
        """Return whether a session file still begins with the lines that the table describes."""
        head = self.head
        state = FileState.of(session)
        if state.inode != head.state[0]:
            return False
        if state.size == head.state[1] and state.mtime_ns != head.state[2]:
            return False  # edited in place
        if state.size < head.offset:
            return False
        # Only appended lines leave the bytes before the bookmark in place. Lines are verified by
        # their checksums as well when they are used.
        return probe_of(Bookmark.at(session, head.offset)) == head.probe


def read_table(path: Path, version: str) -> NodeTable | None:
    """Open a table; return None if there is none, or it is damaged or of another version."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            data = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""
    except (OSError, ValueError):
        return None
    view = memoryview(data)
    end = PREAMBLE + int.from_bytes(view[len(MAGIC) : len(MAGIC) + 4], "little")
    encoded = view[PREAMBLE:end]
    if bytes(view[:PREAMBLE]) != _preamble(encoded):
        return None
    try:
        # msgspec decodes into plain values of the given types, so a hostile file cannot run code.
        head = msgspec.msgpack.decode(encoded, type=TableHead)
    except msgspec.MsgspecError:
        return None
    is_current = head.version == full_version(version)
    return NodeTable(head, view[_aligned(end) :]) if is_current else None


def write_table(path: Path, head: TableHead, columns: Columns) -> None:
    """Write a table atomically; readers see the old one or the new one."""
    contents = _contents(columns)
    encoded = msgspec.msgpack.encode(replace(head, sections=_sections(contents)))
    with written_beside(path, PRIVATE) as (descriptor, temporary):
        with os.fdopen(os.dup(descriptor), "wb") as file:
            for content in (_preamble(encoded) + encoded, *contents.values()):
                file.write(content)
                file.write(bytes(_aligned(len(content)) - len(content)))
        temporary.replace(path)


def table_in_memory(head: TableHead, columns: Columns) -> NodeTable:
    """Return a table that is not in a file."""
    contents = _contents(columns)
    data = bytearray()
    for content in contents.values():
        data += content
        data += bytes(_aligned(len(data)) - len(data))
    return NodeTable(replace(head, sections=_sections(contents)), memoryview(data))


def full_version(version: str) -> str:
    """Return a version that also depends on this module's format and the machine's byte order."""
    return f"{VERSION}-{sys.byteorder}-{version}"


def _contents(columns: Columns) -> dict[str, memoryview]:
    # An empty view cannot be cast to bytes.
    return {
        name: memoryview(column).cast("B") if column else memoryview(b"")
        for name, column in columns.items()
    }


def _sections(contents: Mapping[str, memoryview]) -> dict[str, Section]:
    sections: dict[str, Section] = {}
    offset = 0
    for name, content in contents.items():
        sections[name] = Section(offset, len(content), zlib.crc32(content))
        offset += _aligned(len(content))
    return sections


def _preamble(encoded: "bytes | memoryview") -> bytes:
    """Return the bytes before a table's head: a magic number, the head's length and checksum."""
    length, checksum = len(encoded), zlib.crc32(encoded)
    return MAGIC + length.to_bytes(4, "little") + checksum.to_bytes(4, "little")


def _aligned(length: int) -> int:
    return -(-length // ALIGNMENT) * ALIGNMENT
