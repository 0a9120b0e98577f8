"""The archive: copies of sessions with all their files, kept after the client has deleted them.

`sessions/<id>.json` lists the files of a session and the pieces of each; `objects/` has the pieces.
A manifest is replaced atomically, and only after all its pieces are on disk.

An archive may come from anyone (`restore --from DIR`): manifests and objects are read without
following links and within fixed bounds, and paths are checked before they are used.
"""

import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from turnlog.errors import Damaged, NotFound, Unavailable
from turnlog.format.atomic import TEMPORARY_SUFFIX, write_atomic
from turnlog.format.decode import encode_sound
from turnlog.format.jsonl import PROBE, Bookmark, FileState, Line
from turnlog.format.locks import lock
from turnlog.format.portable import NOFOLLOW, sync_folder
from turnlog.format.private_files import create_private_folder, open_private, secure_folder
from turnlog.store.archive.allowed_paths import HISTORY, archived_problem, session_problem
from turnlog.store.archive.objects import (
    Chunk,
    Objects,
    hash_of,
    read_again,
)
from turnlog.store.catalog import SessionNames
from turnlog.store.deletion_consent import Consent, Deletion, require_yes
from turnlog.store.descriptors import read_below
from turnlog.store.paths import archive_folder

FORMAT = 1
"""Incremented when an older turnlog could misread a manifest."""
LARGEST_MANIFEST = 32 << 20
"""In bytes: enough for about 100,000 files."""
LONGEST_LINE = 64 << 20
"""In bytes. A line is held in memory; API requests, and so messages, have at most 32 MB."""
RATIO = 100
ALWAYS_ALLOWED = 16 << 20
"""Bytes that sessions may expand to regardless of `RATIO`; typical sessions expand sixfold."""
MIRRORED = ""
"""Value of `ArchiveManifest.store` for a session that a program mirrored, without a store."""

Amount = Annotated[int, Meta(ge=0, lt=1 << 62)]


class ArchivedFile(Struct, omit_defaults=True):
    """One file of a session."""

    path: str
    """Path in the store."""
    mode: Amount
    mtime_ns: int
    size: Amount
    inode: Amount
    read_ns: int
    """Time of the last read; a file that was modified at about that time is read again."""
    pieces: list[Chunk]
    gone: bool = False
    """True if it was missing when the session was last archived."""

    @property
    def state(self) -> FileState:
        return FileState(self.inode, self.size, self.mtime_ns)

    @property
    def is_history(self) -> bool:
        """True for the prompt history, of which only the session's own lines are archived."""
        return self.path == HISTORY

    @property
    def role(self) -> str:
        """Its path below the project's folder, which stays the same when the session moves."""
        parts = self.path.split("/")
        return "/".join(parts[2:]) if parts[0] == "projects" else self.path


class ArchiveManifest(Struct, omit_defaults=True):
    """The archived files of a session."""

    session: str
    store: str
    """The store that it was archived from; `MIRRORED` if a program mirrored it."""
    files: list[ArchivedFile]
    title: str | None = None
    tag: str | None = None
    cwd: str | None = None
    last_active: Annotated[datetime, Meta(tz=True)] | None = None
    summaries: dict[str, dict[str, Any]] = {}
    """The Agent SDK's own summaries of mirrored sessions, by project."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def current(self) -> list[ArchivedFile]:
        """The latest version of each file; for a moved file, only its new path."""
        chosen: list[ArchivedFile] = []
        roles: set[str] = set()
        # Existing files come first, then the most recently read. Leave out a gone file if another
        # one has its role: the session was moved to another project.
        for file in sorted(self.files, key=lambda file: (file.gone, -file.read_ns)):
            if not file.gone or file.role not in roles:
                chosen.append(file)
            roles.add(file.role)
        return sorted(chosen, key=lambda file: file.path)

    def problem(self, file: ArchivedFile) -> str | None:
        """Return why a file must not be restored or shown under its path; None if it may."""
        return archived_problem(self.session, file.path)

    def is_transcript(self, file: ArchivedFile) -> bool:
        return file.path.startswith("projects/") and file.role == f"{self.session}.jsonl"

    @property
    def is_mirrored(self) -> bool:
        """True if a mirroring program wrote it last, instead of `turnlog archive`."""
        return self.store == MIRRORED

    @property
    def is_in_store(self) -> bool:
        """True if the session file still exists at its original path."""
        if self.is_mirrored:
            return False
        transcripts = filter(self.is_transcript, self.files)
        return any(os.path.lexists(Path(self.store, file.path)) for file in transcripts)


class _Envelope(Struct):
    turnlog: int
    sha256: str
    session: msgspec.Raw


class _LineUuid(Struct):
    uuid: str | UnsetType = UNSET


_identify = msgspec.json.Decoder(_LineUuid).decode
_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_manifest = msgspec.json.Decoder(ArchiveManifest).decode
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
        """Lock the archive for writing, waiting for other writers."""
        create_private_folder(self.folder)
        for folder in (self.sessions, self.objects.folder):
            _require_no_link(folder)
            secure_folder(folder)
        # Writes follow links: `objects/ab -> /etc/cron.d` in a foreign archive would place files
        # there.
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
        """Remove temporary files left over from a crash."""
        for pattern in ("sessions", "objects/??"):
            for path in self.folder.glob(f"{pattern}/.*{TEMPORARY_SUFFIX}"):
                path.unlink(missing_ok=True)

    def names(self) -> list[str]:
        """Return the ids of all sessions."""
        found = (path.name.removesuffix(".json") for path in self.sessions.glob("[!.]*.json"))
        return sorted(name for name in found if session_problem(name) is None)

    def load(self, session: str) -> ArchiveManifest:
        """Read the manifest of a session; raise `Damaged` if it is not as turnlog wrote it."""
        path = self.sessions / f"{session}.json"
        try:
            raw = read_below(self.folder, ("sessions",), path.name, LARGEST_MANIFEST)
            envelope = _decode_envelope(raw)
            if envelope.turnlog > FORMAT:
                hint = "pip install -U turnlog"
                raise Unavailable(f"{path} was written by a newer turnlog", hint)
            if envelope.sha256 == hash_of(bytes(envelope.session)):
                return _require_consistent(_decode_manifest(envelope.session), session, path)
        except FileNotFoundError as error:
            raise NotFound(f"no session {session} in {self.folder}") from error
        except (msgspec.MsgspecError, ValueError, RecursionError):  # not JSON, or nested too deeply
            pass
        raise Damaged(f"{path} is damaged")

    def save(self, manifest: ArchiveManifest) -> None:
        raw = encode_sound(manifest)
        envelope = _encode(_Envelope(FORMAT, hash_of(raw), msgspec.Raw(raw)))
        path = self.sessions / f"{manifest.session}.json"
        write_atomic(path, envelope + b"\n", is_clearing=False)

    def remove(self, session: str, consent: Consent = require_yes) -> int:
        """Delete a session permanently, with the objects only it uses; return the bytes freed.

        Raise `Damaged` if another manifest is unreadable, because its objects are then unknown.
        """
        manifest = self.load(session)
        where = "" if manifest.is_in_store else "; it is nowhere else"
        about = f"{session}  {manifest.title or '(empty)'}  {manifest.size:,} bytes{where}"
        what = f"archived session {session}"
        consent(Deletion(what, [about], f"turnlog forget --archived {quote(session)} --yes"))
        with self.locked():
            others = self.require_others(session)
            needed = {piece.hash for other in others for f in other.files for piece in f.pieces}
            sizes = self.objects.sizes()
            # The manifest goes first: a crash in between leaves unused objects, but never a
            # manifest whose objects are missing.
            (self.sessions / f"{session}.json").unlink()
            sync_folder(self.sessions)
            self.objects.remove(sizes.keys() - needed)
        return sum(sizes[name] for name in sizes.keys() - needed)

    def require_others(self, session: str) -> list[ArchiveManifest]:
        """Return the manifests of all other sessions; raise `Damaged` if one is unreadable."""
        return [self.load(name) for name in self.names() if name != session]

    def manifests(self) -> Iterator[ArchiveManifest]:
        """Yield the manifests of all sessions, skipping damaged ones."""
        for name in self.names():
            try:
                yield self.load(name)
            except Damaged:
                continue

    def find(self, path: str) -> ArchivedFile | None:
        """Return the archived copy of the file that had a path on disk, or None."""
        names = (PurePosixPath(path).stem, *PurePosixPath(path).parts)
        owners = [name for name in names if (self.sessions / f"{name}.json").is_file()]
        try:
            # Every path contains its session's id, except those of sub-agents of 2.0.x.
            manifests = [self.load(owners[0])] if owners else self.manifests()
            files = (file for manifest in manifests for file in manifest.files)
            return next((file for file in files if path.endswith(f"/{file.path}")), None)
        except Damaged:
            return None

    def read_at(self, file: ArchivedFile, offset: int, size: int) -> bytes:
        """Return bytes of a file, decompressing only the pieces that contain them."""
        parts: list[bytes] = []
        for start, piece in _with_offsets(file):
            if start < offset + size and offset < start + piece.size:
                raw = read_again(self.objects.folder, piece)
                parts.append(raw[max(0, offset - start) : offset + size - start])
        return b"".join(parts)

    def chunks(self, file: ArchivedFile, start: int = 0) -> Iterator[bytes]:
        """Yield the content of a file from an offset on, one piece at a time."""
        for begin, piece in _with_offsets(file):
            if begin + piece.size > start:
                yield self.objects.read(piece)[max(0, start - begin) :]

    def lines(self, file: ArchivedFile, start: int = 0, limit: int | None = None) -> Iterator[Line]:
        """Yield the lines of a file from an offset on, like `read_lines`.

        Raise `Damaged` for a line or file too large to come from a session (`size_problem`).
        """
        if problem := self.size_problem([file], limit):
            raise Damaged(problem)
        offset, number = start, 0
        torn: list[bytes] = []  # parts of a line that continues in the next piece
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

    def lines_backwards(self, file: ArchivedFile) -> Iterator[Line]:
        """Yield the lines of a file from the last to the first, like `read_lines_backwards`."""
        end = b""  # of a line that began in an earlier piece
        for start, piece in reversed(list(_with_offsets(file))):
            first, *others = (self.objects.read(piece) + end).split(b"\n")
            offset = start + len(first) + 1
            raws = [other + b"\n" for other in others[:-1]] + others[-1:]
            offsets = list(accumulate(map(len, raws), initial=offset))
            for raw, at in zip(reversed(raws), reversed(offsets[:-1]), strict=True):
                if raw:
                    yield Line(raw, at, 0)
            end = first + b"\n" if others else first
            if len(end) > LONGEST_LINE:
                raise Damaged(f"{file.path} has a line of more than {LONGEST_LINE:,} bytes")
        if end:
            yield Line(end, 0, 0)

    def size_problem(self, files: Sequence[ArchivedFile], limit: int | None = None) -> str | None:
        """Return a message if files are too large to read, or else None.

        Without a `limit`, files may be `RATIO` times as large as their objects.
        """
        # A manifest can name the same piece a million times: a few kilobytes would fill the disk.
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
    """An archived file and the archive to read it from."""

    archive: Archive
    file: ArchivedFile
    names: SessionNames
    """The names of its session."""

    def lines(self, start: int) -> Iterator[Line]:
        return self.archive.lines(self.file, start)

    def bookmark(self, offset: int) -> Bookmark:
        """Return the bookmark of a reader that has reached an offset."""
        start = max(0, offset - PROBE)
        return Bookmark(offset, self.archive.read_at(self.file, start, offset - start))


def open_archive(
    folder: Path | None = None, environment: Mapping[str, str] = os.environ
) -> Archive:
    """Return the archive in a folder, by default the user's."""
    return Archive(folder.absolute() if folder else archive_folder(environment))


def uuids_in(lines: Iterable[Line]) -> Iterator[str]:
    """Yield the UUIDs of entries, skipping lines that have none or are malformed."""
    for line in lines:
        with suppress(msgspec.MsgspecError, ValueError, RecursionError):
            if isinstance(uuid := _identify(line.raw).uuid, str):
                yield uuid


def _require_consistent(manifest: ArchiveManifest, session: str, path: Path) -> ArchiveManifest:
    """Return a manifest; raise `Damaged` if it contradicts itself."""
    if manifest.session != session:
        raise Damaged(f"{path} belongs to another session: {manifest.session!r}")
    for file in manifest.files:
        if file.size != sum(piece.size for piece in file.pieces):
            raise Damaged(f"{path}: {file.path!r} and its pieces differ in size")
    return manifest


def _require_no_link(folder: Path) -> None:
    if folder.is_symlink():
        raise Unavailable(f"{folder} is a symbolic link", f"ls -l {folder.parent}")


def _with_offsets(file: ArchivedFile) -> Iterator[tuple[int, Chunk]]:
    """Yield the pieces of a file with their offsets."""
    starts = accumulate((piece.size for piece in file.pieces), initial=0)
    return zip(starts, file.pieces, strict=False)
