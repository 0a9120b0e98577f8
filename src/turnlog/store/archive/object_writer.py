"""Split files into pieces and write the pieces as objects."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import BoundedSemaphore
from typing import BinaryIO

from turnlog.format.atomic import write_atomic
from turnlog.format.portable import sync_folder
from turnlog.store.archive.objects import PIECE, Chunk, Objects, hash_of

LEVEL = 6
THREADS = 4
"""More than there are cores: small pieces mostly wait for the disk."""


class ObjectWriter:
    """A thread pool that compresses and writes pieces, a few ahead of the reader."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.known = objects.sizes()
        self.new: dict[str, int] = {}
        """Sizes on disk of the objects written, by hash."""
        self.pool = ThreadPoolExecutor(THREADS)
        # Bounds memory: without it, a fast reader would queue a whole file as pieces of 1 MiB.
        self._slots = BoundedSemaphore(2 * THREADS)

    def __enter__(self) -> "ObjectWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown(cancel_futures=True)

    def put(self, raw: bytes) -> Future[Chunk]:
        """Write a piece unless it exists already."""
        self._slots.acquire()
        task = self.pool.submit(self._write, raw)
        task.add_done_callback(lambda _: self._slots.release())
        return task

    def sync(self, names: Iterable[str]) -> None:
        """Flush the directories of new objects to disk, so that they survive a power failure."""
        folders = {self.objects.path(name).parent for name in names if name in self.new}
        list(self.pool.map(sync_folder, folders))

    def _write(self, raw: bytes) -> Chunk:
        from backports import zstd

        name = hash_of(raw)
        if name not in self.known and name not in self.new:
            packed = zstd.compress(raw, LEVEL)
            write_atomic(self.objects.path(name), packed, is_clearing=False)
            self.new[name] = len(packed)
        return Chunk(name, len(raw))


def cut(file: BinaryIO, length: int) -> Iterator[bytes]:
    """Yield the next `length` bytes of a file as pieces that end at a line end if possible."""
    # A line within one piece can be read by decompressing only that piece. Also, when a file grows,
    # all pieces but its last stay the same, because boundaries do not shift.
    rest = b""
    while chunk := file.read(min(PIECE - len(rest), length)):
        length -= len(chunk)
        chunk = rest + chunk
        end = chunk.rfind(b"\n") + 1 if length else 0
        end = end or len(chunk)
        yield chunk[:end]
        rest = chunk[end:]
    if rest:
        yield rest
