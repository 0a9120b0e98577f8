"""Pieces of files as compressed objects, each named by the hash of its bytes.

`objects/ab/<sha256>.zst` holds one piece, and can be decompressed alone. An object appears whole or
not at all, and is never changed.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from turnlog.errors import Damaged

NAME = re.compile(r"[0-9a-f]{64}\.zst")


class Piece(NamedTuple):
    """A part of a file, by the hash of its bytes."""

    hash: str
    size: int


class Objects:
    """The objects in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        return self.folder / name[:2] / f"{name}.zst"

    def sizes(self) -> dict[str, int]:
        """The hashes of all objects, with their sizes on disk."""
        return {
            each.name[:-4]: each.stat().st_size
            for each in self._entries()
            if NAME.fullmatch(each.name)
        }

    def read(self, piece: Piece) -> bytes:
        """The bytes of a piece; `Damaged` if they are not what they were."""
        path = self.path(piece.hash)
        try:
            packed = path.read_bytes()
        except FileNotFoundError as error:
            raise Damaged(f"{path} is missing") from error
        raw = _unpacked(packed, piece.size)
        if raw is None or hash_of(raw) != piece.hash:
            raise Damaged(f"{path} is damaged")
        return raw

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self.path(name).unlink(missing_ok=True)

    def _entries(self) -> "Iterator[os.DirEntry[str]]":
        for folder in sorted(self.folder.glob("[0-9a-f][0-9a-f]")):
            with os.scandir(folder) as found:
                yield from found


def hash_of(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


@lru_cache(maxsize=4)
def read_again(objects: Path, piece: Piece) -> bytes:
    """The bytes of a piece that is likely to be wanted more than once."""
    return Objects(objects).read(piece)


def _unpacked(packed: bytes, size: int) -> bytes | None:
    """What was packed, if it is of this size: a damaged head could ask for any amount of memory."""
    import zstandard

    with suppress(zstandard.ZstdError, MemoryError):
        if zstandard.frame_content_size(packed) == size:
            return zstandard.decompress(packed)
    return None
