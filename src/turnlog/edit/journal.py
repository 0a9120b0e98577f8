"""Every change to a file of the user, with what it takes to bring the file back.

A change is written down before it is made: whatever moment a crash comes, `undo` knows what was.
"""

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from turnlog.errors import Conflict, NotFound
from turnlog.format.jsonl import CHUNK, replace_file


@dataclass
class FileRecord:
    """One file that a change concerned."""

    path: str
    before: str | None
    """The name of the copy of what was there; None for a file that is new."""
    after: str | None = None
    """The hash of what is there now; None for a file that was removed."""


@dataclass
class Record:
    """One change."""

    id: str
    time: str
    title: str
    files: list[FileRecord] = field(default_factory=list[FileRecord])
    is_done: bool = False
    is_undone: bool = False


class Journal:
    """The changes made so far, in a folder of turnlog's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, title: str, paths: list[Path]) -> Record:
        """Write down a change that is about to be made, and keep what is there now."""
        now = datetime.now(UTC)
        record = Record(f"{now:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}", now.isoformat(), title)
        (self.folder / record.id).mkdir(parents=True, mode=0o700)
        for number, path in enumerate(paths):
            before = f"{number}" if path.exists() else None
            if before:
                _keep(path, self.folder / record.id / before)
            record.files.append(FileRecord(str(path), before))
        self._save(record)
        return record

    def finish(self, record: Record) -> None:
        """Write down that a change was made, and what there is now."""
        for file in record.files:
            path = Path(file.path)
            file.after = hash_of(path) if path.exists() else None
        record.is_done = True
        self._save(record)

    def records(self) -> list[Record]:
        """All changes, the last first."""
        found = [self._load(path) for path in self.folder.glob("*/record.json")]
        return sorted(found, key=lambda record: record.id, reverse=True)

    def undo(self, name: str | None = None) -> Record:
        """Bring back what was before a change: the last one that was not undone, or the named."""
        record = self._chosen(name)
        for file in record.files:
            _require_untouched(record, file)
        for file in reversed(record.files):
            self._restore(record, file)
        record.is_undone = True
        self._save(record)
        return record

    def _chosen(self, name: str | None) -> Record:
        for record in self.records():
            if (name and record.id.startswith(name)) or (not name and not record.is_undone):
                if record.is_undone:
                    raise NotFound(f"{record.id} is undone already", "turnlog history")
                return record
        raise NotFound(f"no change {name!r}" if name else "nothing to undo", "turnlog history")

    def _restore(self, record: Record, file: FileRecord) -> None:
        path = Path(file.path)
        if file.before is None:
            path.unlink(missing_ok=True)
            return
        kept = self.folder / record.id / file.before
        if path.exists():
            replace_file(path, chunks_of(kept))
            shutil.copymode(kept, path)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(kept, path)

    def _save(self, record: Record) -> None:
        path = self.folder / record.id / "record.json"
        beside = path.with_suffix(".new")
        with beside.open("w", encoding="utf-8") as file:
            json.dump(asdict(record), file, ensure_ascii=False, indent=1)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)

    def _load(self, path: Path) -> Record:
        fields = json.loads(path.read_text("utf-8"))
        files = [FileRecord(**each) for each in fields.pop("files")]
        return Record(files=files, **fields)


def hash_of(path: Path) -> str:
    """The hash of a file's content."""
    digest = hashlib.sha256()
    for chunk in chunks_of(path):
        digest.update(chunk)
    return digest.hexdigest()


def _require_untouched(record: Record, file: FileRecord) -> None:
    path = Path(file.path)
    now = hash_of(path) if path.exists() else None
    if record.is_done and now != file.after:
        raise Conflict(f"{path} has changed since {record.title}", "turnlog history")


def _keep(path: Path, copy: Path) -> None:
    """Keep a file as it is: by a link where that is possible, as a swap leaves it alone."""
    try:
        os.link(path, copy)
    except OSError:
        shutil.copy2(path, copy)


def chunks_of(path: Path) -> Iterator[bytes]:
    """The content of a file, a piece at a time."""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk
