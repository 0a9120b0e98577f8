"""Record every change to the user's files, with the old content, so that it can be undone.

A change is recorded before it is made: after a crash at any moment, `undo` restores the files.
"""

import hashlib
import json
import os
import shlex
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from turnlog.edit.open_sessions import require_closed, stores_of
from turnlog.errors import Ambiguous, Conflict, Damaged, NotFound
from turnlog.format.atomic import is_at
from turnlog.format.json_values import parse_json
from turnlog.format.jsonl import CHUNK, FileState
from turnlog.format.locks import lock
from turnlog.format.portable import DIRECTORY, HAS_FOLDER_DESCRIPTORS, NOFOLLOW, sync_folder
from turnlog.format.private_files import create_private_folder, open_private, secure_folder
from turnlog.store.deletion_consent import Consent, Deletion, require_yes
from turnlog.store.paths import journal_folder

STAGE = ".turnlog-"
"""Prefix of staging folders."""
NONE: Mapping[Path, FileState | None] = {}
LATEST = 8
"""Number of most recent changes that `written` looks at."""
ABANDONED = 3600.0
"""Seconds after which an unfinished record counts as left over from a crash."""


@dataclass
class FileRecord:
    """One file that a change affected."""

    path: str
    before: str | None
    """Name of the copy of the old content; None for a new file."""
    after: str | None
    """Hash of the new content; None for a removed file."""
    log_size: int | None = None
    """Size of the new content if others may append to the file; None for other files."""


@dataclass
class Record:
    """One change."""

    id: str
    time: str
    title: str
    files: list[FileRecord] = field(default_factory=list[FileRecord])
    folders: list[str] = field(default_factory=list[str])
    """Folders that the change created."""
    cleared: dict[str, int] = field(default_factory=dict[str, int])
    """Folders that the change may have removed, with their modes."""
    is_done: bool = False
    is_undone: bool = False

    @property
    def is_interrupted(self) -> bool:
        """True if the files may still be in a state halfway through the change."""
        return not (self.is_done or self.is_undone)


class Journal:
    """The changes made so far, stored in a folder of turnlog's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(
        self,
        title: str,
        files: Mapping[Path, Path | None],
        logs: Collection[Path] = (),
        clearing: Iterable[Path] = (),
    ) -> Record:
        """Record a change that is about to be made, and store the current content.

        `files` maps each path to its staged content, or None if it will be removed. `logs` are
        files that others append to; `clearing` are folders to be removed once empty. Paths are
        recorded as absolute, because an undo may run in another directory.
        """
        self._clear_unfinished()
        now = datetime.now(UTC)
        record = Record(f"{now:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}", now.isoformat(), title)
        secure_folder(self.folder)
        (self.folder / record.id).mkdir(mode=0o700)
        try:
            record.files = [
                self._keep_file(record, number, path, ready, path in logs)
                for number, (path, ready) in enumerate(files.items())
            ]
            missing = {str(each) for path in files for each in _missing_folders(path.absolute())}
            record.folders = sorted(missing)
            below = map(_folders_below, clearing)
            found = sorted({each.absolute() for folders in below for each in folders})
            record.cleared = {str(each): stat.S_IMODE(each.stat().st_mode) for each in found}
            self._save(record)
        except BaseException:
            shutil.rmtree(self.folder / record.id, ignore_errors=True)
            raise
        return record

    def finish(self, record: Record) -> None:
        """Record that a change is complete."""
        record.is_done = True
        self._save(record)

    def extend(self, record: Record, path: Path, after: str) -> None:
        """Let a change cover another write of one of its files, whose new content has this hash."""
        # After a crash before that write, the file has a third content, which the next change
        # records; what this one has stored stays.
        for file in record.files:
            if file.path == str(path):
                file.after = after
        self._save(record)

    def records(self) -> list[Record]:
        """Return all changes, the latest first."""
        found = [self._load(path) for path in self.folder.glob("*/record.json")]
        return sorted(found, key=lambda record: record.time, reverse=True)

    def written(self) -> dict[str, str]:
        """Return the hashes of the files written by the latest changes, by path."""
        latest = map(self._load, sorted(self.folder.glob("*/record.json"))[-LATEST:])
        found: dict[str, str | None] = {}
        # The ids of two changes made within the same second do not sort by time.
        for record in sorted(latest, key=lambda record: record.time):
            is_valid = record.is_done and not record.is_undone
            found |= {file.path: file.after if is_valid else None for file in record.files}
        return {path: content for path, content in found.items() if content is not None}

    def undo(self, name: str | None = None) -> Record:
        """Undo a change, by default the latest that is not undone.

        Raise `Conflict` if a client has an affected session open, or if a file has changed since.
        """
        record = self.find(name) if name is not None else self._last()
        if record.is_undone:
            raise NotFound(f"{record.id} is already undone", "turnlog history")
        paths = [Path(file.path) for file in record.files]
        _require_absolute(record, paths)
        require_closed(stores_of(paths), paths)
        states = {path: _state_of(path) for path in paths}
        for file in record.files:
            self._require_known(record, file)
        self.roll_back(record, states)
        return record

    def roll_back(self, record: Record, states: Mapping[Path, FileState | None] = NONE) -> None:
        """Restore the files as they were before a change.

        With `states`, raise `Conflict` if a file has changed since its state was read; the change
        can still be undone later.
        """
        for folder, mode in record.cleared.items():
            if not Path(folder).is_dir():
                make_folders(Path(folder))
                Path(folder).chmod(mode)
        # In reverse order: a move writes the new files before it removes the old ones, so the old
        # ones are restored before the new ones are removed.
        for file in reversed(record.files):
            path = Path(file.path)
            if path in states and _state_of(path) != states[path]:
                raise Conflict(f"{path} changed since it was read", f"turnlog undo {record.id}")
            self._restore(record, file)
        for folder in reversed(record.folders):
            with suppress(OSError):  # the folder is no longer empty
                Path(folder).rmdir()
        record.is_undone = True
        self._save(record)

    def content_before(self, record: Record, path: Path) -> bytes | None:
        """Return the content of a file from before a change; None if there was none."""
        for file in record.files:
            if file.path == str(path.absolute()) and file.before:
                return (self.folder / record.id / file.before).read_bytes()
        return None

    def is_as_before(self, record: Record) -> bool:
        """Return whether every file has the content from before a change."""
        for file in record.files:
            path = Path(file.path)
            copy = self.folder / record.id / file.before if file.before else None
            now = hash_of(path) if path.exists() else None
            if now != (hash_of(copy) if copy else None):
                return False
        return True

    def find(self, name: str) -> Record:
        """Return the change with this id or unique prefix of an id."""
        found = [record for record in self.records() if name and record.id.startswith(name)]
        if not found:
            raise NotFound(f"no change {name!r}", "turnlog history")
        if exact := [record for record in found if record.id == name]:
            return exact[0]
        if len(found) > 1:
            rows = [f"{record.id}  {record.title}" for record in found]
            raise Ambiguous(f"{name!r} matches {len(found)} changes", rows)
        return found[0]

    def forget(
        self, records: Sequence[Record], consent: Consent = require_yes, command: str = ""
    ) -> int:
        """Permanently delete the stored content of changes; return the number of bytes freed.

        `command` is the command that the user can type to consent. An interrupted change is
        refused, because only its stored content can restore the files.
        """
        for record in records:
            if record.is_interrupted:
                raise Conflict(f"{record.id} was interrupted", f"turnlog undo {record.id}")
        if not records:
            return 0
        names = [record.id for record in records]
        what = "1 change" if len(records) == 1 else f"{len(records)} changes"
        details = [f"{record.id}  {record.title}" for record in records]
        consent(Deletion(what, details, command or f"turnlog forget {' '.join(names)} --yes"))
        return sum(self._forget(name) for name in names)

    def _forget(self, name: str) -> int:
        folder = self.folder / name
        copies = [path.stat() for path in folder.iterdir()]
        shutil.rmtree(folder)
        # A copy that an undo restored is a hard link to the user's file and frees nothing.
        return sum(found.st_size for found in copies if found.st_nlink == 1)

    def _last(self) -> Record:
        record = next((each for each in self.records() if not each.is_undone), None)
        if record is None:
            raise NotFound("nothing to undo", "turnlog history")
        return record

    def _restore(self, record: Record, file: FileRecord) -> None:
        path = Path(file.path)
        if file.before is None:
            with suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()
            return
        copy = self.folder / record.id / file.before
        make_folders(path.parent)
        target = path.resolve()
        # If `target` is already a hard link to the same file, `replace` does nothing, and the
        # staged link is removed with its folder.
        with staging_folder(target.parent) as folder:
            staged = folder / target.name
            if _has_grown(file):
                shutil.copy2(copy, staged)
                _append(staged, chunks_of(path, start=file.log_size or 0))
            else:
                _keep(copy, staged)
            staged.replace(target)

    def _require_known(self, record: Record, file: FileRecord) -> None:
        """Raise `Conflict` if a file has neither its new content nor its old content."""
        path = Path(file.path)
        now = hash_of(path) if path.exists() else None
        if now != file.after and not _has_grown(file):
            # After a crash, some files are still as they were before the change.
            copy = self.folder / record.id / file.before if file.before else None
            if now != (hash_of(copy) if copy else None):
                raise Conflict(f"{path} has changed since {record.title}", "turnlog history")

    def _keep_file(
        self, record: Record, number: int, path: Path, ready: Path | None, is_log: bool
    ) -> FileRecord:
        before = f"{number}" if path.exists() else None
        if before:
            _keep(path, self.folder / record.id / before)
        size = ready.stat().st_size if ready and is_log else None
        return FileRecord(str(path.absolute()), before, hash_of(ready) if ready else None, size)

    def _clear_unfinished(self) -> None:
        """Remove copies left by processes that crashed before they recorded their change."""
        for folder in self.folder.glob("*"):
            if not (folder / "record.json").exists() and _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)

    def _save(self, record: Record) -> None:
        path = self.folder / record.id / "record.json"
        staged = path.with_suffix(".new")
        descriptor = open_private(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            # As ASCII: a path may have bytes that are not UTF-8, which a file cannot have as text.
            json.dump(asdict(record), file, indent=1)
            file.flush()
            os.fsync(descriptor)
        staged.replace(path)
        # Without this, the rename may be lost in a power failure that the change itself survives.
        sync_folder(path.parent)

    def _load(self, path: Path) -> Record:
        try:
            fields = parse_json(path.read_bytes())
            files = [FileRecord(**each) for each in fields.pop("files")]
            return Record(files=files, **fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            hint = f"mv {shlex.quote(str(path))} {shlex.quote(f'{path}.old')}"
            raise Damaged(f"{path} is damaged: {error}", hint) from error


def open_journal() -> Journal:
    """Open the journal in turnlog's own directory."""
    return Journal(journal_folder())


def hash_of(path: Path, size: int | None = None) -> str:
    """Return the hash of a file's content, or of its first `size` bytes."""
    digest = hashlib.sha256()
    for chunk in chunks_of(path, size):
        digest.update(chunk)
    return digest.hexdigest()


def chunks_of(path: Path, size: int | None = None, start: int = 0) -> Iterator[bytes]:
    """Yield the bytes of a file from `start` on, up to the offset `size` if given."""
    with path.open("rb") as file:
        file.seek(start)
        while chunk := file.read(CHUNK if size is None else min(CHUNK, size - file.tell())):
            yield chunk


@contextmanager
def staging_folder(parent: Path) -> Generator[Path]:
    """Create a folder in which files are written before they are renamed into `parent`.

    The folder is locked while in use. A lock ends with its process, so an unlocked staging folder
    was left behind by a killed process, and is removed here.
    """
    clear_abandoned(parent)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=STAGE, dir=parent))
        descriptor, locked = _open_for_lock(folder)
        with suppress(OSError):  # some file systems have no locks
            lock(descriptor)
        # Between mkdtemp and lock, another process may have found the folder unlocked and removed
        # it as abandoned. Then the lock is on a deleted folder: try again.
        if is_at(locked, descriptor):
            break
        os.close(descriptor)
    try:
        yield folder
    finally:
        # Removing first keeps the lock until the folder is gone. Windows cannot remove open files,
        # so there only the second attempt succeeds.
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)
        shutil.rmtree(folder, ignore_errors=True)


def _open_for_lock(folder: Path) -> tuple[int, Path]:
    """Open the folder itself for locking, or a lock file in it on Windows."""
    if HAS_FOLDER_DESCRIPTORS:
        return os.open(folder, os.O_RDONLY | DIRECTORY | NOFOLLOW), folder
    path = folder / "lock"
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600), path


def clear_abandoned(folder: Path) -> None:
    """Remove staging folders that killed processes left in a folder."""
    for staging in folder.glob(f"{STAGE}*"):
        with suppress(OSError):  # in use, or already removed
            descriptor, _ = _open_for_lock(staging)
            try:
                lock(descriptor, wait=False)
                shutil.rmtree(staging, ignore_errors=True)
            finally:
                os.close(descriptor)
            if not HAS_FOLDER_DESCRIPTORS:  # the lock file was still open
                shutil.rmtree(staging, ignore_errors=True)


def make_folders(folder: Path) -> None:
    """Create a folder and its parents, accessible to the user only."""
    create_private_folder(folder)


def _require_absolute(record: Record, paths: Iterable[Path]) -> None:
    """Raise `NotFound` if a record has relative paths that do not exist here."""
    for path in paths:
        if not path.is_absolute() and not path.exists():
            message = f"{record.id} changed {path}, which does not exist in {Path.cwd()}"
            raise NotFound(message, f"cd DIRECTORY && turnlog undo {record.id}")


def _state_of(path: Path) -> FileState | None:
    return FileState.of(path) if path.exists() else None


def _is_abandoned(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > ABANDONED
    except OSError:  # its process has removed it
        return False


def _has_grown(file: FileRecord) -> bool:
    """Return whether a log is as a change left it, apart from lines appended since."""
    path = Path(file.path)
    if file.log_size is None or not path.exists():
        return False
    return path.stat().st_size > file.log_size and hash_of(path, file.log_size) == file.after


def _append(path: Path, chunks: Iterable[bytes]) -> None:
    with path.open("ab") as file:
        file.writelines(chunks)


def _missing_folders(path: Path) -> Iterator[Path]:
    return (folder for folder in path.parents if not folder.exists())


def _folders_below(folder: Path) -> Iterator[Path]:
    """Yield a folder, if it exists, and all folders in it."""
    return (Path(path) for path, _, _ in os.walk(folder))


def _keep(path: Path, copy: Path) -> None:
    """Store a file, or restore it, as a hard link if possible, else as a copy."""
    # A link is safe because the change replaces the path with a new inode: from then on, nothing
    # writes to the old one.
    try:
        os.link(path, copy)
    except OSError:
        shutil.copy2(path, copy)
