"""Append to archived sessions line by line, for programs that mirror a session while it runs.

A batch becomes one or more pieces, and the manifest is replaced after they are on disk, so a crash
loses at most the current batch. Files have the paths that the client would have written them to.
"""

import io
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple

from turnlog.errors import Damaged, NotFound, UsageError
from turnlog.format.atomic import write_atomic
from turnlog.format.jsonl import Line
from turnlog.format.portable import sync_folder
from turnlog.store.archive.allowed_paths import collision, path_problem, session_problem
from turnlog.store.archive.archive import (
    LONGEST_LINE,
    MIRRORED,
    Archive,
    ArchivedFile,
    ArchiveManifest,
    uuids_in,
)
from turnlog.store.archive.object_writer import LEVEL, cut
from turnlog.store.archive.objects import Chunk, hash_of
from turnlog.store.archive.update import FEW, SMALL
from turnlog.store.catalog import describe_lines, last_moment

LARGEST = 1 << 30
"""Maximum bytes of a mirrored file, regardless of its compression ratio."""
PRIVATE = 0o600
MOST_REMEMBERED = 64
"""Maximum number of files whose UUIDs are cached between appends."""

Summarize = Callable[[dict[str, Any] | None, Iterable[bytes]], dict[str, Any]]
"""Computes the new summary of a session from its last one and the lines since."""


class MirrorLine(NamedTuple):
    """A line to append, with its UUID; None for kinds of entries without one."""

    raw: bytes
    uuid: str | None


@dataclass
class _Seen:
    """The UUIDs in the leading pieces of a file."""

    pieces: list[Chunk] = field(default_factory=list[Chunk])
    uuids: set[str] = field(default_factory=set[str])


class SessionMirror:
    """Files of archived sessions that grow by batches of lines."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self._seen: dict[str, _Seen] = {}

    def append(
        self,
        session: str,
        path: str,
        batch: Sequence[MirrorLine],
        summarize: Summarize | None = None,
    ) -> None:
        """Append lines to a file, except those whose UUID it already has."""
        require_path(session, path)
        if any(len(line.raw) > LONGEST_LINE for line in batch):
            raise UsageError(f"{path}: a line has more than {LONGEST_LINE:,} bytes")
        with self.archive.locked():
            manifest = self._manifest(session)
            file = _file_at(manifest, path)
            seen = self._read_uuids(file) if file else _Seen()
            fresh = list(_unseen(batch, seen.uuids))
            if not fresh:
                return
            grown = self._grown(path, file, b"".join(line.raw for line in fresh))
            if summarize:
                project = path.split("/")[1]
                last = manifest.summaries.get(project)
                # `turnlog archive` drops summaries of sessions that it reads from disk.
                lines = fresh if last or not file else self.lines(grown)
                manifest.summaries[project] = summarize(last, (line.raw for line in lines))
            self._save(manifest, grown)
            seen.uuids.update(line.uuid for line in fresh if line.uuid)
            self._remember(path, _Seen(grown.pieces, seen.uuids))

    def replace(self, session: str, path: str, content: bytes, *, shorter: bool = True) -> bool:
        """Write a file of a session, or replace it; return whether it has changed.

        Unless `shorter` is set, a file that has more bytes than `content` is not replaced.
        """
        require_path(session, path)
        with self.archive.locked():
            manifest = self._manifest(session)
            file = _file_at(manifest, path)
            if file and not shorter and file.size > len(content):
                return False
            if file and file.size == len(content) and self.content(file) == content:
                return False
            self._save(manifest, self._archived(path, file, [], content))
            return True

    def files(self, session: str) -> list[ArchivedFile]:
        """Return the files of a session; none if it is not archived."""
        if session_problem(session):
            return []
        try:
            manifest = self.archive.load(session)
        except NotFound:
            return []
        return [file for file in manifest.current if manifest.problem(file) is None]

    def lines(self, file: ArchivedFile) -> Iterator[Line]:
        """Yield the lines of a file."""
        return self.archive.lines(file, limit=LARGEST)

    def content(self, file: ArchivedFile) -> bytes:
        """Return the content of a small file."""
        return b"".join(self.archive.chunks(file))

    def remove(self, session: str, chosen: Callable[[ArchivedFile], bool]) -> None:
        """Delete chosen files of a session, or the whole session if no transcript is left.

        Raise `Damaged` if another manifest is unreadable, because its objects are then unknown.
        """
        if session_problem(session) or not self.archive.sessions.is_dir():
            return
        with self.archive.locked():
            try:
                manifest = self.archive.load(session)
            except NotFound:
                return
            before = _hashes(manifest.files)
            left = [file for file in manifest.files if not chosen(file)]
            if len(left) == len(manifest.files):
                return
            self.archive.require_others(session)
            manifest.files = left if any(map(manifest.is_transcript, left)) else []
            if manifest.files:
                projects = {f.path.split("/")[1] for f in left if manifest.is_transcript(f)}
                manifest.summaries = {
                    name: each for name, each in manifest.summaries.items() if name in projects
                }
                self.archive.save(manifest)
            else:
                (self.archive.sessions / f"{session}.json").unlink()
            sync_folder(self.archive.sessions)
            self._discard(session, before - _hashes(manifest.files))

    def _manifest(self, session: str) -> ArchiveManifest:
        try:
            return self.archive.load(session)
        except NotFound:
            return ArchiveManifest(session, MIRRORED, [])

    def _grown(self, path: str, file: ArchivedFile | None, added: bytes) -> ArchivedFile:
        kept = list(file.pieces) if file else []
        # A killed client leaves half a line behind; start the next line on a new one.
        if kept and not self.archive.objects.read(kept[-1]).endswith(b"\n"):
            added = b"\n" + added
        small = len(list(takewhile(lambda piece: piece.size < SMALL, reversed(kept))))
        if small > FEW:
            added = b"".join(map(self.archive.objects.read, kept[-small:])) + added
            del kept[-small:]
        return self._archived(path, file, kept, added)

    def _archived(
        self, path: str, file: ArchivedFile | None, kept: list[Chunk], added: bytes
    ) -> ArchivedFile:
        pieces = kept + [self._put(raw) for raw in cut(io.BytesIO(added), len(added))]
        # Readers recognize a change by time and size, so two batches must have different times.
        now = max(time.time_ns(), file.mtime_ns + 1_000_000 if file else 0)
        size = sum(piece.size for piece in pieces)
        return ArchivedFile(path, PRIVATE, now, size, 0, now, pieces)

    def _put(self, raw: bytes) -> Chunk:
        from backports import zstd

        name = hash_of(raw)
        path = self.archive.objects.path(name)
        if not path.is_file():
            write_atomic(path, zstd.compress(raw, LEVEL), is_clearing=False)
            sync_folder(path.parent)
        return Chunk(name, len(raw))

    def _save(self, manifest: ArchiveManifest, file: ArchivedFile) -> None:
        before = _hashes(manifest.files)
        others = [each for each in manifest.files if each.path != file.path]
        manifest.files = sorted([*others, file], key=lambda each: each.path)
        if path := collision(each.path for each in manifest.files):
            raise UsageError(f"{path!r} differs from another file only in upper and lower case")
        # The archived file is now newer than any store's copy, which must not replace it.
        manifest.store = MIRRORED
        if manifest.is_transcript(file):
            self._describe(manifest, file)
        self.archive.save(manifest)
        sync_folder(self.archive.sessions)
        self._discard(manifest.session, before - _hashes(manifest.files))

    def _describe(self, manifest: ArchiveManifest, file: ArchivedFile) -> None:
        backwards = self.archive.lines_backwards
        about = describe_lines(self.lines(file), backwards(file), file.size)
        manifest.title, manifest.tag, manifest.cwd = about.title, about.tag, about.cwd
        manifest.last_active = last_moment(backwards(file), file.size)

    def _discard(self, session: str, names: set[str]) -> None:
        """Remove objects that no other session needs."""
        if not names:
            return
        try:
            others = self.archive.require_others(session)
        except Damaged:
            return  # its objects are unknown; unused ones do no harm
        needed = _hashes(file for other in others for file in other.files)
        self.archive.objects.remove(names - needed)

    def _read_uuids(self, file: ArchivedFile) -> _Seen:
        """Return the UUIDs in a file, reading only pieces that were added since the last call."""
        known = self._seen.get(file.path, _Seen())
        if file.pieces[: len(known.pieces)] != known.pieces:
            known = _Seen()
        start = sum(piece.size for piece in known.pieces)
        known.uuids.update(uuids_in(self.archive.lines(file, start, limit=LARGEST)))
        known.pieces = list(file.pieces)
        return known

    def _remember(self, path: str, seen: _Seen) -> None:
        """Cache the UUIDs of the most recently written files; a server may mirror thousands."""
        self._seen.pop(path, None)
        self._seen[path] = seen
        if len(self._seen) > MOST_REMEMBERED:
            del self._seen[next(iter(self._seen))]


def require_path(session: str, path: str) -> None:
    """Raise `UsageError` for a path that a session cannot have, such as one outside its folder."""
    if problem := session_problem(session):
        raise UsageError(f"session {session!r} {problem}")
    if problem := path_problem(session, path):
        raise UsageError(f"{path!r} {problem}")


def _file_at(manifest: ArchiveManifest, path: str) -> ArchivedFile | None:
    return next((file for file in manifest.files if file.path == path), None)


def _unseen(batch: Iterable[MirrorLine], uuids: set[str]) -> Iterator[MirrorLine]:
    """Yield the lines that are new, without duplicates within the batch."""
    added: set[str] = set()
    for line in batch:
        if line.uuid is None or not (line.uuid in uuids or line.uuid in added):
            yield line
        if line.uuid is not None:
            added.add(line.uuid)


def _hashes(files: Iterable[ArchivedFile]) -> set[str]:
    return {piece.hash for file in files for piece in file.pieces}
