"""Export many sessions to a directory: one file each and an index; skip sessions without changes.

A manifest in the directory records each file that turnlog wrote, with the state of the session. A
file is replaced or removed only if nobody has changed it since. Memory grows with the number of
sessions, not with their contents.
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from turnlog import __version__
from turnlog.conversation.session import open_session
from turnlog.errors import Conflict, TurnlogError, UsageError
from turnlog.format.atomic import write_atomic
from turnlog.format.decode import encode_sound
from turnlog.format.regular_files import open_regular
from turnlog.render.export import FORMATS, ExportOptions, export_session
from turnlog.render.export_index import IndexedSession, require_own_index, write_index
from turnlog.render.html.encryption import PageKey, derive_key
from turnlog.render.session_facts import project_name
from turnlog.secrets import mask
from turnlog.store.catalog import SessionFile, describe
from turnlog.store.paths import adjacent_subagents, nested_subagents, title_file

MANIFEST = ".turnlog-export.jsonl"
STAGING = ".turnlog-export"
"""A directory for unfinished files."""
INDEX = r"index(-\d+)?"
"""File names reserved for the pages of the index."""
SALT = r"([0-9a-f]{32})?"
SURROGATES = r"[\ud800-\udfff]"
"""Characters by which Python represents bytes of a file name that are not UTF-8."""


class ManifestHead(Struct):
    """The first line of a manifest."""

    turnlog_export: int = 1
    salt: str = ""
    """Salt of the password, in hex; it is shared, so that one password opens all pages."""


class ExportedFile(Struct):
    """A file that turnlog wrote, or is about to write."""

    session: str
    """A hash of the folder and name of the session's file, which may contain a secret."""
    name: str
    state: str = ""
    """A hash of the session's state and of the options; empty until the file is written."""
    size: int = -1
    modified: int = -1
    """The modification time of the written file, in nanoseconds."""
    title: str | None = None
    """Empty if the pages are encrypted."""
    project: str | None = None
    last_active: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The session and the format: a directory may contain a session in several formats."""
        return self.session, self.name.rpartition(".")[2]

    def is_valid(self) -> bool:
        """Return whether turnlog could have recorded this file."""
        # The directory may come from elsewhere, as with a cloned repository. A name such as
        # `../.bashrc` would replace or remove a file outside of it.
        is_name = re.fullmatch(r"[^/\\\0]+", self.name) is not None
        try:
            moment = datetime.fromisoformat(self.last_active) if self.last_active else None
        except ValueError:
            return False
        return is_name and self.key[1] in FORMATS and (not moment or 1 < moment.year < 9999)

    def is_unchanged(self, folder: Path) -> bool:
        """Return whether the file is still as turnlog wrote it."""
        try:
            status = (folder / self.name).lstat()
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns) == (self.size, self.modified)


@dataclass
class FolderReport:
    """The result of an export to a directory."""

    written: int = 0
    unchanged: int = 0
    removed: int = 0
    kept: list[str] = field(default_factory=list[str])
    """Exports of deleted sessions that were kept because someone changed them."""
    failed: list[str] = field(default_factory=list[str])
    """Error messages of sessions that were not exported."""


@dataclass(frozen=True)
class FolderOptions:
    """Options for an export to a directory."""

    export: ExportOptions
    password: str | None = None
    is_complete: bool = False
    """True if these are all sessions, so that exports of other sessions are stale."""
    is_agreed: bool = False
    """Replace files that turnlog did not write, or that were changed."""


def export_folder(
    sessions: Iterable[SessionFile],
    folder: Path,
    options: FolderOptions,
    advance: Callable[[int], object] = lambda size: None,
) -> FolderReport:
    """Export sessions to a directory, with an index; call `advance` with the size of each."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a directory", "turnlog export --help")
    folder.mkdir(parents=True, exist_ok=True)
    require_own_index(folder, options.export.format, options.is_agreed)
    manifest = _Manifest(folder)
    if options.password is not None:
        key = manifest.key(options.password)
        options = replace(options, export=replace(options.export, key=key))
    folder_export = _FolderExport(folder, manifest, options)
    for session in sessions:
        folder_export.add(session)
        advance(session.size)
    folder_export.finish()
    return folder_export.report


class _FolderExport:
    def __init__(self, folder: Path, manifest: "_Manifest", options: FolderOptions) -> None:
        self.report = FolderReport()
        self._folder, self._manifest, self._options = folder, manifest, options
        self._fingerprint = _fingerprint(options.export)
        self._adjacent: dict[Path, list[Any]] = {}
        self._seen: dict[tuple[str, str], ExportedFile] = {}

    def add(self, session: SessionFile) -> None:
        """Export a session unless its file is up to date; report a failure and continue."""
        hashed = _session_hash(f"{session.path.parent.name}/{session.path.name}")
        key = hashed, self._extension
        known = self._manifest.files.get(key)
        try:
            state = self._state(session)
            if known and known.state == state and known.is_unchanged(self._folder):
                self._seen[key] = known
                self.report.unchanged += 1
                return
            name = known.name if known else self._manifest.free_name(session.id, self._extension)
            self._require_own(name, known)
            self._seen[key] = self._write(session, ExportedFile(hashed, name), state)
            self.report.written += 1
        except (OSError, TurnlogError) as error:
            self.report.failed.append(f"{session.path}: {error}")
            if known:
                self._seen[key] = known

    def finish(self) -> None:
        """Remove stale files, and write the index and the manifest."""
        stale = [file for key, file in self._manifest.files.items() if key not in self._seen]
        for file in stale:
            if not self._options.is_complete or file.key[1] != self._extension:
                self._seen[file.key] = file
            elif file.is_unchanged(self._folder):
                (self._folder / file.name).unlink()
                self.report.removed += 1
            elif (self._folder / file.name).exists():
                self.report.kept.append(file.name)
        rows = [
            IndexedSession(file.name, file.title, file.project, file.last_active)
            for file in sorted(self._seen.values(), key=lambda file: file.last_active, reverse=True)
            if file.key[1] == self._extension
        ]
        write_index(self._folder, self._extension, rows, self._options.is_agreed)
        self._manifest.save(self._seen.values())
        if (self._folder / STAGING).is_dir():
            with suppress(OSError):  # another export may be at work
                (self._folder / STAGING).rmdir()

    @property
    def _extension(self) -> str:
        return self._options.export.format

    def _write(self, session: SessionFile, file: ExportedFile, state: str) -> ExportedFile:
        # Record the file first, so that a file left by a killed process is known to be turnlog's.
        self._manifest.append(file)
        path = self._folder / file.name
        # A folder for unfinished files: looking for leftovers among 100,000 exports would take
        # long.
        staging = self._folder / STAGING
        if staging.is_symlink():
            raise Conflict(f"{staging} is a symbolic link", f"rm {staging}")
        staging.mkdir(exist_ok=True)
        export_session(open_session(session.path), path, self._options.export, staging)
        status = path.lstat()
        written = msgspec.structs.replace(
            file,
            state=state,
            size=status.st_size,
            modified=status.st_mtime_ns,
            last_active=session.last_active.isoformat(),
        )
        if self._options.export.key is None:
            about = describe(session)
            written.title = _valid_text(mask(about.title)) if about.title else None
            written.project = _valid_text(project_name(mask(about.cwd or "")))
        self._manifest.append(written)
        return written

    def _require_own(self, name: str, known: ExportedFile | None) -> None:
        path = self._folder / name
        is_claimed = known is not None and (not known.state or known.is_unchanged(self._folder))
        if path.is_symlink() or (path.exists() and not is_claimed and not self._options.is_agreed):
            why = "was changed" if known else "exists, and turnlog did not write it"
            raise Conflict(f"{path} {why}", "turnlog export --yes")

    def _state(self, session: SessionFile) -> str:
        """Return a hash of the state of the files that an export reads, and of the options."""
        project = session.path.parent
        if project not in self._adjacent:
            self._adjacent[project] = [_status(path) for path in adjacent_subagents(project)]
        own = [session.path, title_file(session.path), *nested_subagents(session.path)]
        parts = [self._fingerprint, self._adjacent[project], [_status(path) for path in own]]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


class _Manifest:
    """The record of files written to a directory; appended to during an export, then rewritten."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / MANIFEST
        self.head = ManifestHead()
        self.files: dict[tuple[str, str], ExportedFile] = {}
        if os.path.lexists(self._path):
            self._require_regular()
            self._read()
        self._names = {file.name.lower() for file in self.files.values()}

    def key(self, password: str) -> PageKey:
        """Return the key of a password, with the salt of this directory."""
        key = derive_key(password, bytes.fromhex(self.head.salt) or None)
        self.head.salt = key.salt.hex()
        return key

    def free_name(self, stem: str, extension: str) -> str:
        """Return a file name that no other session has."""
        stem = re.sub(SURROGATES, "_", stem)
        name, count = f"{stem}.{extension}", 1
        # Ignore case: on many file systems, `A.html` and `a.html` are the same file.
        while name.lower() in self._names or re.match(rf"{INDEX}\.", name.lower()):
            count += 1
            name = f"{stem}~{count}.{extension}"
        self._names.add(name.lower())
        return name

    def append(self, file: ExportedFile) -> None:
        if not self._path.exists():
            self.save([])
        with self._path.open("ab") as stream:
            stream.write(encode_sound(file) + b"\n")

    def save(self, files: Iterable[ExportedFile]) -> None:
        lines = [encode_sound(self.head), *map(encode_sound, files)]
        content = b"\n".join(lines) + b"\n"
        if not self._path.exists() or self._path.read_bytes() != content:
            write_atomic(self._path, content)

    def _require_regular(self) -> None:
        # Appending to a link would change a file elsewhere, and a FIFO would block.
        if not stat.S_ISREG(self._path.lstat().st_mode):
            raise UsageError(f"{self._path} is not a regular file", f"rm {self._path}")

    def _read(self) -> None:
        with open_regular(self._path) as lines:
            try:
                self.head = msgspec.json.decode(next(lines, b""), type=ManifestHead)
            except (msgspec.MsgspecError, RecursionError):
                self.head = ManifestHead(salt="malformed")
            if not re.fullmatch(SALT, self.head.salt):
                raise UsageError(f"{self._path} is not a manifest of turnlog", f"rm {self._path}")
            found = list(map(_decoded, lines))
        self.files = {file.key: file for file in found if file}
        if None in found:
            # The next line would be appended to a line that a killed process left unfinished.
            self.save(self.files.values())


def _decoded(line: bytes) -> ExportedFile | None:
    """Return the file that a line of a manifest records; None if the line is malformed."""
    try:
        file = msgspec.json.decode(line, type=ExportedFile)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if "/" in file.session:  # turnlog 0.1 wrote the folder and the name
        file.session = _session_hash(file.session)
    return file if line.endswith(b"\n") and file.is_valid() else None


def _session_hash(path: str) -> str:
    return hashlib.sha256(_valid_text(path).encode()).hexdigest()[:32]


def _valid_text(text: str) -> str:
    """Return a text that UTF-8 can encode, with lone surrogates spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()


def _status(path: Path) -> list[Any]:
    try:
        status = path.stat()
    except OSError:
        return [path.name]
    return [path.name, status.st_size, status.st_mtime_ns]


def _fingerprint(options: ExportOptions) -> str:
    """Return a hash of everything but the session that an export depends on."""
    parts = [
        __version__,
        repr(replace(options, key=None)),
        options.key.check if options.key else "",
    ]
    if options.format == "html":
        from turnlog.render.html.session_file import viewer_script, viewer_style

        parts += [viewer_script(), viewer_style()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
