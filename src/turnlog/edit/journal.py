"""Every change to a file of the user, with what it takes to bring the file back.

A change is written down before it is made: whatever moment a crash comes, `undo` knows what was.
"""

import hashlib
import json
import os
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
from turnlog.errors import Ambiguous, Conflict, NotFound
from turnlog.format.atomic import is_at
from turnlog.format.jsonl import CHUNK, FileState
from turnlog.format.locks import lock
from turnlog.format.portable import DIRECTORY, HAS_FOLDER_DESCRIPTORS, NOFOLLOW, sync_folder
from turnlog.format.private_files import create_private_folder, open_private, secure_folder
from turnlog.store.deletion_consent import Consent, Deletion, require_yes
from turnlog.store.paths import journal_folder

STAGE = ".turnlog-"
"""What the names of folders begin with in which files are written before they take their places."""
NONE: Mapping[Path, FileState | None] = {}
ABANDONED = 3600.0
"""Seconds after which what was begun is the remains of a crash."""


@dataclass
class FileRecord:
    """One file that a change concerned."""

    path: str
    before: str | None
    """The name of the copy of what was there; None for a file that is new."""
    after: str | None
    """The hash of what is there after it; None for a file that is removed."""
    log_size: int | None = None
    """The size of what is there after it, if others may append to it; None for other files."""


@dataclass
class Record:
    """One change."""

    id: str
    time: str
    title: str
    files: list[FileRecord] = field(default_factory=list[FileRecord])
    folders: list[str] = field(default_factory=list[str])
    """Folders that were not there before."""
    cleared: dict[str, int] = field(default_factory=dict[str, int])
    """Folders that may be gone after it, with their modes."""
    is_done: bool = False
    is_undone: bool = False

    @property
    def is_interrupted(self) -> bool:
        """Whether files may still be as they were halfway through the change."""
        return not (self.is_done or self.is_undone)


class Journal:
    """The changes made so far, in a folder of turnlog's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(
        self,
        title: str,
        files: Mapping[Path, Path | None],
        logs: Collection[Path] = (),
        clearing: Iterable[Path] = (),
    ) -> Record:
        """Write down a change that is about to be made, and keep what is there now.

        `files` says where the new content of each lies; None for one that goes. `logs` are those of
        them that others append to, `clearing` the folders that go if they are left empty. Paths are
        recorded as absolute: an undo may run in another directory.
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
        """Write down that a change was made."""
        record.is_done = True
        self._save(record)

    def records(self) -> list[Record]:
        """All changes, the last first."""
        found = [self._load(path) for path in self.folder.glob("*/record.json")]
        return sorted(found, key=lambda record: record.time, reverse=True)

    def undo(self, name: str | None = None) -> Record:
        """Bring back what was before a change: the last one that was not undone, or the named.

        Refuse while a client has a session open that the change concerned, and where a file is no
        longer as the change left it.
        """
        record = self.find(name) if name is not None else self._last()
        if record.is_undone:
            raise NotFound(f"{record.id} is undone already", "turnlog history")
        paths = [Path(file.path) for file in record.files]
        _require_absolute(record, paths)
        require_closed(stores_of(paths), paths)
        states = {path: _state_of(path) for path in paths}
        for file in record.files:
            self._require_known(record, file)
        self.roll_back(record, states)
        return record

    def roll_back(self, record: Record, states: Mapping[Path, FileState | None] = NONE) -> None:
        """Bring back what was before a change.

        With `states`, a file that changes meanwhile is a `Conflict`; the change stays undoable.
        """
        for folder, mode in record.cleared.items():
            if not Path(folder).is_dir():
                make_folders(Path(folder))
                Path(folder).chmod(mode)
        for file in reversed(record.files):
            path = Path(file.path)
            if path in states and _state_of(path) != states[path]:
                raise Conflict(f"{path} changed since it was read", f"turnlog undo {record.id}")
            self._restore(record, file)
        for folder in reversed(record.folders):
            with suppress(OSError):  # something else lies in it by now
                Path(folder).rmdir()
        record.is_undone = True
        self._save(record)

    def is_as_before(self, record: Record) -> bool:
        """Whether every file is as it was before a change."""
        for file in record.files:
            path = Path(file.path)
            kept = self.folder / record.id / file.before if file.before else None
            now = hash_of(path) if path.exists() else None
            if now != (hash_of(kept) if kept else None):
                return False
        return True

    def find(self, name: str) -> Record:
        """Return the change with an id, or with the only id that starts so."""
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
        """Delete for good what changes kept; return how many bytes that frees.

        `command` is what the user can type to agree. A change that was interrupted is refused: only
        what it kept can bring the files back.
        """
        for record in records:
            if record.is_interrupted:
                raise Conflict(f"{record.id} was interrupted halfway", f"turnlog undo {record.id}")
        if not records:
            return 0
        names = [record.id for record in records]
        what = "1 change" if len(records) == 1 else f"{len(records)} changes"
        details = [f"{record.id}  {record.title}" for record in records]
        consent(Deletion(what, details, command or f"turnlog forget {' '.join(names)} --yes"))
        return sum(self._forget(name) for name in names)

    def _forget(self, name: str) -> int:
        folder = self.folder / name
        kept = [path.stat() for path in folder.iterdir()]
        shutil.rmtree(folder)
        # What an undo brought back is the same file in two places.
        return sum(found.st_size for found in kept if found.st_nlink == 1)

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
        kept = self.folder / record.id / file.before
        make_folders(path.parent)
        place = path.resolve()
        # A link to the very file that is there already stays where it is, and goes with the folder.
        with staging_folder(place.parent) as folder:
            beside = folder / place.name
            if _has_grown(file):
                shutil.copy2(kept, beside)
                _append(beside, chunks_of(path, start=file.log_size or 0))
            else:
                _keep(kept, beside)
            beside.replace(place)

    def _require_known(self, record: Record, file: FileRecord) -> None:
        """Refuse to throw away what was written since; a crash may have left what was before."""
        path = Path(file.path)
        now = hash_of(path) if path.exists() else None
        if now != file.after and not _has_grown(file):
            kept = self.folder / record.id / file.before if file.before else None
            if now != (hash_of(kept) if kept else None):
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
        """Remove what changes kept that were never made: a crash came before they were noted."""
        for folder in self.folder.glob("*"):
            if not (folder / "record.json").exists() and _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)

    def _save(self, record: Record) -> None:
        path = self.folder / record.id / "record.json"
        beside = path.with_suffix(".new")
        descriptor = open_private(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(record), file, ensure_ascii=False, indent=1)
            file.flush()
            os.fsync(descriptor)
        beside.replace(path)
        sync_folder(path.parent)

    def _load(self, path: Path) -> Record:
        fields = json.loads(path.read_text("utf-8"))
        files = [FileRecord(**each) for each in fields.pop("files")]
        return Record(files=files, **fields)


def open_journal() -> Journal:
    """Open the journal of all changes, in turnlog's own directory."""
    return Journal(journal_folder())


def hash_of(path: Path, size: int | None = None) -> str:
    """The hash of a file's content, or of its first bytes."""
    digest = hashlib.sha256()
    for chunk in chunks_of(path, size):
        digest.update(chunk)
    return digest.hexdigest()


def chunks_of(path: Path, size: int | None = None, start: int = 0) -> Iterator[bytes]:
    """The bytes of a file, or the first of them, or those from a place on."""
    with path.open("rb") as file:
        file.seek(start)
        while chunk := file.read(CHUNK if size is None else min(CHUNK, size - file.tell())):
            yield chunk


@contextmanager
def staging_folder(place: Path) -> Generator[Path]:
    """Create a folder in which files are written before they take their places in `place`.

    It is locked while it is in use. A lock ends with its process, so whatever a killed process left
    behind is unlocked, and removed here.
    """
    clear_abandoned(place)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=STAGE, dir=place))
        descriptor, locked = _open_for_lock(folder)
        with suppress(OSError):  # there are file systems without locks
            lock(descriptor)
        if is_at(locked, descriptor):
            break
        os.close(descriptor)  # removed as abandoned, before it was locked
    try:
        yield folder
    finally:
        # Windows removes no file that is open; elsewhere the lock lasts until the folder is gone.
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)
        shutil.rmtree(folder, ignore_errors=True)


def _open_for_lock(folder: Path) -> tuple[int, Path]:
    """Open what stands for a folder when it is locked: itself, or a file in it on Windows."""
    if HAS_FOLDER_DESCRIPTORS:
        return os.open(folder, os.O_RDONLY | DIRECTORY | NOFOLLOW), folder
    path = folder / "lock"
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600), path


def clear_abandoned(folder: Path) -> None:
    """Remove what killed processes left beside the files of a folder."""
    for left in folder.glob(f"{STAGE}*"):
        with suppress(OSError):  # in use, or gone by now
            descriptor, _ = _open_for_lock(left)
            try:
                lock(descriptor, wait=False)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(descriptor)
            if not HAS_FOLDER_DESCRIPTORS:  # the lock file was still open
                shutil.rmtree(left, ignore_errors=True)


def make_folders(folder: Path) -> None:
    """Make a folder and those that lead to it, none of them open to others."""
    create_private_folder(folder)


def _require_absolute(record: Record, paths: Iterable[Path]) -> None:
    """Refuse a record with relative paths where they lead nowhere: it is of another directory."""
    for path in paths:
        if not path.is_absolute() and not path.exists():
            message = f"{record.id} names {path}, which is not in {Path.cwd()}"
            raise NotFound(message, f"cd to its directory, then: turnlog undo {record.id}")


def _state_of(path: Path) -> FileState | None:
    return FileState.of(path) if path.exists() else None


def _is_abandoned(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > ABANDONED
    except OSError:  # whoever it belonged to has removed it
        return False


def _has_grown(file: FileRecord) -> bool:
    """Whether a log is as a change left it, but for what was appended to it since."""
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
    """A folder, if it is there, and all folders in it."""
    return (Path(path) for path, _, _ in os.walk(folder))


def _keep(path: Path, copy: Path) -> None:
    """Keep a file as it is, or bring it back: by a link if it can be, as a swap leaves it alone."""
    try:
        os.link(path, copy)
    except OSError:
        shutil.copy2(path, copy)
