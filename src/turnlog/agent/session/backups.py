"""Backups of files before they change, and the session lines that describe them.

A copy is `file-history/<session>/<hash of the path>@v<n>`, as in clients since 2.0.5 (observed).
"""

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from msgspec import Struct

from turnlog.format.decode import values_of
from turnlog.format.json_values import Fields, is_object
from turnlog.format.jsonl import Line, read_lines, read_lines_backwards
from turnlog.format.private_files import create_private_folder, touch_private
from turnlog.store.paths import Store, real_path

SNAPSHOT, DELTA = "file-history-snapshot", "file-history-delta"
MARK = b'"file-history-'
DEVICES = ("/proc", "/sys", "/dev")
COPY = re.compile(r"[0-9a-f]{16}@v[0-9]{1,9}")
"""The name of a copy."""


class Backup(Struct, frozen=True):
    """The state of a file at a point in time."""

    name: str | None
    """The copy's name; None if the file did not exist."""
    version: int
    time: str
    folder: str | None = None
    """The file's directory (2.1.325)."""

    def fields(self) -> Fields:
        """Return the JSON fields of the backup."""
        fields: Fields = {"backupFileName": self.name, "version": self.version}
        fields["backupTime"] = self.time
        return fields if self.folder is None else fields | {"realParentDir": self.folder}


class FileSnapshot(Struct):
    """The state of all changed files at the time of a prompt."""

    message_id: str
    time: str
    offset: int
    """Byte offset of its line."""
    backups: dict[str, Backup]
    """Backups by path: relative to the session's directory if below it, else absolute."""


def backup_folder(store: Store, session_id: str) -> Path:
    """Return the directory of a session's backups."""
    return store.file_history / session_id


def backup_name(path: Path, version: int) -> str:
    """Return the name of a backup file.

    >>> backup_name(Path("/tmp/pr16-body.md"), 3)
    '3c7bac2cbba53df0@v3'
    """
    return f"{_hash(path)}@v{version}"


def copy_of(folder: Path, backup: Backup) -> Path | None:
    """Return the copy that a backup names, if it is a regular file in the folder."""
    # If the folder or the copy were a link, a rewind could write any file of the user into the
    # project.
    if not backup.name or folder.is_symlink():
        return None
    path = folder / backup.name
    try:
        return path if stat.S_ISREG(path.lstat().st_mode) else None
    except OSError:
        return None


def last_version(folder: Path, path: Path) -> int:
    """Return the highest backed-up version of a file."""
    found = (each.name.rpartition("@v")[2] for each in folder.glob(f"{_hash(path)}@v*"))
    return max((int(number) for number in found if number.isdecimal()), default=0)


def keep_copy(path: Path, folder: Path, name: str) -> None:
    """Copy a file atomically."""
    create_private_folder(folder)
    beside = folder / f".{uuid4()}"
    try:
        touch_private(beside)  # created private before content is written that others must not read
        shutil.copyfile(path, beside)
        shutil.copymode(path, beside)
        beside.replace(folder / name)
    finally:
        beside.unlink(missing_ok=True)


def tracking_name(path: Path, root: Path) -> str:
    """Return the name of a file as session entries spell it.

    >>> tracking_name(Path("/a/b/c"), Path("/a")), tracking_name(Path("/b"), Path("/a"))
    ('b/c', '/b')
    """
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def file_of(name: str, backup: Backup, root: Path) -> Path:
    """Return the file of a backup line, in the directory that the line records, if any."""
    path = Path(name)
    place = Path(backup.folder) / path.name if backup.folder else path
    # Normalized, as `a/../x` would otherwise require a directory `a`; clients write no `..`.
    return Path(os.path.normpath(path if path.is_absolute() else root / place))


def is_ordinary(path: Path) -> bool:
    """Return False for paths in /proc, /sys and /dev: reading `/proc/kmsg` would never end."""
    real = real_path(path)
    return not any(real.is_relative_to(place) for place in DEVICES)


def snapshots_in(session: Path) -> list[FileSnapshot]:
    """Return all snapshots of a session, oldest first, with later updates applied."""
    found: dict[str, FileSnapshot] = {}
    for line in read_lines(session):
        for value in _history_values(line):
            _add(found, value, line.offset)
    return list(found.values())


def last_snapshot(session: Path) -> FileSnapshot | None:
    """Return the last snapshot of a session, reading backwards."""
    if not session.exists():
        return None
    lines: list[tuple[Fields, int]] = []
    # A snapshot lists all files, so only it and later updates matter. Even in a session of 100 MB,
    # these are usually in the last few lines.
    for line in read_lines_backwards(session):
        values = list(_history_values(line))
        lines += [(value, line.offset) for value in values]
        if any(value.get("type") == SNAPSHOT for value in values):
            break
    found: dict[str, FileSnapshot] = {}
    for value, offset in reversed(lines):
        _add(found, value, offset)
    return next(reversed(found.values()), None)


def _history_values(line: Line) -> Iterator[Fields]:
    # A fast path: nearly all lines are skipped without decoding. The bytes may also be part of a
    # message that quotes a session; `_add` then ignores it by its type.
    if MARK in line.raw:
        yield from (value for value in values_of(line) if is_object(value))


def _add(found: dict[str, FileSnapshot], value: Fields, offset: int) -> None:
    if value.get("type") == SNAPSHOT:
        fields = value.get("snapshot")
        fields = fields if is_object(fields) else {}
        name = str(fields.get("messageId") or value.get("messageId"))
        backups = _backups(fields.get("trackedFileBackups"))
        if name in found:
            # An update repeats the id of the prompt whose snapshot it adds to.
            found[name].backups |= backups
        else:
            found[name] = FileSnapshot(name, str(fields.get("timestamp") or ""), offset, backups)
    elif value.get("type") == DELTA:
        snapshot = found.get(str(value.get("snapshotMessageId")))
        if snapshot:
            snapshot.backups |= _backups({str(value.get("trackingPath")): value.get("backup")})


def _backups(value: object) -> dict[str, Backup]:
    if not is_object(value):
        return {}
    return {
        name: _backup(held)
        for name, held in value.items()
        if is_object(held) and _is_sound(name, held.get("backupFileName"))
    }


def _is_sound(name: str, copy: Any) -> bool:
    """Return whether the names of a file and its copy have the form that clients write.

    A session may come from a stranger. If it named `../../../.ssh/id_rsa` as a copy, a rewind would
    write the key into the project. The hash in the name is not checked, as anyone can compute it.
    """
    is_named = not isinstance(copy, str) or COPY.fullmatch(copy) is not None
    return is_named and bool(name) and "\0" not in name


def _backup(held: Fields) -> Backup:
    name, version = held.get("backupFileName"), held.get("version")
    return Backup(
        name if isinstance(name, str) else None,
        version if isinstance(version, int) else 1,
        str(held.get("backupTime") or ""),
        str(held["realParentDir"]) if held.get("realParentDir") else None,
    )


def _hash(path: Path) -> str:
    return hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:16]
