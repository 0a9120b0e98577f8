"""Pieces of files as compressed objects, each named by the hash of its bytes.

`objects/ab/<sha256>.zst` holds one piece, and can be decompressed alone. An object appears whole or
not at all, and is never changed. Whoever made the archive may be hostile: an object is read without
following links, up to a fixed size, and decompressed only to the size that its manifest declares.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Annotated, NamedTuple

from msgspec import Meta

from turnlog.errors import Damaged
from turnlog.store.descriptors import read_below, size_below

NAME = re.compile(r"[0-9a-f]{64}\.zst")
PIECE = 1 << 20
"""The most bytes in a piece: to read a line, the whole piece that it is in is decompressed."""
PACKED = PIECE + (PIECE >> 8) + 64
"""The most bytes that zstd makes of a piece (ZSTD_COMPRESSBOUND)."""


class Chunk(NamedTuple):
    """A part of a file, by the hash of its bytes."""

    # The pattern keeps a hash such as "../../x" from naming a file outside `objects/`.
    hash: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    size: Annotated[int, Meta(ge=0, le=PIECE)]


class Objects:
    """The objects in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        return self.folder / name[:2] / f"{name}.zst"

    def sizes(self) -> dict[str, int]:
        """The hashes of all objects, with their sizes on disk."""
        return {
            each.name[:-4]: each.stat(follow_symlinks=False).st_size
            for each in self._entries()
            if NAME.fullmatch(each.name) and each.is_file(follow_symlinks=False)
        }

    def read(self, piece: Chunk) -> bytes:
        """The bytes of a piece; raise `Damaged` if they are not what they were."""
        path = self.path(piece.hash)
        try:
            packed = read_below(self.folder.parent, self._folders(piece.hash), path.name, PACKED)
        except FileNotFoundError as error:
            raise Damaged(f"{path} is missing") from error
        raw = _unpacked(packed, piece.size)
        if raw is None or hash_of(raw) != piece.hash:
            raise Damaged(f"{path} is damaged")
        return raw

    def packed_size(self, names: Iterable[str]) -> int:
        """Bytes on disk of some objects, each counted once."""
        return sum(
            size_below(self.folder.parent, self._folders(name), self.path(name).name)
            for name in set(names)
        )

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self.path(name).unlink(missing_ok=True)

    def _folders(self, name: str) -> tuple[str, str]:
        return self.folder.name, name[:2]

    def _entries(self) -> "Iterator[os.DirEntry[str]]":
        for folder in sorted(self.folder.glob("[0-9a-f][0-9a-f]")):
            if not folder.is_symlink():
                with os.scandir(folder) as found:
                    yield from found


def hash_of(raw: bytes) -> str:
    # Loads OpenSSL, which takes 10 ms; most commands only import this module.
    import hashlib

    return hashlib.sha256(raw).hexdigest()


@lru_cache(maxsize=4)
def read_again(objects: Path, piece: Chunk) -> bytes:
    """The bytes of a piece that is likely to be wanted more than once."""
    return Objects(objects).read(piece)


def _unpacked(packed: bytes, size: int) -> bytes | None:
    """Decompress one frame that declares exactly this size; None for anything else.

    The size is known to be at most `PIECE`: a frame that declares 2 GiB, needs a large window or
    goes on after its declared end is refused before memory is allocated for it.
    """
    import zstandard

    with suppress(zstandard.ZstdError, MemoryError):
        if size <= PIECE and zstandard.frame_content_size(packed) == size:
            decompressor = zstandard.ZstdDecompressor(max_window_size=PIECE)
            return decompressor.decompress(packed, max_output_size=PIECE, allow_extra_data=False)
    return None
