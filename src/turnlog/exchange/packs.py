"""Packs: many pieces of files in one compressed file at DEST, named by the hash of its bytes.

Equal pieces in equal order yield equal packs, so an interrupted upload is not repeated. A pack is
verified by its name, and each piece by its own hash.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

from turnlog.errors import Damaged
from turnlog.exchange.transports import Transport

PACK = 8 << 20
"""Bytes after which a pack is full."""
LARGEST_PIECE = 64 << 20
"""In bytes. A piece has at least one line; API requests, and thus messages, are at most 32 MB."""
LARGEST_PACK = PACK + LARGEST_PIECE
LEVEL = 3
CACHED = 64 << 20
"""Bytes of packs that a reader keeps in memory."""
THREADS = 2
RATIO = 100
ALWAYS_ALLOWED = 16 << 20
"""Bytes that a file may expand to regardless of `RATIO`."""


class Place(NamedTuple):
    """The position of a piece: a pack, named by its hash, and an offset."""

    pack: str
    offset: int


class PackWriter:
    """Collects new pieces and writes them in packs; compression runs in the background."""

    def __init__(
        self,
        transport: Transport,
        known: dict[bytes, Place],
        is_dry: bool,
        damaged: Collection[str] = (),
    ) -> None:
        self.known = known
        """The places of all pieces at DEST, by hash."""
        self.names: set[str] = set()
        """Packs that were written."""
        self.bytes = 0
        """Bytes of new pieces."""
        self.written = 0
        """Bytes of new packs."""
        self._transport = transport
        self._is_dry = is_dry
        self._damaged = frozenset(damaged)
        self._sizes = transport.list()
        self._open: list[tuple[bytes, bytes]] = []
        self._waiting: dict[bytes, bytes] = {}
        """Pieces that are not at DEST yet."""
        self._size = 0
        self._pool = ThreadPoolExecutor(THREADS)
        self._tasks: list[tuple[list[tuple[bytes, bytes]], Future[str]]] = []

    def add(self, digest: bytes, raw: bytes) -> None:
        """Queue a piece for writing unless DEST has it."""
        if digest in self.known or digest in self._waiting:
            return
        self._open.append((digest, raw))
        # A dry run only counts bytes, so it need not keep them.
        self._waiting[digest] = b"" if self._is_dry else raw
        self._size += len(raw)
        self.bytes += len(raw)
        if self._size >= PACK:
            self._close()

    def waiting(self, digest: bytes) -> bytes | None:
        """Return the bytes of a piece that is not at DEST yet; None if it is not queued."""
        return self._waiting.get(digest) or None

    def finish(self) -> None:
        """Write the last pack, and wait until all packs are written."""
        self._close()
        while self._tasks:
            self._settle()

    def stop(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _close(self) -> None:
        if self._open and not self._is_dry:
            # Bounds memory: a fast reader would otherwise queue the whole store.
            while len(self._tasks) > 2 * THREADS:
                self._settle()
            self._tasks.append((self._open, self._pool.submit(self._write, self._open)))
        self._open, self._size = [], 0

    def _settle(self) -> None:
        pieces, task = self._tasks.pop(0)
        name, offset = task.result(), 0
        for digest, raw in pieces:
            self.known[digest] = Place(name, offset)
            self._waiting.pop(digest, None)
            offset += len(raw)

    def _write(self, pieces: list[tuple[bytes, bytes]]) -> str:
        from backports import zstd

        packed = zstd.compress(b"".join(raw for _, raw in pieces), LEVEL)
        name = hashlib.sha256(packed).hexdigest()
        # If the transport cannot rename, an interrupted sync may have left a truncated pack. With
        # encryption, sizes always differ, so the pack is written again.
        if self._sizes.get(f"packs/{name}") != len(packed) or name in self._damaged:
            self._transport.write(f"packs/{name}", packed)
            self.written += len(packed)
        self.names.add(name)
        return name


class PieceReader:
    """Reads pieces, with an LRU cache of packs."""

    def __init__(self, transport: Transport, writer: PackWriter) -> None:
        self.places: Mapping[bytes, Place] = writer.known
        self._writer = writer
        self.unreadable: set[tuple[bytes, int]] = set()
        """Pieces that could not be read: hash and size."""
        self.fetched = 0
        """Bytes of packs read."""
        self._transport = transport
        self._sizes = transport.list()
        self._packs: OrderedDict[str, bytes] = OrderedDict()

    def read(self, digest: bytes, size: int) -> bytes:
        """Return the bytes of a piece; raise `Damaged` if they do not match its hash."""
        if (raw := self._writer.waiting(digest)) is not None:
            return raw
        try:
            return self._read(digest, size)
        except Damaged:
            self.unreadable.add((digest, size))
            raise

    def _read(self, digest: bytes, size: int) -> bytes:
        place = self.places.get(digest)
        if place is None:
            raise Damaged(f"piece {digest.hex()} is in no pack")
        start = place.offset
        raw = self._pack(place.pack)[start : start + size]
        if hashlib.sha256(raw).digest() != digest:
            raise Damaged(f"packs/{place.pack} does not contain piece {digest.hex()}")
        return raw

    def size_problem(self, pieces: Iterable[tuple[bytes, int]]) -> str | None:
        """Return why a file is refused as a decompression bomb; None if it is not."""
        # A manifest can name one piece a million times, so a few kilobytes could fill the disk.
        listed = list(pieces)
        total = sum(size for _, size in listed)
        if total <= ALWAYS_ALLOWED:
            return None
        names = {place.pack for digest, _ in listed if (place := self.places.get(digest))}
        packed = sum(map(self.packed_size, names))
        return f"expands from {packed:,} to {total:,} bytes" if total > RATIO * packed else None

    def packed_size(self, pack: str) -> int:
        """Return the size of a pack at DEST; 0 if it was not there before this sync."""
        return self._sizes.get(f"packs/{pack}", 0)

    def _pack(self, name: str) -> bytes:
        if name in self._packs:
            self._packs.move_to_end(name)
            return self._packs[name]
        packed = read_verified(self._transport, f"packs/{name}", name, LARGEST_PACK)
        raw = unpacked(packed, LARGEST_PACK)
        if raw is None:
            raise Damaged(f"packs/{name} cannot be decompressed")
        self.fetched += len(packed)
        self._packs[name] = raw
        # The pack that was just read stays, even if it alone exceeds the limit.
        while len(self._packs) > 1 and sum(map(len, self._packs.values())) > CACHED:
            self._packs.popitem(last=False)
        return raw


def read_verified(transport: Transport, name: str, digest: str, limit: int) -> bytes:
    """Return a file at DEST; raise `Damaged` if it does not match the hash in its name."""
    content = transport.read(name, limit)
    if hashlib.sha256(content).hexdigest() != digest:
        raise Damaged(f"{name} does not match its name")
    return content


def unpacked(packed: bytes, limit: int) -> bytes | None:
    """Decompress one frame that declares at most `limit` bytes; None for anything else."""
    from backports import zstd

    # A decompression bomb is refused before memory is allocated for it.
    with suppress(zstd.ZstdError, MemoryError):
        size = zstd.get_frame_info(packed).decompressed_size or 0
        if size <= limit:
            decompressor = zstd.ZstdDecompressor()
            raw = decompressor.decompress(packed, max_length=size + 1)
            is_one_frame = decompressor.eof and not decompressor.unused_data
            return raw if is_one_frame and len(raw) == size else None
    return None


Fetch = Callable[[bytes, int], bytes]
"""Returns the bytes of a piece, given its hash and size."""
