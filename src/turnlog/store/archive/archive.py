"""The archive: every session and all that belongs to it, kept after the client has deleted it.

`sessions/<id>.json` names the files of a session and the pieces of each, `objects/` holds the
pieces. A manifest is replaced at once, and only after all its pieces are on the disk.

An archive may come from anyone (`restore --from DIR`): manifests and objects are read without
following links and within fixed bounds, and paths are checked before they are used.
"""

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from turnlog.errors import Damaged, NotFound, Unavailable
from turnlog.format.atomic import TEMPORARY_SUFFIX, write_atomic
from turnlog.format.jsonl import PROBE, Bookmark, FileState, Line
from turnlog.format.locks import lock
from turnlog.format.portable import NOFOLLOW, sync_folder
from turnlog.format.private_files import create_private_folder, open_private, secure_folder
from turnlog.store.archive.allowed_paths import path_problem, session_problem
from turnlog.store.archive.objects import (
    Chunk,
    Objects,
    hash_of,
    read_again,
)
from turnlog.store.deletion_consent import Consent, Deletion, require_yes
from turnlog.store.descriptors import read_below
from turnlog.store.paths import archive_folder

FORMAT = 1
"""To be raised when an older turnlog could not read a manifest right."""
LARGEST_MANIFEST = 32 << 20
"""Bytes: enough for about 100,000 files."""
LONGEST_LINE = 64 << 20
"""Bytes: a line is held in memory; requests to the API, and so messages, end at 32 MB."""
RATIO = 100
ALWAYS_ALLOWED = 16 << 20
"""Bytes that sessions may expand to beyond `RATIO`: generated sessions compress about 6 times."""

Amount = Annotated[int, Meta(ge=0, lt=1 << 62)]


class ArchivedFile(Struct, omit_defaults=True):
    """One file of a session."""

    path: str
    """Where it lies in the store."""
    mode: Amount
    mtime_ns: int
    size: Amount
    inode: Amount
    read_ns: int
    """When it was last read: a file changed at about that time is read again."""
    pieces: list[Chunk]
    gone: bool = False
    """Whether it was missing when the rest of the session was last archived."""

    @property
    def state(self) -> FileState:
        return FileState(self.inode, self.size, self.mtime_ns)

    @property
    def role(self) -> str:
        """Its path without the project's folder: the same after the session has moved."""
        parts = self.path.split("/")
        return "/".join(parts[2:]) if parts[0] == "projects" else self.path


class Manifest(Struct, omit_defaults=True):
    """What the archive has of a session."""

    session: str
    store: str
    """The store that it was in."""
    files: list[ArchivedFile]
    title: str | None = None
    cwd: str | None = None
    last_active: Annotated[datetime, Meta(tz=True)] | None = None

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

    def problem(self, file: ArchivedFile) -> str | None:
        """Why a file must not be restored or shown under its path; None if it may."""
        return path_problem(self.session, file.path)

    def is_transcript(self, file: ArchivedFile) -> bool:
        return file.path.startswith("projects/") and file.role == f"{self.session}.jsonl"

    @property
    def is_in_store(self) -> bool:
        """Whether the session itself is still where it was."""
        transcripts = filter(self.is_transcript, self.files)
        return any(os.path.lexists(Path(self.store, file.path)) for file in transcripts)


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
        create_private_folder(self.folder)
        for folder in (self.sessions, self.objects.folder):
            _require_no_link(folder)
            secure_folder(folder)
        for folder in self.objects.folder.iterdir():
            _require_no_link(folder)
        flags = os.O_RDWR | os.O_CREAT | NOFOLLOW
        descriptor = open_private(self.folder / "lock", flags)
        try:
            lock(descriptor)
            self._clear_unfinished()
            yield
        finally:
            os.close(descriptor)

    def _clear_unfinished(self) -> None:
        """Remove what a crash left behind."""
        for pattern in ("sessions", "objects/??"):
            for path in self.folder.glob(f"{pattern}/.*{TEMPORARY_SUFFIX}"):
                path.unlink(missing_ok=True)

    def names(self) -> list[str]:
        """The ids of all sessions."""
        found = (path.name.removesuffix(".json") for path in self.sessions.glob("[!.]*.json"))
        return sorted(name for name in found if session_problem(name) is None)

    def load(self, session: str) -> Manifest:
        """Read the manifest of a session; raise `Damaged` if it is not as turnlog wrote it."""
        path = self.sessions / f"{session}.json"
        try:
            raw = read_below(self.folder, ("sessions",), path.name, LARGEST_MANIFEST)
            held = _decode_envelope(raw)
            if held.turnlog > FORMAT:
                raise Unavailable(f"{path} is of a newer turnlog", "pip install -U turnlog")
            if held.sha256 == hash_of(bytes(held.session)):
                return _consistent(_decode_manifest(held.session), session, path)
        except FileNotFoundError as error:
            raise NotFound(f"no session {session} in {self.folder}") from error
        except (msgspec.MsgspecError, ValueError, RecursionError):  # no JSON, or nested too deeply
            pass
        raise Damaged(f"{path} is damaged")

    def save(self, manifest: Manifest) -> None:
        raw = _encode(manifest)
        envelope = _encode(_Envelope(FORMAT, hash_of(raw), msgspec.Raw(raw)))
        write_atomic(self.sessions / f"{manifest.session}.json", envelope + b"\n")

    def remove(self, session: str, consent: Consent = require_yes) -> int:
        """Delete a session for good, with what nothing else needs; return the bytes freed on disk.

        Raise `Damaged` while it cannot be told what all others need.
        """
        manifest = self.load(session)
        where = "" if manifest.is_in_store else "; it is nowhere else"
        about = f"{session}  {manifest.title or '(empty)'}  {manifest.size:,} bytes{where}"
        what = f"archived session {session}"
        consent(Deletion(what, [about], f"turnlog forget --archived {quote(session)} --yes"))
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
        """The lines of a file from a byte on, as `read_lines` gives them.

        Raise `Damaged` for a line, or a file, too large to have been a session's.
        """
        if problem := self.size_problem([file]):
            raise Damaged(problem)
        offset, number = start, 0
        torn: list[bytes] = []  # the line whose end is still ahead
        for chunk in self.chunks(file, start):
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                number += 1
                raw = b"".join((*torn, end, b"\n"))
                torn.clear()
                yield Line(raw, offset, 0 if start else number)
                offset += len(raw)
            torn += [rest] if rest else []
            if sum(map(len, torn)) > LONGEST_LINE:
                raise Damaged(f"{file.path} has a line of more than {LONGEST_LINE:,} bytes")
        if torn:
            yield Line(b"".join(torn), offset, 0 if start else number + 1)

    def size_problem(self, files: Sequence[ArchivedFile], limit: int | None = None) -> str | None:
        """Why files are too large to be read whole; None if they are not.

        One piece may be named a million times: a few kilobytes would fill the disk. Without a limit
        of the caller's, files may be `RATIO` times as large as their objects.
        """
        total = sum(file.size for file in files)
        if total <= (ALWAYS_ALLOWED if limit is None else limit):
            return None
        packed = self.objects.packed_size(piece.hash for file in files for piece in file.pieces)
        if limit is None and total <= RATIO * packed:
            return None
        largest = max(files, key=lambda file: file.size)
        share = f" ({largest.path} alone {largest.size:,})" if len(files) > 1 else ""
        name = largest.path if len(files) == 1 else "the session"
        return f"{name} expands from {packed:,} to {total:,} bytes{share}"


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


def _consistent(manifest: Manifest, session: str, path: Path) -> Manifest:
    """Require of a manifest what holds for every one that turnlog has written."""
    if manifest.session != session:
        raise Damaged(f"{path} is of another session: {manifest.session!r}")
    for file in manifest.files:
        if file.size != sum(piece.size for piece in file.pieces):
            raise Damaged(f"{path}: {file.path!r} has a size that its pieces do not add up to")
    return manifest


def _require_no_link(folder: Path) -> None:
    if folder.is_symlink():
        raise Unavailable(f"{folder} is a symbolic link", f"ls -l {folder.parent}")


def _placed(file: ArchivedFile) -> Iterator[tuple[int, Chunk]]:
    """The pieces of a file, with where each starts."""
    starts = accumulate((piece.size for piece in file.pieces), initial=0)
    return zip(starts, file.pieces, strict=False)
