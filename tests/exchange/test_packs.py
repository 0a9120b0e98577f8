"""Packs: pieces in, the same pieces out, each of them stored once."""

import hashlib
import random
from pathlib import Path

import pytest

from turnlog.errors import Damaged
from turnlog.exchange.directory_transport import DirectoryTransport
from turnlog.exchange.packs import PackWriter, PieceReader

MEGABYTE = 1 << 20


def piece(size: int, seed: int) -> tuple[bytes, bytes]:
    """Bytes that do not compress, and their hash."""
    raw = random.Random(seed).randbytes(size)
    return hashlib.sha256(raw).digest(), raw


@pytest.fixture
def transport(tmp_path: Path) -> DirectoryTransport:
    return DirectoryTransport(tmp_path / "dest")


def write(transport: DirectoryTransport, pieces: list[tuple[bytes, bytes]]) -> PackWriter:
    writer = PackWriter(transport, {}, is_dry=False)
    for digest, raw in pieces:
        writer.add(digest, raw)
    writer.finish()
    return writer


def test_a_pack_is_full_after_eight_megabytes(transport: DirectoryTransport) -> None:
    pieces = [piece(4 * MEGABYTE, 1), piece(4 * MEGABYTE, 2), piece(MEGABYTE, 3)]
    writer = write(transport, pieces)
    packs = [writer.known[digest].pack for digest, _ in pieces]
    assert packs[0] == packs[1] != packs[2]
    assert writer.names == {*packs}


def test_pieces_are_read_from_their_places(transport: DirectoryTransport) -> None:
    pieces = [piece(1000 + n, n) for n in range(5)]
    writer = write(transport, [*pieces, pieces[0]])
    assert writer.bytes == sum(len(raw) for _, raw in pieces)
    reader = PieceReader(transport, writer)
    assert [reader.read(digest, len(raw)) for digest, raw in pieces] == [raw for _, raw in pieces]
    unknown, _ = piece(10, 99)
    with pytest.raises(Damaged, match="is in no pack"):
        reader.read(unknown, 10)
    assert reader.unreadable == {(unknown, 10)}


def test_a_dry_run_counts_and_writes_nothing(transport: DirectoryTransport) -> None:
    writer = PackWriter(transport, {}, is_dry=True)
    for digest, raw in (piece(1000, 1), piece(500, 2)):
        writer.add(digest, raw)
    writer.finish()
    assert (writer.bytes, writer.written, writer.names) == (1500, 0, set())
