"""Back up files before their first change in a turn, and at each prompt from then on.

A copy and its line are written before the file changes, so a crash never loses the old content.
"""

import filecmp
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from turnlog.agent.session.backups import (
    DELTA,
    SNAPSHOT,
    Backup,
    backup_folder,
    backup_name,
    copy_of,
    file_of,
    is_ordinary,
    keep_copy,
    last_snapshot,
    last_version,
    tracking_name,
)
from turnlog.agent.workspace.project_directories import is_within
from turnlog.format.json_values import Fields
from turnlog.format.jsonl import FileState
from turnlog.format.timestamps import stamp_of
from turnlog.store.paths import Store


class Pen(Protocol):
    """The part of the recorder that backups need."""

    path: Path

    @property
    def leaf(self) -> str | None:
        """Uuid of the last entry."""
        ...

    def aside(self, entry: Fields) -> Any:
        """Append an entry outside the conversation."""
        ...


class FileHistory:
    """The backups of one session."""

    def __init__(
        self, store: Store, pen: Pen, root: Path, may_copy: Callable[[Path], bool] | None = None
    ) -> None:
        """Continue from the last snapshot of the session, which was started in `root`.

        `may_copy` decides about files that are known only from the session's lines; by default,
        those below `root` may be copied.
        """
        self.root = root
        self.folder = backup_folder(store, pen.path.stem)
        self._pen = pen
        self._may_copy = may_copy or self._is_below_root
        self._changed: set[str] = set()
        """Files changed by this process; names in earlier lines are not trusted."""
        self._lock = Lock()
        self._states: dict[str, FileState] = {}
        """State of each file when it was last compared with its copy."""
        before = last_snapshot(pen.path)
        self._backups: dict[str, Backup] = before.backups if before else {}
        self._current: set[str] = set()
        """Files already backed up since the current prompt."""
        self._prompt: tuple[str, str] | None = None

    def _is_below_root(self, path: Path) -> bool:
        return is_within(path, [self.root])

    def snapshot_line(self, prompt_uuid: str) -> Fields:
        """Return the snapshot line of a prompt: the current state of all files changed so far."""
        with self._lock:
            known = [*self._backups.items()]
            self._backups = {
                name: now
                for name, backup in known
                if (now := self._refreshed(name, backup)) is not None
            }
            self._current = set(self._backups)
            self._prompt = (prompt_uuid, _now())
            return self._line(prompt_uuid, is_update=False)

    def before_change(self, path: Path) -> None:
        """Back up a file that is about to change, unless it was backed up since the last prompt."""
        name = tracking_name(path, self.root)
        with self._lock:
            if name in self._current:
                return
            version = self._backups[name].version if name in self._backups else 0
            self._backups[name] = kept = self._keep(name, path, version)
            self._current.add(name)
            self._changed.add(name)
            self._pen.aside(self._delta(name, kept))
            # Clients before 2.1.209 ignore deltas, and could not rewind to before this change.
            self._pen.aside(self._line(self._pen.leaf or "", is_update=True))

    def _refreshed(self, name: str, backup: Backup) -> Backup | None:
        """Return a backup of a file's current state: the last one if the file has not changed.

        Return None for a file that must not be copied: a stranger's session could name
        `/etc/shadow`, or `/proc/kmsg`, which never ends. Also return None for an unreadable file,
        which must not stop the session.
        """
        path = file_of(name, backup, self.root)
        if name not in self._changed and not self._may_copy(path):
            return None
        try:
            return self._as_now(name, path, backup) if is_ordinary(path) else None
        except OSError:
            return None

    def _as_now(self, name: str, path: Path, backup: Backup) -> Backup:
        copy = copy_of(self.folder, backup)
        if not path.is_file():
            return backup if backup.name is None else self._keep(name, path, backup.version)
        state = FileState.of(path)
        # Inode, size and mtime have not changed since the last comparison, so skip comparing the
        # contents again, which would be slow at each prompt.
        if self._states.get(name) == state:
            return backup
        if copy and filecmp.cmp(path, copy, shallow=False):
            self._states[name] = state
            return backup
        return self._keep(name, path, backup.version)

    def _keep(self, name: str, path: Path, version: int) -> Backup:
        # A rewind, or another process with this session, may have left higher versions. Overwriting
        # one would lose a state that a snapshot refers to.
        version = max(version, last_version(self.folder, path)) + 1
        copy = None
        if path.is_file():
            copy = backup_name(path, version)
            self._states[name] = FileState.of(path)
            keep_copy(path, self.folder, copy)
        return Backup(copy, version, _now(), str(path.parent.resolve()))

    def _delta(self, name: str, backup: Backup) -> Fields:
        """Return the line about one file, as clients from 2.1.209 on write it."""
        leaf = self._pen.leaf or ""
        prompt, _ = self._prompt or (leaf, "")
        return {
            "type": DELTA,
            "messageId": leaf,
            "snapshotMessageId": prompt,
            "trackingPath": name,
            "backup": backup.fields(),
            "timestamp": backup.time,
        }

    def _line(self, message_id: str, is_update: bool) -> Fields:
        prompt, time = self._prompt or (message_id, _now())
        tracked = {name: backup.fields() for name, backup in self._backups.items()}
        snapshot = {"messageId": prompt, "trackedFileBackups": tracked, "timestamp": time}
        return {
            "type": SNAPSHOT,
            "messageId": message_id,
            "snapshot": snapshot,
            "isSnapshotUpdate": is_update,
        }


def _now() -> str:
    return stamp_of(datetime.now(UTC))
