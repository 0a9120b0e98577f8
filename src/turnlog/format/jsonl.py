"""Session files as lines of bytes: read forwards or backwards, append, replace.

Offsets are bytes and always point to a line start. Joining the raw bytes of all lines yields the
file.
"""

import os
import stat
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from turnlog.errors import Conflict
from turnlog.format.atomic import is_at, written_beside
from turnlog.format.locks import lock
from turnlog.format.portable import BINARY, move_over, read_at, set_mode, sync_folder
from turnlog.format.regular_files import AnyPath, open_regular

CHUNK = 1 << 16
PRIVATE = 0o600
PROBE = 256


class Line(Struct, frozen=True, gc=False):
    """One line of a file, including its newline if it has one."""

    raw: bytes
    offset: int
    number: int
    """Counted from 1; 0 if unknown, because reading did not start at the beginning of the file."""

    @property
    def end(self) -> int:
        """The offset after this line, where the next one starts."""
        return self.offset + len(self.raw)

    @property
    def is_whole(self) -> bool:
        """True if the line ends with a newline; otherwise it is torn or still being written."""
        return self.raw.endswith(b"\n")

    @property
    def is_blank(self) -> bool:
        """True if the line contains only JSON white space."""
        return self.raw.isspace() and not self.raw.strip(b" \t\r\n")


class FileState(NamedTuple):
    """A fingerprint of a file, to detect whether it changed since it was read."""

    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, path: Path) -> "FileState":
        found = path.stat()
        return cls(found.st_ino, found.st_size, found.st_mtime_ns)


class Bookmark(NamedTuple):
    """An offset up to which a file was read, and the bytes before it to recognise the file."""

    offset: int = 0
    probe: bytes = b""

    @classmethod
    def at(cls, path: Path, offset: int) -> "Bookmark":
        with open_regular(path) as file:
            file.seek(max(0, offset - PROBE))
            return cls(offset, file.read(min(PROBE, offset)))

    def past(self, line: Line) -> "Bookmark":
        """Return the bookmark after a line read from here, regardless of later changes."""
        return Bookmark(line.end, (self.probe + line.raw[-PROBE:])[-PROBE:])

    def holds(self, path: Path) -> bool:
        """Return whether the bytes before the bookmark are unchanged."""
        # Inode and time are no proof: an editor may rewrite a file in place, and a client may
        # replace it with a longer one. If the last 256 bytes read are still in their place, the
        # file was appended to, and only the rest is new.
        return Bookmark.at(path, self.offset) == self


class Trail:
    """The last lines read: enough of them to build a bookmark after the last one."""

    def __init__(self, start: Bookmark) -> None:
        self.probe = start.probe
        self.offset = start.offset
        """The offset after the last line."""
        self.raws: list[bytes] = []

    def add(self, raw: bytes) -> None:
        self.offset += len(raw)
        if len(raw) >= PROBE:
            self.raws = [raw]  # long enough to fill a probe, so earlier lines do not matter
            return
        self.raws.append(raw)
        # A line has at least one byte, so PROBE lines always fill a probe.
        if len(self.raws) > 2 * PROBE:
            del self.raws[:-PROBE]

    @property
    def bookmark(self) -> Bookmark:
        """The bookmark after the last line, regardless of later changes to the file."""
        last = b"".join(raw[-PROBE:] for raw in self.raws)
        return Bookmark(self.offset, (self.probe + last)[-PROBE:])


def line_end(raw: bytes) -> bytes:
    """Return the line ending to use when replacing a line: CR LF stays CR LF."""
    return b"\r\n" if raw.endswith(b"\r\n") else b"\n"


def read_lines(path: AnyPath, start: int = 0) -> Iterator[Line]:
    """Yield the lines from byte `start` on, keeping one in memory at a time."""
    with open_regular(path, CHUNK) as file:
        file.seek(start)
        offset = start
        for number, raw in enumerate(file, 1):
            yield Line(raw, offset, 0 if start else number)
            offset += len(raw)


def read_raw_lines(path: AnyPath, start: int = 0) -> Iterator[bytes]:
    """Yield the raw lines from byte `start` on, without the overhead of `Line` objects."""
    with open_regular(path, CHUNK) as file:
        file.seek(start)
        yield from file


def read_lines_backwards(path: Path) -> Iterator[Line]:
    """Yield the lines from the last to the first, keeping one line and one chunk in memory."""
    with open_regular(path, 0) as file:
        start = file.seek(0, os.SEEK_END)
        # Pieces of a line that began in an earlier chunk, last piece first. Joining them once keeps
        # a line of many chunks linear.
        unfinished: list[bytes] = []
        while start:
            size = min(CHUNK, start)
            start -= size
            file.seek(start)
            chunk = file.read(size)
            end = limit = len(chunk)
            while (newline := chunk.rfind(b"\n", 0, limit)) >= 0:
                unfinished.append(chunk[newline + 1 : end])
                raw = _join(unfinished)
                unfinished.clear()
                if raw:
                    yield Line(raw, start + newline + 1, 0)
                limit, end = newline, newline + 1
            unfinished.append(chunk[:end])
        if raw := _join(unfinished):
            yield Line(raw, 0, 1)


def append_lines(path: Path, raws: Iterable[bytes]) -> None:
    """Append whole lines in one write; terminate a torn last line first."""
    payload = b"".join(_terminated(raw) for raw in raws)
    with _lock(path, os.O_RDWR | os.O_APPEND | os.O_CREAT) as file:
        # A torn line must not swallow the first appended one: `{"type":"us{"type":"user",...}`.
        size = os.fstat(file).st_size
        if size and read_at(file, 1, size - 1) != b"\n":
            payload = b"\n" + payload
        _write_all(file, payload)


def replace_file(path: Path, chunks: Iterable[bytes], expected: FileState | None = None) -> None:
    """Replace the content of an existing file atomically, keeping its mode.

    With `expected`, raise `Conflict` if the file changed since that state was taken.
    """
    path = path.resolve(strict=True)
    # A client may append while the new content is written. The lock keeps out turnlog's own
    # writers only, so the state is checked again right before the rename.
    with _lock(path, os.O_RDWR) as old:
        _require_state(path, expected)
        with written_beside(path, PRIVATE) as (new, temporary):
            _fill(new, chunks, stat.S_IMODE(os.fstat(old).st_mode))
            state = expected or FileState.of(path)
            move_over(temporary, path, (new, old), lambda: _require_state(path, state))
        sync_folder(path.parent)


def swap_in(path: Path, ready: Path, expected: FileState) -> None:
    """Replace an unchanged file with a finished one, keeping its mode and times."""
    path = path.resolve(strict=True)
    with _lock(path, os.O_RDWR) as old:
        found = os.fstat(old)
        ready.chmod(stat.S_IMODE(found.st_mode))
        os.utime(ready, ns=(found.st_atime_ns, found.st_mtime_ns))
        move_over(ready, path, (old,), lambda: _require_state(path, expected))
        sync_folder(path.parent)


def _fill(descriptor: int, chunks: Iterable[bytes], mode: int) -> None:
    with os.fdopen(descriptor, "wb", buffering=CHUNK, closefd=False) as file:
        file.writelines(chunks)
    set_mode(descriptor, mode)
    os.fsync(descriptor)


def _require_state(path: Path, expected: FileState | None) -> None:
    if expected is not None and FileState.of(path) != expected:
        raise Conflict(f"{path} changed since it was read", "run the command again")


@contextmanager
def _lock(path: Path, flags: int) -> Generator[int]:
    """Open and lock the file at `path`."""
    # While this process waits for the lock, its holder may replace the file. The lock then belongs
    # to the old file, which no longer has a name: writes to it would be lost. So open again until
    # the locked file is the one at the path.
    while True:
        descriptor = os.open(path, flags | BINARY, PRIVATE)
        try:
            lock(descriptor)
            if is_at(path, descriptor):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _terminated(raw: bytes) -> bytes:
    raw = raw.removesuffix(b"\n")
    if b"\n" in raw:
        raise ValueError("a line may contain a newline only at its end")
    return raw + b"\n"


def _write_all(descriptor: int, payload: bytes) -> None:
    view = memoryview(payload)
    while view:
        view = view[os.write(descriptor, view) :]


def _join(pieces: list[bytes]) -> bytes:
    return b"".join(reversed(pieces))
