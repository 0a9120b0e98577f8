"""Read and write the container of a bundle: a tar archive in one zstd frame.

Writing is deterministic: no times, owners or modes of the sender. Reading accepts only what writing
produces. Links, devices, extensions and anything after the end are refused, never skipped.
"""

import hashlib
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from turnlog.bundle.manifest import MANIFEST, BundleManifest, decode_manifest
from turnlog.errors import Damaged

if TYPE_CHECKING:
    from backports.zstd import ZstdDecompressor

MAGIC = b"\x28\xb5\x2f\xfd"
"""The first bytes of a zstd frame."""
LEVEL = 9
LARGEST_WINDOW = 27
"""log2 of the largest accepted window: a frame can demand 2 GiB for its window alone."""
LARGEST_MANIFEST = 64 << 20
BLOCK = 512
CHUNK = 1 << 18
TYPES = {
    b"1": "is a hard link",
    b"2": "is a symbolic link",
    b"3": "is a device",
    b"4": "is a device",
    b"5": "is a directory",
    b"6": "is a named pipe",
    b"7": "is not a regular file",
    b"S": "is a sparse file",
}


class PackedFile(NamedTuple):
    """A file to write to a container."""

    name: str
    size: int
    path: Path


def header_of(name: str, size: int) -> bytes:
    """Return the tar header of a file; raise ValueError if its name does not fit."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    return info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict")


def fits_header(name: str) -> bool:
    """Return whether a name fits the header of a tar archive without extensions.

    >>> fits_header("a/b.txt"), fits_header("x" * 120)
    (True, False)
    """
    try:
        header_of(name, 0)
    except ValueError:
        return False
    return True


def write_container(file: BinaryIO, manifest: bytes, members: Iterable[PackedFile]) -> None:
    """Write a manifest and files, in this order."""
    from backports import zstd

    parameters = zstd.CompressionParameter
    options: dict[int, int] = {parameters.compression_level: LEVEL, parameters.checksum_flag: 1}
    compressor = zstd.ZstdCompressor(options=options)
    for chunk in _tar_chunks(manifest, members):
        file.write(compressor.compress(chunk))
    file.write(compressor.flush())


def _tar_chunks(manifest: bytes, members: Iterable[PackedFile]) -> Iterator[bytes]:
    yield header_of(MANIFEST, len(manifest))
    yield manifest
    yield _padding(len(manifest))
    for member in members:
        yield header_of(member.name, member.size)
        with member.path.open("rb") as source:
            while chunk := source.read(CHUNK):
                yield chunk
        yield _padding(member.size)
    yield bytes(2 * BLOCK)


def _padding(size: int) -> bytes:
    return bytes(-size % BLOCK)


class _FrameReader:
    """Reads the decompressed bytes of a file that consists of one zstd frame."""

    def __init__(self, file: BinaryIO) -> None:
        from backports import zstd

        window = zstd.DecompressionParameter.window_log_max
        self._file = file
        self._error = zstd.ZstdError
        self._source: ZstdDecompressor = zstd.ZstdDecompressor(options={window: LARGEST_WINDOW})

    def read(self, size: int) -> bytes:
        """Return exactly `size` bytes; raise `Damaged` if there are fewer."""
        pieces: list[bytes] = []
        while size:
            piece = self.read_some(size)
            if not piece:
                raise Damaged("the file is truncated")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def read_some(self, size: int) -> bytes:
        """Return at most `size` bytes; none at the end of the frame."""
        while not self._source.eof:
            packed = self._file.read(CHUNK) if self._source.needs_input else b""
            if self._source.needs_input and not packed:
                raise Damaged("the file is truncated")
            try:
                found = self._source.decompress(packed, size)
            except self._error as error:
                raise Damaged(f"the file cannot be decompressed: {error}") from error
            if found:
                return found
        return b""

    def require_end(self) -> None:
        """Raise `Damaged` if anything follows the archive or the frame."""
        if self.read_some(1):
            raise Damaged("data follows the end of the archive")
        # No check would see what is hidden in a second frame or in appended bytes.
        if self._source.unused_data or self._file.read(1):
            raise Damaged("data follows the end of the frame")


Require = Callable[[BundleManifest], None]
Sink = Callable[[int, Iterator[bytes]], None]
"""Takes the number of a file in the manifest, and its content."""


def read_container(file: BinaryIO, require: Require, sink: Sink) -> BundleManifest:
    """Read a container; call `require` with the manifest before anything else is unpacked.

    `sink` gets each file and must consume it. Raise `Damaged` for a file that is not exactly as
    turnlog would have written it.
    """
    # Before decompressing: the name says .turnlog, but the file may be anything.
    if file.read(len(MAGIC)) != MAGIC:
        raise Damaged("the file is not a bundle")
    file.seek(0)
    frame = _FrameReader(file)
    name, size = parse_header(frame.read(BLOCK))
    if name != MANIFEST:
        raise Damaged(f"the first file is {name!r} instead of the manifest")
    if size > LARGEST_MANIFEST:
        raise Damaged(f"the manifest has {size:,} bytes")
    manifest = decode_manifest(b"".join(_content(frame, size)))
    # Names and sizes are checked before a byte of any file reaches the disk: a bomb or
    # `../../.bashrc` stops here.
    require(manifest)
    for number, expected in enumerate(manifest.files):
        name, size = parse_header(frame.read(BLOCK))
        # The order counts as well: each file is unpacked once, under the name that was checked.
        if (name, size) != (expected.path, expected.size):
            raise Damaged(f"{name!r} of {size:,} bytes is not the next file of the manifest")
        sink(number, _verified(frame, size, expected.sha256, name))
    # A tar archive ends with two blocks of zeros; anything else is one more header.
    if any(frame.read(2 * BLOCK)):
        raise Damaged("a file follows that the manifest does not name")
    frame.require_end()
    return manifest


def parse_header(block: bytes) -> tuple[str, int]:
    """Return name and size of a regular file; raise `Damaged` for any other header."""
    if not any(block):
        raise Damaged("a file of the manifest is missing")
    name = _name_in(block)
    kind = block[156:157]
    if kind != tarfile.REGTYPE:
        raise Damaged(f"{name!r} {TYPES.get(kind, 'uses an extension of the tar format')}")
    mode, size = block[100:107], block[124:135]
    if mode != b"0000600":
        raise Damaged(f"{name!r} has mode {mode.decode('ascii', 'replace')} instead of 0600")
    try:
        count = int(size, 8) if size.strip(b"01234567") == b"" else -1
        # Compare every byte: turnlog writes fixed values for everything else that a header can
        # contain (owners, times, a link's target).
        is_own = count >= 0 and header_of(name, count) == block
    except ValueError:
        is_own = False
    if not is_own:
        raise Damaged(f"the header of {name!r} is not one that turnlog writes")
    return name, int(size, 8)


def _name_in(block: bytes) -> str:
    name, prefix = (part.split(b"\0", 1)[0] for part in (block[:100], block[345:500]))
    try:
        return (prefix + b"/" + name if prefix else name).decode()
    except UnicodeDecodeError:
        raise Damaged("a file has a name that is not UTF-8") from None


def _content(frame: _FrameReader, size: int) -> Iterator[bytes]:
    left = size
    while left:
        chunk = frame.read(min(CHUNK, left))
        left -= len(chunk)
        yield chunk
    # The padding, up to 511 bytes per file, is shown by no reader: data could hide there.
    if any(frame.read(-size % BLOCK)):
        raise Damaged("data is hidden between two files")


def _verified(frame: _FrameReader, size: int, expected: str, name: str) -> Iterator[bytes]:
    digest = hashlib.sha256()
    for chunk in _content(frame, size):
        digest.update(chunk)
        yield chunk
    # After the last chunk: the sink must not use a file before all of it was yielded.
    if digest.hexdigest() != expected:
        raise Damaged(f"{name!r} does not match its checksum")
