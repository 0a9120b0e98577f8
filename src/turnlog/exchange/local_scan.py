"""Read the files of the local store as versions, skipping those unchanged since the last sync."""

import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import msgspec

from turnlog.exchange.editions import MAIN, OwnFile, own_version
from turnlog.exchange.machine_manifest import MOST_REPLACED, FileVersion, Piece, SessionVersion
from turnlog.exchange.machine_state import SeenFile, State
from turnlog.exchange.options import NotExchanged, Progress
from turnlog.exchange.packs import LARGEST_PIECE, PackWriter
from turnlog.exchange.shared_paths import (
    Places,
    directories_in,
    is_set_aside,
    role_of,
    role_problem,
)
from turnlog.format.jsonl import CHUNK, FileState
from turnlog.format.regular_files import open_regular
from turnlog.store.archive.allowed_paths import is_run_by_client
from turnlog.store.archive.session_groups import Found, files_by_session, shared_files
from turnlog.store.paths import Store, folder_name

PIECE = 1 << 20
"""Approximate size of a piece of a log, in bytes; a piece ends at the end of a line."""
SMALL = PIECE // 16
FEW = 16
"""If a log ends with more small pieces than this, they are merged into one."""


@dataclass
class LocalFile:
    """A file of the store."""

    path: str
    """Relative to the store."""
    version: FileVersion
    state: FileState
    lost: list[Piece] = field(default_factory=list[Piece])
    """The pieces of the last version, if the file no longer starts with them; otherwise empty."""


@dataclass
class LocalSession:
    """A session of the store."""

    files: dict[str, LocalFile] = field(default_factory=dict[str, LocalFile])
    """By role."""
    directories: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """The directories that entries mention, by the folder of the file, for files that were read."""
    is_partial: bool = False
    """True if it has files that are not exchanged, and are reported."""

    @property
    def is_rewritten(self) -> bool:
        return any(file.lost for file in self.files.values())


class Scan:
    """Reads the files of a store that changed since the last sync."""

    def __init__(
        self,
        store: Store,
        state: State,
        places: Places,
        writer: PackWriter,
        versions: Iterable[SessionVersion] = (),
    ) -> None:
        """`versions` are those of all machines, which tell the projects of folders."""
        self.store = Store(store.root.resolve())
        self.seen: dict[str, SeenFile] = {}
        self.problems: list[NotExchanged] = []
        self._state, self._places, self._writer = state, places, writer
        self._versions = versions
        self._directories: set[str] = set()
        """The values of `cwd` in the file that was read last."""
        self._read_in: dict[str, set[str]] = {}
        """The same for all files that were read, by folder."""
        self._known: dict[str, dict[str, FileVersion]] = {
            version.local: {file.role: file for file in version.files}
            for version in state.sessions
            if version.local is not None
        }
        self._owners = {
            path_of_role: version.local
            for version in state.sessions
            if version.local
            for path_of_role in _loose_paths(version, places)
        }

    def read(self, progress: Progress) -> dict[str, LocalSession]:
        """Return all sessions by local id; the empty id has the files that belong to no session."""
        found = files_by_session(self.store, self._owners)
        found[""] = shared_files(self.store)
        total = sum(file.state.size for files in found.values() for file in files.values())
        done = 0
        sessions: dict[str, LocalSession] = {}
        for name, files in sorted(found.items()):
            sessions[name] = LocalSession()
            for path, file in sorted(files.items()):
                self._take(sessions[name], name, path, file)
                done += file.state.size
            if len(sessions) % 100 == 0 or len(sessions) == len(found):
                progress("reading", done, total)
        for name, session in sessions.items():
            if session.directories:
                self._name_projects(session, name)
        return {name: session for name, session in sessions.items() if session.files}

    def _take(self, session: LocalSession, name: str, path: str, found: Found) -> None:
        if self._is_unchanged(session, name, path, found):
            return
        if is_run_by_client(path) or is_set_aside(path):
            return
        role, folder = role_of(path.replace(os.sep, "/"), name)
        problem = _name_problem(path) or role_problem(role, folder, name)
        if (self.store.root / path).is_symlink():
            problem = "is a symbolic link"
        if role in session.files:
            problem = "is in two projects; only the first one is exchanged"
        if problem:
            self._refuse(session, path, problem)
            return
        known = self._known.get(name, {}).get(role)
        try:
            session.files[role] = self._file(path, role, known)
        except FileNotFoundError:
            return
        except OSError as error:
            self._refuse(session, path, error.strerror or str(error))
            return
        except ValueError as error:
            self._refuse(session, path, str(error))
            return
        if folder:
            session.directories.setdefault(folder, set()).update(self._directories)
            self._read_in.setdefault(folder, set()).update(self._directories)

    def _refuse(self, session: LocalSession, path: str, reason: str) -> None:
        session.is_partial = True
        self.problems.append(NotExchanged(path, reason))

    def _name_projects(self, session: LocalSession, name: str) -> None:
        """Give all files of a session in one folder the same shared name of the project."""
        found: dict[str, str] = {}
        for file in session.files.values():
            _, folder = role_of(file.path.replace(os.sep, "/"), name)
            if not folder:
                continue
            if folder not in found:
                directories = self._directories_of(session, name, folder)
                found[folder] = self._places.shared_project(folder, directories)
            if file.version.project != found[folder]:
                file.version = own_version(file.version)
                file.version.project = found[folder]

    def _directories_of(self, session: LocalSession, name: str, folder: str) -> Iterator[str]:
        """Yield directories that the session may belong to, the most certain first.

        The entries of a session from another machine mention directories of that machine only, and
        those of a session that has just begun may mention none.
        """
        yield from sorted(session.directories.get(folder, ()))
        known = self._known.get(name, {}).values()
        for file in sorted(known, key=lambda file: file.role != MAIN):
            yield self._places.local_directory(file.project)
        yield from sorted(self._read_in.get(folder, ()))
        yield from self._named_in.get(folder, ())

    @cached_property
    def _named_in(self) -> dict[str, list[str]]:
        """Directories by folder that sessions had before, here or on other machines."""
        names = {file.project for version in self._versions for file in version.files}
        found: dict[str, list[str]] = {}
        for directory in sorted(map(self._places.local_directory, filter(None, names))):
            found.setdefault(folder_name(directory), []).append(directory)
        return found

    def _file(self, path: str, role: str, known: FileVersion | None) -> LocalFile:
        # Taken before reading, so that a change during the read does not look settled.
        now = time.time_ns()
        with open_regular(self.store.root / path) as file:
            status = os.fstat(file.fileno())
            state = FileState(status.st_ino, status.st_size, status.st_mtime_ns)
            local = LocalFile(path, FileVersion(role, "", []), state)
            self._directories = set()
            if local.version.is_log:
                self._read_log(file, local, known)
            else:
                self._read_document(file, local.version)
        if known:
            _take_over(local.version, known)
        self.seen[path] = SeenFile(*state, now)
        return local

    def _is_unchanged(self, session: LocalSession, name: str, path: str, found: Found) -> bool:
        """Reuse the last version of a file; return False if the file has to be read."""
        seen = self._state.seen.get(path)
        if seen is None or not seen.is_at(found.state):
            return False
        role, _ = role_of(path, name)
        known = self._known.get(name, {}).get(role)
        if known is None or role in session.files or not self._is_there(known.pieces):
            return False
        self.seen[path] = seen
        session.files[role] = LocalFile(path, known, found.state)
        return True

    def _is_there(self, pieces: list[Piece]) -> bool:
        return all(piece.hash in self._writer.known for piece in pieces)

    def _read_log(self, file: BinaryIO, local: LocalFile, known: FileVersion | None) -> None:
        """Cut a log into pieces, reusing the unchanged ones at the start of the last version."""
        kept, ranks = local.version.pieces, local.version.ranks
        for piece, rank in known.ranked() if known else ():
            raw = file.read(piece.size)
            if len(raw) == piece.size - 1:
                raw += b"\n"  # the last line may lack its newline, see `cut_lines`
            if hashlib.sha256(raw).digest() != piece.hash:
                local.lost = known.pieces if known else []
                break
            self._add(piece, raw, kept)
            ranks.append(rank)
        position = sum(piece.size for piece in kept)
        small = _small_end(kept)
        # Every sync of a running session adds a small piece. Merging them only when there is
        # something new keeps an unchanged file unchanged at DEST.
        if small > FEW and file.seek(0, os.SEEK_END) > position:
            position -= sum(piece.size for piece in kept[-small:])
            del kept[-small:], ranks[-small:]
        file.seek(position)
        rank = known.next_rank if known else 0
        for raw in cut_lines(file):
            self._add(Piece(hashlib.sha256(raw).digest(), len(raw)), raw, kept)
            ranks.append(rank)

    def _read_document(self, file: BinaryIO, version: FileVersion) -> None:
        while raw := file.read(8 * PIECE):
            piece = Piece(hashlib.sha256(raw).digest(), len(raw))
            self._add(piece, raw, version.pieces)

    def _add(self, piece: Piece, raw: bytes, pieces: list[Piece]) -> None:
        self._directories.update(directories_in(raw[:CHUNK]))
        self._writer.add(piece.hash, raw)
        pieces.append(piece)


def own_files(
    root: Path, session: LocalSession, before: SessionVersion | None
) -> dict[str, OwnFile]:
    """Return the files of a session, including those removed since the last sync."""
    files = {
        role: OwnFile(own_version(file.version), root / file.path, file.state, file.version.pieces)
        for role, file in session.files.items()
    }
    for version in before.files if before else ():
        file = files.setdefault(version.role, OwnFile(own_version(version)))
        file.published = version
    for file in files.values():
        file.original = own_version(file.version)
    return files


def cut_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the whole lines of a file as pieces of about 1 MiB; a torn last line is left out.

    If the last line is complete except for its newline, as some programs write it, add one.
    """
    rest = b""
    while chunk := file.read(PIECE):
        rest += chunk
        end = rest.rfind(b"\n") + 1
        if len(rest) >= PIECE and end:
            yield rest[:end]
            rest = rest[end:]
        # A piece has at least one line, and other machines refuse pieces above this limit.
        if len(rest) > LARGEST_PIECE:
            raise ValueError(f"has a line of more than {LARGEST_PIECE:,} bytes")
    end = rest.rfind(b"\n") + 1
    if is_entry(rest[end:]):
        yield rest + b"\n"
    elif end:
        yield rest[:end]


def is_entry(raw: bytes) -> bool:
    """Return whether bytes are a complete JSON object."""
    try:
        return raw.startswith(b"{") and isinstance(msgspec.json.decode(raw), dict)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False


def _take_over(new: FileVersion, known: FileVersion) -> None:
    """Copy the history of the last version (`former`, `replaces`) to the new one."""
    new.former = list(known.former)
    if not new.is_log:
        new.replaces = known.replaces
        if known.digest != new.digest:
            new.replaces = [*known.replaces, known.digest][-MOST_REPLACED:]


def _small_end(pieces: list[Piece]) -> int:
    """Return the number of small pieces at the end of a log."""
    count = 0
    while count < len(pieces) and pieces[-count - 1].size < SMALL:
        count += 1
    return count


def _loose_paths(version: SessionVersion, places: Places) -> Iterator[str]:
    for file in version.files:
        if file.project and "{id}" not in file.role:
            folder = places.local_folder(file.project)
            yield f"projects/{folder}/{file.role.removeprefix('projects/')}"


def _name_problem(path: str) -> str | None:
    try:
        path.encode()
    except UnicodeEncodeError:
        return "has a name that is not UTF-8"
    return None
