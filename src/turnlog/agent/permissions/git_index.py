"""The names of the files that git tracks, read from the index.

`git diff` without a revision compares these files with the index, and shows no others. Git opens
whatever the index names. Parsing raises ValueError for an index
that git may read differently.
"""

import hashlib
import os
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from turnlog.agent.permissions.bash import NAMES
from turnlog.format.regular_files import read_regular

LARGEST = 1 << 26
MOST_ENTRIES = 200_000
HEADER = struct.Struct(">4sII")
ENTRY = struct.Struct(">24xI12x20xH")
"""The mode and the flags of an entry; the skipped bytes are times, sizes, owners and a SHA-1."""
VERSIONS = (2, 3, 4)
SHORTENED = 4
"""The version that compresses names by their common prefix and does not pad entries."""
EXTENDED = 0x4000
NAME_LENGTH = 0x0FFF
"""Flag bits that hold the length of the name, capped at this value."""
JUMPS = (b"EOIE", b"IEOT")
"""Extensions that make git read entries and extensions from other offsets."""
SHOWING = frozenset(("diff", "grep"))
"""Subcommands that show the content of tracked files."""
ODD_PARTS = frozenset(("", ".", "..", ".git"))
"""Parts of a name that git never writes into an index."""
CHECKSUM = hashlib.sha1().digest_size
FILE_TYPES = (0o100000, 0o120000)
"""Files and symlinks; a submodule or a sparse directory would stand for many files."""
SUBMODULE = 0o160000
ANY_TYPE = (*FILE_TYPES, SUBMODULE)
SUBMODULE_MODE = SUBMODULE.to_bytes(4, "big")


def doubt_index(subcommand: str, index: Path, top: Path) -> str | None:
    """Return why the index may make a subcommand show files outside of the work tree, or None."""
    if subcommand not in SHOWING:
        return None
    try:
        name = _find_way_out(index, top)
    except (OSError, ValueError) as error:
        return f"its index cannot be checked: {error}"
    return None if name is None else f"its index names {name!r}, which may leave the work tree"


def _find_way_out(index: Path, top: Path) -> str | None:
    """Return a tracked name that may lead out of the work tree; None if there is none.

    Git opens whatever the index names: a handmade index may contain `../secret`, which
    `git diff` shows. `git grep` also follows links on the way to a file.
    """
    if not os.path.lexists(index):
        return None
    folders = set[str]()
    for name, _ in _entries(index, ANY_TYPE):
        parts = name.split("/")
        if not ODD_PARTS.isdisjoint(part.lower() for part in parts):
            return name
        folders.update("/".join(parts[:rank]) for rank in range(1, len(parts)))
    return next((folder for folder in sorted(folders) if (top / folder).is_symlink()), None)


def tracked_names(index: Path) -> Iterator[str]:
    """Yield the names of all tracked files, relative to the top of the work tree."""
    for name, _ in _entries(index, FILE_TYPES):
        NAMES.spend()
        yield name


def submodules_in(index: Path) -> list[str]:
    """Return the names of all submodules, relative to the top of the work tree."""
    if not os.path.lexists(index):
        return []
    return [name for name, kind in _entries(index, ANY_TYPE) if kind == SUBMODULE]


def may_have_submodules(index: Path) -> bool:
    """Return whether an index, even one in an unknown format, seems to name submodules."""
    try:
        return bool(submodules_in(index))
    except ValueError:
        return SUBMODULE_MODE in read_regular(index, LARGEST)


def _entries(index: Path, types: tuple[int, ...]) -> Iterator[tuple[str, int]]:
    """Yield the name and the type of each entry; raise ValueError for a type not in `types`."""
    try:
        entries = _parse(read_regular(index, LARGEST))
    except (IndexError, struct.error) as error:
        raise ValueError("the index is malformed") from error
    for name, kind in entries:
        if kind not in types:
            raise ValueError("the index names a directory")
        yield name, kind


@lru_cache(maxsize=2)
def _parse(data: bytes) -> tuple[tuple[str, int], ...]:
    """Return the names and types of all entries; cached, as one verdict needs them repeatedly."""
    end = len(data) - CHECKSUM
    # With another hash function, entries differ in size, and names would be misread.
    if end < HEADER.size or hashlib.sha1(data[:end]).digest() != data[end:]:
        raise ValueError("the index has no valid checksum")
    kind, version, count = HEADER.unpack_from(data)
    if kind != b"DIRC" or version not in VERSIONS:
        raise ValueError("the index has an unknown version")
    if count > MOST_ENTRIES:
        raise ValueError(f"the index has more than {MOST_ENTRIES:,} entries")
    found: list[tuple[str, int]] = []
    place, name = HEADER.size, b""
    for _ in range(count):
        mode, flags = ENTRY.unpack_from(data, place)
        start = place + ENTRY.size + (2 if flags & EXTENDED else 0)
        if version == SHORTENED:
            name, place = _shortened_at(data, start, name)
        else:
            name = data[start : data.index(b"\0", start)]
            # Entries end with one to eight zeros, so that their length is a multiple of eight.
            place += (start + len(name) - place + 8) // 8 * 8
        # Git trusts the stored length: if it is wrong, git finds the next entry elsewhere.
        if flags & NAME_LENGTH != min(len(name), NAME_LENGTH):
            raise ValueError("the index has a name of the wrong length")
        found.append((os.fsdecode(name), mode & 0o170000))
    _require_whole(data, place, end)
    return tuple(found)


def _shortened_at(data: bytes, start: int, before: bytes) -> tuple[bytes, int]:
    """Return a prefix-compressed name, and the offset of the next entry."""
    dropped, start = _number_at(data, start)
    if dropped > len(before):
        raise ValueError("the index has a malformed name")
    stop = data.index(b"\0", start)
    return before[: len(before) - dropped] + data[start:stop], stop + 1


def _number_at(data: bytes, place: int) -> tuple[int, int]:
    """Decode a varint, encoded like offsets in packs; return it and the offset after it."""
    number = data[place] & 0x7F
    while data[place] & 0x80:
        place += 1
        number = ((number + 1) << 7) | (data[place] & 0x7F)
    return number, place + 1


def _require_whole(data: bytes, place: int, end: int) -> None:
    """Raise ValueError if an extension may hold more names, as in a split index."""
    while place < end:
        # A lowercase first letter marks an extension that git must understand.
        if data[place : place + 1].islower() or data[place : place + 4] in JUMPS:
            raise ValueError("the index is split or sparse, or is read in parallel")
        (size,) = struct.unpack_from(">I", data, place + 4)
        place += 8 + size
    if place != end:
        raise ValueError("the index is malformed")
