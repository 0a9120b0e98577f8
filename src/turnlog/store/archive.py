"""The archive: every session and all that belongs to it, kept after the client has deleted it.

`sessions/<id>.json` names the files of a session and the pieces of each, `objects/` holds the
pieces. A manifest is replaced at once, and only after all its pieces are on the disk.
"""

import fcntl
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec
from msgspec import Struct

from turnlog.errors import Damaged, NotFound, Unavailable
from turnlog.format.jsonl import PRIVATE, PROBE, Bookmark, FileState, Line, sync_folder
from turnlog.store.objects import (
    Objects,
    Piece,
    hash_of,
    read_again,
)
from turnlog.store.paths import archive_folder
from turnlog.store.whole import UNFINISHED, write_whole

FORMAT = 1
"""To be raised when an older turnlog could not read a manifest right."""


class ArchivedFile(Struct, omit_defaults=True):
    """One file of a session."""

    path: str
    """Where it lies in the store."""
    mode: int
    mtime_ns: int
    size: int
    inode: int
    read_ns: int
    """When it was last read: a file changed at about that time is read again."""
    pieces: list[Piece]
    gone: bool = False
    """Whether it was missing when the rest of the session was last archived."""

    @property
    def state(self) -> FileState:
        return FileState(self.inode, self.size, self.mtime_ns)

    @property
    def role(self) -> str:
        """Its path without the project's folder: the same after the session has moved."""
        parts = PurePosixPath(self.path).parts
        return "/".join(parts[2:]) if parts[0] == "projects" else self.path


class Manifest(Struct, omit_defaults=True):
    """What the archive has of a session."""

    session: str
    store: str
    """The store that it was in."""
    files: list[ArchivedFile]
    title: str | None = None
    cwd: str | None = None
    last_active: datetime | None = None

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def current(self) -> list[ArchivedFile]:
        """The files as they were last: of one that was moved, only where it was moved to."""
        chosen: list[ArchivedFile] = []
        roles: set[str] = set()
        for file in sorted(self.files, key=lambda file: (file.gone, -file.read_ns)):
            if not file.gone or file.role not in roles:
                chosen.append(file)
            roles.add(file.role)
        return sorted(chosen, key=lambda file: file.path)

    def is_transcript(self, file: ArchivedFile) -> bool:
        return file.path.startswith("projects/") and file.role == f"{self.session}.jsonl"

    @property
    def is_in_store(self) -> bool:
        """Whether the session itself is still where it was."""
        transcripts = filter(self.is_transcript, self.files)
        return any(Path(self.store, file.path).exists() for file in transcripts)


class _Envelope(Struct):
    turnlog: int
    sha256: str
    session: msgspec.Raw


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_manifest = msgspec.json.Decoder(Manifest).decode
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class Archive:
    """An archive in a folder, which need not exist."""

    folder: Path

    @property
    def objects(self) -> Objects:
        return Objects(self.folder / "objects")

    @property
    def sessions(self) -> Path:
        return self.folder / "sessions"

    @contextmanager
    def locked(self) -> Generator[None]:
        """Wait until no one else writes, and keep others from writing."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, PRIVATE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._clear_unfinished()
            yield
        finally:
            os.close(descriptor)

    def _clear_unfinished(self) -> None:
        """Remove what a crash left behind."""
        for pattern in ("sessions", "objects/??"):
            for path in self.folder.glob(f"{pattern}/.*{UNFINISHED}"):
                path.unlink(missing_ok=True)

    def names(self) -> list[str]:
        """The ids of all sessions."""
        found = self.sessions.glob("[!.]*.json")
        return sorted(path.name.removesuffix(".json") for path in found)

    def load(self, session: str) -> Manifest:
        """What there is of a session; `Damaged` if that can no longer be told."""
        path = self.sessions / f"{session}.json"
        try:
            held = _decode_envelope(path.read_bytes())
            if held.turnlog > FORMAT:
                raise Unavailable(f"{path} is of a newer turnlog", "pip install -U turnlog")
            if held.sha256 == hash_of(bytes(held.session)):
                return _decode_manifest(held.session)
        except FileNotFoundError as error:
            raise NotFound(f"no session {session} in {self.folder}") from error
        except msgspec.MsgspecError:
            pass
        raise Damaged(f"{path} is damaged")

    def save(self, manifest: Manifest) -> None:
        raw = _encode(manifest)
        envelope = _encode(_Envelope(FORMAT, hash_of(raw), msgspec.Raw(raw)))
        write_whole(self.sessions / f"{manifest.session}.json", envelope + b"\n")

    def remove(self, session: str) -> int:
        """Delete a session for good, and what nothing else needs; the bytes that frees on disk.

        `Damaged` while it cannot be told what all others need.
        """
        with self.locked():
            others = [self.load(name) for name in self.names() if name != session]
            needed = {piece.hash for each in others for f in each.files for piece in f.pieces}
            sizes = self.objects.sizes()
            (self.sessions / f"{session}.json").unlink()
            sync_folder(self.sessions)
            self.objects.remove(sizes.keys() - needed)
        return sum(sizes[name] for name in sizes.keys() - needed)

    def manifests(self) -> Iterator[Manifest]:
        """What there is of all sessions, but for those that cannot be told."""
        for name in self.names():
            try:
                yield self.load(name)
            except Damaged:
                continue

    def find(self, path: str) -> ArchivedFile | None:
        """A file of a session by the path that it had on disk."""
        names = (PurePosixPath(path).stem, *PurePosixPath(path).parts)
        owners = [name for name in names if (self.sessions / f"{name}.json").is_file()]
        try:
            # Only a sub-agent of 2.0.x has no session in its path.
            manifests = [self.load(owners[0])] if owners else self.manifests()
            files = (file for manifest in manifests for file in manifest.files)
            return next((file for file in files if path.endswith(f"/{file.path}")), None)
        except Damaged:
            return None

    def read_at(self, file: ArchivedFile, offset: int, size: int) -> bytes:
        """Bytes of a file, for which only the pieces they are in are decompressed."""
        parts: list[bytes] = []
        for start, piece in _placed(file):
            if start < offset + size and offset < start + piece.size:
                raw = read_again(self.objects.folder, piece)
                parts.append(raw[max(0, offset - start) : offset + size - start])
        return b"".join(parts)

    def chunks(self, file: ArchivedFile, start: int = 0) -> Iterator[bytes]:
        """The content of a file from a byte on, a piece at a time."""
        for begin, piece in _placed(file):
            if begin + piece.size > start:
                yield self.objects.read(piece)[max(0, start - begin) :]

    def lines(self, file: ArchivedFile, start: int = 0) -> Iterator[Line]:
        """The lines of a file from a byte on, as `read_lines` gives them."""
        offset, number, rest = start, 0, b""
        for chunk in self.chunks(file, start):
            *whole, rest = (rest + chunk).split(b"\n")
            for raw in whole:
                number += 1
                yield Line(raw + b"\n", offset, 0 if start else number)
                offset += len(raw) + 1
        if rest:
            yield Line(rest, offset, 0 if start else number + 1)


class ArchivedCopy(NamedTuple):
    """An archived file, and where to read it."""

    archive: Archive
    file: ArchivedFile
    title: str | None
    """What its session is called."""

    def lines(self, start: int) -> Iterator[Line]:
        return self.archive.lines(self.file, start)

    def bookmark(self, offset: int) -> Bookmark:
        """What a reader that got so far would remember."""
        start = max(0, offset - PROBE)
        return Bookmark(offset, self.archive.read_at(self.file, start, offset - start))


def open_archive(
    folder: Path | None = None, environment: Mapping[str, str] = os.environ
) -> Archive:
    """The archive in a folder, by default that of the user."""
    return Archive(folder.absolute() if folder else archive_folder(environment))


def _placed(file: ArchivedFile) -> Iterator[tuple[int, Piece]]:
    """The pieces of a file, with where each starts."""
    starts = accumulate((piece.size for piece in file.pieces), initial=0)
    return zip(starts, file.pieces, strict=False)
