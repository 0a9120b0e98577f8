"""Pieces of files as compressed objects, each named by the hash of its bytes.

`objects/ab/<sha256>.zst` contains one piece. An object is written atomically and never changed. An
archive may be hostile: an object is read without following links, up to a fixed size, and
decompressed only to the size that its manifest declares.
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
"""Maximum bytes in a piece: to read one line, its whole piece is decompressed."""
PACKED = PIECE + (PIECE >> 8) + 64
"""Maximum compressed size of a piece (ZSTD_COMPRESSBOUND)."""


class Chunk(NamedTuple):
    """A part of a file, identified by the hash of its bytes."""

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
        """Return the hashes of all objects with their sizes on disk."""
        return {
            entry.name[:-4]: entry.stat(follow_symlinks=False).st_size
            for entry in self._entries()
            if NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
        }

    def read(self, piece: Chunk) -> bytes:
        """Return the bytes of a piece; raise `Damaged` if they do not match its hash."""
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
        """Return the size on disk of some objects, counting each once."""
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
    # Imported here because it loads OpenSSL, which takes 10 ms; most commands never hash.
    import hashlib

    return hashlib.sha256(raw).hexdigest()


@lru_cache(maxsize=4)
def read_again(objects: Path, piece: Chunk) -> bytes:
    """Return the bytes of a piece, cached because adjacent lines are often read next."""
    return Objects(objects).read(piece)


def _unpacked(packed: bytes, size: int) -> bytes | None:
    """Decompress one frame that declares exactly this size; return None for anything else."""
    from backports import zstd

    # A decompression bomb is refused before memory is allocated for it: a frame that declares
    # 2 GiB, needs a large window, or continues after its declared end.
    with suppress(zstd.ZstdError, MemoryError):
        if size <= PIECE and zstd.get_frame_info(packed).decompressed_size == size:
            limit = int(zstd.DecompressionParameter.window_log_max)
            decompressor = zstd.ZstdDecompressor(options={limit: PIECE.bit_length() - 1})
            raw = decompressor.decompress(packed, max_length=PIECE + 1)
            is_one_frame = decompressor.eof and not decompressor.unused_data
            return raw if is_one_frame and len(raw) == size else None
    return None
