"""The names of the files that git tracks, read from the index.

`git diff` without a revision compares these files with the index, and shows no others. Git follows
no link on the way to them. An index that is not read for certain raises ValueError.
"""

import hashlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from turnlog.agent.permissions.bash import NAMES
from turnlog.agent.permissions.git_repository import Repository
from turnlog.format.regular_files import read_regular

LARGEST = 1 << 26
HEADER = struct.Struct(">4sII")
ENTRY = struct.Struct(">24xI12x20xH")
"""The mode and the flags of an entry; the rest are times, sizes, owners and a SHA-1."""
VERSIONS = (2, 3)
"""Version 4 shortens names, and is rare."""
EXTENDED = 0x4000
NAME_LENGTH = 0x0FFF
"""The bits of the flags that hold the length of a name, or the largest number if it is longer."""
JUMPS = (b"EOIE", b"IEOT")
"""Extensions by which git reads entries and extensions from other places than the first ones."""
SHOWING = frozenset(("diff", "grep"))
"""Subcommands that show the content of the files that the index names."""
ODD_PARTS = frozenset(("", ".", "..", ".git"))
CHECKSUM = hashlib.sha1().digest_size
FILE_TYPES = (0o100000, 0o120000)
"""Files and links; a submodule or a sparse directory stands for more names than its own."""
SUBMODULE = 0o160000


def doubt_index(subcommand: str, repository: Repository) -> str | None:
    """Say why the index may make a subcommand show files outside of the work tree."""
    if subcommand not in SHOWING:
        return None
    try:
        name = _find_way_out(repository.directory / "index", repository.top)
    except (OSError, ValueError, struct.error) as error:
        return f"its index cannot be checked: {error}"
    return None if name is None else f"its index names {name!r}, which leads elsewhere"


def _find_way_out(index: Path, top: Path) -> str | None:
    """Return a tracked name that may lead out of the work tree; None if there is none.

    Git opens whatever the index names: one that was made by hand may contain `../secret`, which
    `git diff` shows. `git grep` also follows links on the way to a file.
    """
    if not os.path.lexists(index):
        return None
    folders = set[str]()
    for name in tracked_names(index, (*FILE_TYPES, SUBMODULE)):
        parts = name.split("/")
        if not ODD_PARTS.isdisjoint(part.lower() for part in parts):
            return name
        folders.update("/".join(parts[:rank]) for rank in range(1, len(parts)))
    return next((folder for folder in sorted(folders) if (top / folder).is_symlink()), None)


def tracked_names(index: Path, types: tuple[int, ...] = FILE_TYPES) -> Iterator[str]:
    """Yield the names of all tracked files, relative to the top of the work tree."""
    data = read_regular(index, LARGEST)
    end = len(data) - CHECKSUM
    # With another hash function, entries have another size, and names would be misread.
    if end < HEADER.size or hashlib.sha1(data[:end]).digest() != data[end:]:
        raise ValueError(f"{index} has no valid checksum")
    kind, version, count = HEADER.unpack_from(data)
    if kind != b"DIRC" or version not in VERSIONS:
        raise ValueError(f"{index} has an unknown version")
    place = HEADER.size
    for _ in range(count):
        NAMES.spend()
        name, place = _entry_at(data, place, types)
        yield os.fsdecode(name)
    _require_whole(data, place, end)


def _entry_at(data: bytes, place: int, types: tuple[int, ...]) -> tuple[bytes, int]:
    """Return the name of an entry, and where the next one starts."""
    mode, flags = ENTRY.unpack_from(data, place)
    if mode & 0o170000 not in types:
        raise ValueError("the index names a directory")
    start = place + ENTRY.size + (2 if flags & EXTENDED else 0)
    stop = data.index(b"\0", start)
    # Git goes by the length. With another one, the next entry starts elsewhere.
    if flags & NAME_LENGTH != min(stop - start, NAME_LENGTH):
        raise ValueError("the index has a name of another length than it says")
    # Entries end with one to eight zeros, so that their length is a multiple of eight.
    return data[start:stop], place + (stop - place + 8) // 8 * 8


def _require_whole(data: bytes, place: int, end: int) -> None:
    """Raise ValueError if an extension holds more names, as that of a split index does."""
    while place < end:
        # Git must understand an extension whose name starts with a small letter.
        if data[place : place + 1].islower() or data[place : place + 4] in JUMPS:
            raise ValueError("the index is split or sparse, or is read in parallel")
        (size,) = struct.unpack_from(">I", data, place + 4)
        place += 8 + size
    if place != end:
        raise ValueError("the index is malformed")
