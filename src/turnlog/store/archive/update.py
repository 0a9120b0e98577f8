"""Update the archive: copy new and changed files, detected by inode, size and mtime.

If a file has grown, its archived part is compared by hash, and the new bytes become a new piece.
"""

import os
import time
import zlib
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO, NamedTuple

from turnlog.format.jsonl import FileState, read_lines
from turnlog.format.portable import sync_folder
from turnlog.format.regular_files import open_regular
from turnlog.store.archive.allowed_paths import HISTORY, archived_problem, is_session_id
from turnlog.store.archive.archive import (
    Archive,
    ArchivedFile,
    ArchiveManifest,
    uuids_in,
)
from turnlog.store.archive.object_writer import ObjectWriter, cut
from turnlog.store.archive.objects import PIECE, Chunk, hash_of
from turnlog.store.archive.session_groups import (
    Files,
    Found,
    files_by_session,
    shared_files,
    slugs_in,
)
from turnlog.store.batches import gathered
from turnlog.store.catalog import describe, locate_session
from turnlog.store.paths import Store
from turnlog.store.prompt_history import HistoryPrompt, read_history
from turnlog.store.stores import AnyStores, each_store

SMALL = PIECE // 4
FEW = 16
"""If a file ends with more small pieces than this, they are merged into one."""
UNSETTLED = 2_000_000_000
"""Nanoseconds after a change during which a second change may leave mtime and size the same."""
AT_ONCE = 64 << 20
"""Bytes of sessions to copy before their manifests are written, as one batch."""

Progress = Callable[[int, int], None]
"""Called with the bytes done and the total."""


class ArchiveJob(NamedTuple):
    """A session that has changed."""

    session: str
    old: ArchiveManifest | None
    found: Files
    changed: dict[str, ArchivedFile | None]
    """The files to read, with their archived versions."""

    @property
    def size(self) -> int:
        return sum(self.found[path].state.size for path in self.changed)

    @property
    def growth(self) -> list[int]:
        """The number of new bytes in each changed file, assuming that it was only appended to."""
        return [
            max(0, self.found[path].state.size - (old.size if old else 0))
            for path, old in self.changed.items()
            if old is None or old.state != self.found[path].state
        ]


@dataclass(frozen=True)
class Unread:
    """A file that could not be archived."""

    path: str
    reason: str


@dataclass
class Archived:
    """The result of a run, and totals of the archive."""

    sessions: int = 0
    """Sessions with new content."""
    bytes: int = 0
    """Bytes copied."""
    objects: int = 0
    written: int = 0
    """Size on disk of the new objects."""
    all_sessions: int = 0
    all_bytes: int = 0
    all_written: int = 0
    copies: int = 0
    """Older copies of sessions that several stores have; only the newest copy is archived."""
    unread: list[Unread] = field(default_factory=list[Unread])


def archive_sessions(
    stores: AnyStores, archive: Archive, progress: Progress = lambda done, total: None
) -> Archived:
    """Copy everything new in the stores to the archive."""
    copies = _older_copies(stores)
    done = Archived(copies=sum(map(len, copies.values())))
    with archive.locked():
        for store, left_out in copies.items():
            with ObjectWriter(archive.objects) as writer:
                _add(done, _Run(store, archive, writer, left_out).carry_out(progress))
    return done


def preview(stores: AnyStores, archive: Archive) -> Archived:
    """Return what `archive_sessions` would copy."""
    done = Archived()
    for store, left_out in _older_copies(stores).items():
        with ObjectWriter(archive.objects) as writer:
            jobs = _Run(store, archive, writer, left_out).jobs
        growths = [job.growth for job in jobs if job.growth]
        done.sessions += len(growths)
        done.bytes += sum(map(sum, growths))
        done.copies += len(left_out)
    return done


def _older_copies(stores: AnyStores) -> dict[Store, frozenset[str]]:
    """Return the ids of sessions that another store has in a newer version, by store."""
    # The archive has one manifest per id: archiving both copies would make two stores replace each
    # other's version at every run.
    known = each_store(stores)
    newest: dict[str, tuple[int, int]] = {}
    found: dict[Store, set[str]] = {store: set() for store in known}
    for rank, store in enumerate(known if len(known) > 1 else ()):
        for path in store.session_files():
            with suppress(FileNotFoundError):
                found[store].add(path.stem)
                version = path.stat().st_mtime_ns, -rank
                newest[path.stem] = max(newest.get(path.stem, version), version)
    return {
        store: frozenset(id_ for id_ in found[store] if newest[id_][1] != -rank)
        for rank, store in enumerate(known)
    }


def _add(total: Archived, done: Archived) -> None:
    """Add the result for one store to the total."""
    for name in ("sessions", "bytes", "objects", "written"):
        setattr(total, name, getattr(total, name) + getattr(done, name))
    for name in ("all_sessions", "all_bytes", "all_written"):  # of the whole archive
        setattr(total, name, getattr(done, name))
    total.unread += done.unread


class _Copied(NamedTuple):
    """A file that has been read; its new pieces may still be waiting to be written."""

    found: Found
    read_ns: int
    kept: list[Chunk]
    new: list[Future[Chunk]]

    def as_archived(self, path: str) -> ArchivedFile:
        pieces = self.kept + [task.result() for task in self.new]
        size = sum(piece.size for piece in pieces)
        state = self.found.state
        return ArchivedFile(
            path, self.found.mode, state.mtime_ns, size, state.inode, self.read_ns, pieces
        )


class _Run:
    def __init__(
        self, store: Store, archive: Archive, writer: ObjectWriter, left_out: frozenset[str]
    ) -> None:
        self.store, self.archive, self.writer = store, archive, writer
        self.root = store.root.resolve()
        self.manifests = {manifest.session: manifest for manifest in archive.manifests()}
        owners = {file.path: m.session for m in self.manifests.values() for file in m.files}
        ownerless: list[str] = []
        found = files_by_session(Store(self.root), owners, ownerless)
        self.shared = shared_files(Store(self.root))
        self.plans = [path for path in self.shared if path.startswith("plans/")]
        self.prompts: dict[str | None, list[HistoryPrompt]] = {}
        for prompt in read_history(Store(self.root)) if HISTORY in self.shared else ():
            self.prompts.setdefault(prompt.session, []).append(prompt)
        chosen = [name for name in found if name not in left_out]
        self.jobs = [job for name in chosen if (job := self._job(name, found[name]))]
        self.dropped: set[str] = set()
        """Hashes of pieces that a file no longer has."""
        self.done = Archived(unread=[Unread(path, "it names no session") for path in ownerless])

    def carry_out(self, progress: Progress) -> Archived:
        total = sum(job.size for job in self.jobs)
        read = 0
        for jobs in gathered(self.jobs, lambda job: job.size, AT_ONCE):
            copies: list[tuple[ArchiveJob, dict[str, _Copied]]] = []
            for job in jobs:
                copies.append((job, self._copies(job)))
                read += job.size
                progress(read, total)
            self._finish(copies)
        self._collect()
        return self._totals()

    def _job(self, session: str, found: Files) -> ArchiveJob | None:
        manifest = self.manifests.get(session)
        known = {file.path: file for file in manifest.files} if manifest else {}
        if is_session_id(session):
            found |= self._shared_of(session, found, known)
        changed = {
            path: known.get(path)
            for path, file in found.items()
            if not self._is_archived(file, known.get(path))
        }
        has_moved = any((path not in found) != file.gone for path, file in known.items())
        is_elsewhere = manifest is not None and manifest.store != str(self.root)
        if manifest and is_elsewhere:
            is_ahead = self._is_behind if manifest.is_mirrored else _is_older
            if is_ahead(found, manifest):
                return None
        is_new = changed or has_moved or is_elsewhere
        return ArchiveJob(session, manifest, found, changed) if is_new else None

    def _shared_of(self, session: str, found: Files, known: dict[str, ArchivedFile]) -> Files:
        """Return the plans and pasted texts of a session, and its lines of the prompt history."""
        prompts = self.prompts.get(session, [])
        paths = {path for path in known if path != HISTORY}
        paths |= {f"paste-cache/{paste}.txt" for prompt in prompts for paste in prompt.pastes}
        if self.plans:
            changed = [
                path
                for path, file in found.items()
                if path.endswith(f"/{session}.jsonl")
                and not self._is_archived(file, known.get(path))
            ]
            slugs = {slug for path in changed for slug in slugs_in(self.root / path)}
            starts = tuple(f"plans/{slug}{end}" for slug in slugs for end in (".", "-agent-"))
            paths |= {path for path in self.plans if path.startswith(starts)}
        files = {path: self.shared[path] for path in paths & self.shared.keys()}
        if prompts:
            # The file changes with every prompt of every session: a checksum of the session's own
            # lines takes the place of its inode.
            raw = _lines_of(prompts)
            files[HISTORY] = Found(FileState(zlib.crc32(raw), len(raw), 0), 0o600)
        return files

    def _is_behind(self, found: Files, manifest: ArchiveManifest) -> bool:
        """Return whether a mirrored session has entries that the store does not have.

        This happens if it was continued on another machine. Entries are compared, because times and
        sizes differ anyway: a mirror lacks lines such as `api-request` (observed: 2.1.325).
        """
        archived = [file for file in manifest.current if manifest.is_transcript(file)]
        mirrored = {uuid for file in archived for uuid in uuids_in(self.archive.lines(file))}
        paths = _transcripts(found, manifest)
        stored = {uuid for path in paths for uuid in uuids_in(read_lines(self.root / path))}
        return not mirrored <= stored

    def _is_archived(self, found: Found, old: ArchivedFile | None) -> bool:
        return (
            old is not None
            and (old.state, old.mode, old.gone) == (found.state, found.mode, False)
            # A file changed twice within the clock's resolution has the same time and maybe the
            # same size. Trust a state only if it was read well after the last change.
            and old.read_ns > old.mtime_ns + UNSETTLED
            and all(piece.hash in self.writer.known for piece in old.pieces)
        )

    def _copies(self, job: ArchiveJob) -> dict[str, _Copied]:
        copies: dict[str, _Copied] = {}
        for path, old in job.changed.items():
            try:
                path.encode()
                if problem := archived_problem(job.session, path):
                    self.done.unread.append(Unread(path, f"it {problem}"))
                    continue
                if path == HISTORY:
                    copies[path] = self._copy_prompts(job.session, job.found[path])
                else:
                    copies[path] = self._copy(self.root / path, job.found[path], old)
            except FileNotFoundError:
                continue
            except UnicodeEncodeError:
                self.done.unread.append(Unread(repr(path), "its name is not UTF-8"))
            except OSError as error:
                self.done.unread.append(Unread(path, error.strerror or str(error)))
        return copies

    def _copy(self, path: Path, found: Found, old: ArchivedFile | None) -> _Copied:
        now = time.time_ns()
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            state = FileState(status.st_ino, status.st_size, status.st_mtime_ns)
            kept = self._unchanged_pieces(file, old, state.size) if old else []
            start = file.seek(sum(piece.size for piece in kept))
            new = [self.writer.put(raw) for raw in cut(file, state.size - start)]
        return _Copied(found._replace(state=state), now, kept, new)

    def _copy_prompts(self, session: str, found: Found) -> _Copied:
        raw = _lines_of(self.prompts[session])
        new = [self.writer.put(piece) for piece in cut(BytesIO(raw), len(raw))]
        return _Copied(found, time.time_ns(), [], new)

    def _unchanged_pieces(self, file: BinaryIO, old: ArchivedFile, size: int) -> list[Chunk]:
        """Return the leading pieces of a file that are unchanged."""
        known = takewhile(lambda piece: piece.hash in self.writer.known, old.pieces)
        kept = list(takewhile(lambda piece: hash_of(file.read(piece.size)) == piece.hash, known))
        # Each run adds a piece with the bytes appended since. To keep a daily archived session from
        # ending in hundreds of tiny objects, rewrite the small ones at the end as one.
        small = len(list(takewhile(lambda piece: piece.size < SMALL, reversed(kept))))
        has_more = sum(piece.size for piece in kept) < size
        return kept[:-small] if has_more and small > FEW else kept

    def _finish(self, copies: list[tuple[ArchiveJob, dict[str, _Copied]]]) -> None:
        """Write the manifests of sessions once all their pieces are on disk."""
        # A session none of whose files could be read is not archived, and must not be listed.
        manifests = [self._manifest(job, copied) for job, copied in copies if copied or job.old]
        used = {p.hash for m in manifests for file in m.files for p in file.pieces}
        self.writer.sync(used)
        list(self.writer.pool.map(self.archive.save, manifests))
        if manifests:
            sync_folder(self.archive.sessions)
        self.manifests |= {manifest.session: manifest for manifest in manifests}

    def _manifest(self, job: ArchiveJob, copies: dict[str, _Copied]) -> ArchiveManifest:
        files = {file.path: file for file in job.old.files} if job.old else {}
        before = {piece for file in files.values() for piece in file.pieces}
        for path, file in files.items():
            file.gone = path not in job.found
        files |= {path: copied.as_archived(path) for path, copied in copies.items()}
        after = {piece for file in files.values() for piece in file.pieces}
        self.dropped |= {piece.hash for piece in before - after}
        self.done.bytes += sum(piece.size for piece in after - before)
        self.done.sessions += after != before or job.old is None
        manifest = ArchiveManifest(
            job.session, str(self.root), sorted(files.values(), key=_by_path)
        )
        _describe(manifest, job.old)
        return manifest

    def _collect(self) -> None:
        """Remove the replaced pieces that no other file uses."""
        used = {p.hash for m in self.manifests.values() for f in m.files for p in f.pieces}
        self.dropped -= used
        self.archive.objects.remove(self.dropped)

    def _totals(self) -> Archived:
        done, writer, manifests = self.done, self.writer, self.manifests.values()
        done.objects, done.written = len(writer.new), sum(writer.new.values())
        done.all_sessions = len(manifests)
        done.all_bytes = sum(manifest.size for manifest in manifests)
        there = (writer.known | writer.new).items()
        done.all_written = sum(size for name, size in there if name not in self.dropped)
        return done


def _lines_of(prompts: list[HistoryPrompt]) -> bytes:
    """Return the lines of prompts, without one that is just being written."""
    return b"".join(prompt.raw for prompt in prompts if prompt.raw.endswith(b"\n"))


def _is_older(found: Files, manifest: ArchiveManifest) -> bool:
    """Return whether the archive has a newer version than a store.

    Example: the client deleted a session from the store it was archived from, and another store
    has a copy of its first half.
    """
    archived = [each.mtime_ns for each in manifest.files if manifest.is_transcript(each)]
    stored = [found[path].state.mtime_ns for path in _transcripts(found, manifest)]
    return bool(archived and stored) and max(archived) > max(stored)


def _transcripts(found: Files, manifest: ArchiveManifest) -> list[str]:
    return [path for path in found if path.endswith(f"/{manifest.session}.jsonl")]


def _describe(manifest: ArchiveManifest, old: ArchiveManifest | None) -> None:
    """Set title, directory and time from the transcript that was modified last."""
    transcripts = [file for file in manifest.current if manifest.is_transcript(file)]
    try:
        newest = max(transcripts, key=lambda file: file.mtime_ns)
        session = locate_session(Path(manifest.store, newest.path))
        about = describe(session)
    except (OSError, ValueError):
        manifest.title, manifest.tag = (old.title, old.tag) if old else (None, None)
        return
    manifest.title, manifest.tag, manifest.cwd = about.title, about.tag, about.cwd
    manifest.last_active = session.last_active


def _by_path(file: ArchivedFile) -> str:
    return file.path
