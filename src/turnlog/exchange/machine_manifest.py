"""The manifest of a machine: its sessions, their files, and the pieces of each file.

A manifest is written by one machine and read by all others, which trust nothing in it: its size is
bounded, its fields match patterns, and its name contains the hash of its bytes.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from turnlog.errors import Damaged
from turnlog.exchange.packs import LARGEST_PIECE, unpacked
from turnlog.store.archive.allowed_paths import LONGEST_PATH, session_problem

FORMAT = 1
"""Incremented when an older turnlog could misread a manifest."""
LARGEST_MANIFEST = 512 << 20
"""Decompressed, in bytes: enough for about two million files."""
NAME = re.compile(r"manifests/([0-9a-f]{32})\.([0-9]{12})\.([0-9a-f]{64})")
MOST_REPLACED = 50

Hash = Annotated[bytes, Meta(min_length=32, max_length=32)]
Text = Annotated[str, Meta(max_length=LONGEST_PATH)]


class Piece(NamedTuple):
    """A run of whole lines, or a part of a document, identified by the hash of its bytes."""

    hash: Hash
    size: Annotated[int, Meta(ge=0, le=LARGEST_PIECE)]


class FileVersion(Struct, array_like=True, gc=False):
    """One file of a session, as one machine has it."""

    role: Text
    """Its path with `{id}` for the session's id, and without the project's folder."""
    project: Text
    """The project's directory as all machines name it; empty outside of projects."""
    pieces: list[Piece]
    former: list[list[Piece]] = msgspec.field(default_factory=list[list[Piece]])
    """Earlier versions of a log that have lines which the current one lacks."""
    replaces: list[Hash] = msgspec.field(default_factory=list[bytes])
    """Hashes of earlier versions of a document."""
    ranks: list[int] = msgspec.field(default_factory=list[int])
    """For each piece of a log, when it was added on this machine: a count, not a time.

    A received piece may precede ours in the file and still have a higher rank, as it came later.
    """

    @property
    def is_log(self) -> bool:
        return self.role.endswith(".jsonl")

    @property
    def is_backup(self) -> bool:
        """True for a backup of the file history, whose name clients reuse after a rewind."""
        return self.role.startswith("file-history/")

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)

    @property
    def listed(self) -> list[list[Piece]]:
        """The pieces of this version, and of each former one."""
        return [self.pieces, *self.former]

    @property
    def next_rank(self) -> int:
        return max(self.ranks, default=-1) + 1

    def ranked(self) -> list[tuple[Piece, int]]:
        """Return the pieces of a log with their ranks."""
        # A manifest may come from anyone, so ranks are ignored if there is not one for each piece.
        ranks = self.ranks if len(self.ranks) == len(self.pieces) else [0] * len(self.pieces)
        return list(zip(self.pieces, ranks, strict=True))

    @property
    def digest(self) -> bytes:
        """A hash that identifies this version of a document."""
        return hashlib.sha256(b"".join(piece.hash for piece in self.pieces)).digest()

    def covers(self, other: "FileVersion") -> bool:
        """Return whether a document has the content of another version, or replaced it."""
        return other.digest == self.digest or other.digest in self.replaces


class SessionVersion(Struct, array_like=True, gc=False):
    """One edition of a session, as one machine has it."""

    session: Text
    """Its id; empty for files that belong to no session."""
    label: Annotated[str, Meta(pattern=r"^([0-9a-f]{32})?\Z")]
    """The label of the edition; empty for the first one."""
    files: list[FileVersion]
    local: Text | None = None
    """Its id on that machine, which differs for a fork; None if the machine no longer has it."""
    is_deleted: bool = False
    """True if the machine deleted the session and asks others to do so."""

    @property
    def key(self) -> tuple[str, str]:
        return self.session, self.label

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def listed(self) -> list[list[Piece]]:
        """The pieces of each file, and of each former version of one."""
        return [pieces for file in self.files for pieces in file.listed]

    @property
    def digest(self) -> bytes:
        """A hash of the fields that other machines merge."""
        return hashlib.sha256(ENCODER.encode((self.files, self.is_deleted))).digest()[:16]


class MachineManifest(Struct):
    """The sessions of one machine, and where their pieces are at DEST."""

    format: int
    machine: str
    packs: list[Hash]
    """Hashes of the packs that contain its pieces."""
    places: list[tuple[Hash, int, int]]
    """The hash of each piece, the index of its pack in `packs`, and its offset there."""
    sessions: list[SessionVersion]
    sizes: list[int] = msgspec.field(default_factory=list[int])
    """The size at DEST of each pack in `packs`."""
    unreadable: list[Piece] = msgspec.field(default_factory=list[Piece])
    """Pieces that this machine could not read; a machine that has them sends them again."""


class ManifestName(NamedTuple):
    """The name of a manifest at DEST."""

    machine: str
    sequence: int
    hash: str

    def __str__(self) -> str:
        return f"manifests/{self.machine}.{self.sequence:012d}.{self.hash}"

    @classmethod
    def parse(cls, name: str) -> "ManifestName | None":
        found = NAME.fullmatch(name)
        return cls(found[1], int(found[2]), found[3]) if found else None


ENCODER = msgspec.msgpack.Encoder()
DECODER = msgspec.msgpack.Decoder(MachineManifest)


def encode_manifest(manifest: MachineManifest) -> bytes:
    """Return a manifest as compressed bytes; equal manifests yield equal bytes."""
    from backports import zstd

    return zstd.compress(ENCODER.encode(manifest), 3)


def decode_manifest(packed: bytes, name: ManifestName) -> MachineManifest:
    """Return a manifest; raise `Damaged` for anything that turnlog would not have written."""
    raw = unpacked(packed, LARGEST_MANIFEST)
    if raw is None:
        raise Damaged(f"{name} cannot be decompressed")
    try:
        manifest = DECODER.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Damaged(f"{name} is not a manifest: {error}") from error
    if manifest.format != FORMAT:
        hint = "pip install --upgrade turnlog"
        raise Damaged(f"{name} was written by a newer turnlog", hint)
    # Otherwise a renamed copy of a manifest would pass for another machine's.
    if manifest.machine != name.machine:
        raise Damaged(f"{name} belongs to another machine")
    for version in manifest.sessions:
        if version.session and (problem := session_problem(version.session)):
            raise Damaged(f"{name}: session {version.session!r} {problem}")
    return manifest


def pieces_of(sessions: Iterable[SessionVersion]) -> Iterator[Piece]:
    """Yield every piece of sessions, including the pieces of former versions."""
    for version in sessions:
        for file in version.files:
            yield from file.pieces
            for former in file.former:
                yield from former
