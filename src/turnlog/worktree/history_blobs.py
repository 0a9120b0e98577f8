"""Read backups of the file history, which are exact copies of files (2.0.5 on).

The folder may come from somebody else, so only regular files with a backup's name are read.
"""

import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from turnlog.conversation.backup_listings import BackupUse, current_uses, listings_in
from turnlog.conversation.session import Session
from turnlog.format.fields import given
from turnlog.format.file_views import BackupRef
from turnlog.format.regular_files import read_regular
from turnlog.store.paths import THEIRS, Store
from turnlog.worktree.file_names import FileName, file_name

HASH_DIGITS = 16
COPY = re.compile(rf"([0-9a-f]{{{HASH_DIGITS}}})@v[0-9]{{1,9}}")
"""The name of a backup."""
OVERWRITTEN = "the backup was overwritten, and the lines do not tell by which use of its name"
LISTED_AGAIN = "the client compared its size and time with those of the backup, not its content"
"""It makes no backup of a file with the same size that is older than the last one.

Such as one that `mv` or `cp -p` brought there (2.0.76 and 2.1.325, observed).
"""
CONTESTED = "two versions of the backup came together, and nothing tells which belongs to this line"


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
    doubt: str = ""
    """Why the backup may have the content of another moment, if it may."""


def history_folder(session: Path) -> Path | None:
    """Return the folder of a session's backups, if the session is in a store."""
    above = session.absolute().parents
    if len(above) < 3 or above[1].name != "projects":
        return None
    return Store(above[2]).file_history / session.stem


def backups_of(session: Session, cwd: str | None, folder: Path | None) -> list[BackedUp]:
    """Return the backups that a session's lines describe, in file order.

    A name that was used twice is only listed for the use that overwrote the others, if that is
    certain; else its backup is in doubt.
    """
    listings = listings_in(session)
    owners = current_uses(listings)
    contested = _contested(folder)
    made: set[BackupUse] = set()
    found: list[BackedUp] = []
    for each in listings:
        owner = owners[each.copy] if each.copy else each.use
        if each.is_repeated or owner not in (None, each.use):
            continue
        doubt = OVERWRITTEN if owner is None else CONTESTED if each.copy in contested else ""
        if each.copy and each.use in made:
            doubt = doubt or LISTED_AGAIN
        made.add(each.use)
        name = _name_of(each.path, each.ref, cwd)
        where = each.message_id, each.node.line, each.when
        found.append(BackedUp(name, each.copy, *where, each.is_before_change, doubt))
    return found


def _contested(folder: Path | None) -> frozenset[str]:
    """Return the backups of which another version was set aside: `<name>@v2.1a2b3c4d.theirs`.

    A sync and an import do that if both sides have a backup of that name with other content.
    """
    if folder is None or folder.is_symlink():
        return frozenset()
    try:
        names = os.listdir(folder)
    except OSError:
        return frozenset()
    return frozenset(THEIRS.sub("", name) for name in names if THEIRS.search(name))


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
