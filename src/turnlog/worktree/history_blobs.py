"""Read backups of the file history, which are exact copies of files (2.0.5 on).

The folder may come from somebody else, so only regular files with a backup's name are read.
"""

import hashlib
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from turnlog.conversation.session import Session
from turnlog.format.fields import given
from turnlog.format.file_views import BackupRef, backups_in
from turnlog.format.fit import fit
from turnlog.format.regular_files import read_regular
from turnlog.format.state import FileHistoryDelta, FileHistorySnapshot
from turnlog.store.paths import Store
from turnlog.worktree.file_names import FileName, file_name

KINDS = ("file-history-snapshot", "file-history-delta")
HASH_DIGITS = 16
COPY = re.compile(rf"([0-9a-f]{{{HASH_DIGITS}}})@v[0-9]{{1,9}}")
"""The name of a backup."""


@dataclass(frozen=True, slots=True)
class BackedUp:
    """A file's backup, and the entry at which it was made."""

    name: FileName
    copy: str | None
    """The backup's file name; None if the file did not exist."""
    message_id: str | None
    line: int
    time: str | None
    is_before_change: bool
    """True for a backup before a change of the file, False for one at a prompt."""


def history_folder(session: Path) -> Path | None:
    """Return the folder of a session's backups, if the session is in a store."""
    above = session.absolute().parents
    if len(above) < 3 or above[1].name != "projects":
        return None
    return Store(above[2]).file_history / session.stem


def backups_of(session: Session, cwd: str | None) -> list[BackedUp]:
    """Return the backups that a session's lines describe, in file order.

    A name that was used twice is only listed for its last use: after a rewind, the client continues
    numbering from that point and overwrites the backups of the abandoned branch.
    """
    nodes = [node for node in session.nodes if node.kind in KINDS]
    found: list[tuple[BackedUp, str]] = []
    known: dict[str, BackupRef] = {}
    for node, entry in zip(nodes, session.entries(nodes), strict=True):
        if isinstance(entry, FileHistorySnapshot):
            new = _in_snapshot(entry, known)
        elif isinstance(entry, FileHistoryDelta):
            new = _in_delta(entry)
        else:
            continue
        for path, ref, is_before in new:
            known[path] = ref
            copy = given(ref.backup_file_name)
            name = _name_of(path, ref, cwd)
            message = given(entry.message_id)
            each = BackedUp(name, copy, message, node.line, entry.when, is_before)
            found.append((each, given(ref.backup_time) or ""))
    latest = {each.copy: time for each, time in found}
    return [each for each, time in found if each.copy is None or latest[each.copy] == time]


def read_backup(folder: Path | None, copy: str) -> bytes | None:
    """Return the content of a backup; None if it is gone."""
    # A session may come from somebody else: `../../../.ssh/id_rsa` for a copy, or a link in its
    # place, would bring any file of the user into the restored project.
    if folder is None or COPY.fullmatch(copy) is None or folder.is_symlink():
        return None
    path = folder / copy
    try:
        return read_regular(path) if stat.S_ISREG(path.lstat().st_mode) else None
    except OSError:
        return None


def _in_snapshot(
    entry: FileHistorySnapshot, known: dict[str, BackupRef]
) -> Iterator[tuple[str, BackupRef, bool]]:
    snapshot = given(entry.snapshot)
    is_update = bool(given(entry.is_snapshot_update))
    for path, ref in backups_in(snapshot.tracked_file_backups if snapshot else None).items():
        # An update repeats all backups of its prompt; those known before show an earlier
        # moment, and the file may have changed since.
        if not is_update or known.get(path) != ref:
            yield path, ref, is_update


def _in_delta(entry: FileHistoryDelta) -> Iterator[tuple[str, BackupRef, bool]]:
    path = given(entry.tracking_path)
    if path:
        yield path, fit(BackupRef, given(entry.backup) or {}, []), True


def _name_of(path: str, ref: BackupRef, cwd: str | None) -> FileName:
    """Return the file that a tracked path means.

    The name of a copy starts with a hash of the absolute path, which tells candidates apart: the
    session may have changed its directory since it started.
    """
    folder = given(ref.real_parent_dir)
    last = path.replace("\\", "/").rpartition("/")[2]
    candidates = [file_name(path, cwd)]
    if folder:
        candidates.append(file_name(last, folder))
    named = COPY.fullmatch(given(ref.backup_file_name) or "")
    for candidate in candidates if named else ():
        digest = hashlib.sha256(candidate.path.encode("utf-8", "surrogatepass")).hexdigest()
        if named and digest.startswith(named[1]):
            return candidate
    return candidates[0]
