"""Files cut into pieces, and the pieces written as objects."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import BoundedSemaphore
from typing import BinaryIO

from turnlog.format.atomic import write_atomic
from turnlog.format.portable import sync_folder
from turnlog.store.archive.objects import PIECE, Chunk, Objects, hash_of

LEVEL = 6
THREADS = 4
"""More than there are cores: most of the time for small pieces is spent waiting for the disk."""


class ObjectWriter:
    """Writes pieces in several threads, a few ahead of the one who reads them."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.known = objects.sizes()
        self.new: dict[str, int] = {}
        """The sizes on disk of the objects that were written, by their hashes."""
        self.pool = ThreadPoolExecutor(THREADS)
        self._room = BoundedSemaphore(2 * THREADS)

    def __enter__(self) -> "ObjectWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown(cancel_futures=True)

    def put(self, raw: bytes) -> Future[Chunk]:
        """Write a piece, unless it is there."""
        self._room.acquire()
        task = self.pool.submit(self._write, raw)
        task.add_done_callback(lambda _: self._room.release())
        return task

    def sync(self, names: Iterable[str]) -> None:
        """See to it that the names of objects outlive a power failure, as their content does."""
        folders = {self.objects.path(name).parent for name in names if name in self.new}
        list(self.pool.map(sync_folder, folders))

    def _write(self, raw: bytes) -> Chunk:
        import zstandard

        name = hash_of(raw)
        if name not in self.known and name not in self.new:
            packed = zstandard.compress(raw, LEVEL)
            write_atomic(self.objects.path(name), packed)
            self.new[name] = len(packed)
        return Chunk(name, len(raw))


def cut(file: BinaryIO, length: int) -> Iterator[bytes]:
    """The next bytes of a file as pieces, which end with a line where they can."""
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
