"""Write a file that the user names, such as an export; the journal keeps what it replaces.

A report that is written again and again has one entry in the journal: the content from before the
first of these writes.
"""

import hashlib
import os
from pathlib import Path

from turnlog.edit.apply import Change, apply_changes
from turnlog.edit.journal import Journal, Record, hash_of, open_journal
from turnlog.errors import UsageError
from turnlog.format.atomic import write_atomic
from turnlog.format.jsonl import FileState
from turnlog.format.portable import CREATE

PRIVATE = 0o600


def write_export(path: Path, text: str) -> Record | None:
    """Write a new file, or replace one; return the change with which an undo restores it."""
    raw = text.encode("utf-8", "replace")
    if os.path.lexists(path):
        return replace_output(path, raw)
    descriptor = os.open(path, CREATE, PRIVATE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(raw)
    return None


def replace_output(path: Path, content: bytes) -> Record | None:
    """Replace a regular file; return the new change in the journal, None if none was necessary."""
    path = path.absolute()
    # A link could lead anywhere, and a device or a FIFO has no content that an undo could restore.
    if path.is_symlink() or not path.is_file():
        raise UsageError(f"{path} is not a regular file", f"ls -l {path}")
    title = f"output to {path.name}"
    journal = open_journal()
    if record := _last_output(journal, path, title):
        journal.extend(record, path, hashlib.sha256(content).hexdigest())
        write_atomic(path, content)
        return None
    change = Change(path, [content], FileState.of(path))
    record = apply_changes(journal, title, [change])
    # A changed session keeps its mode and times; a new report is private and recent.
    path.chmod(PRIVATE)
    os.utime(path)
    return record


def _last_output(journal: Journal, path: Path, title: str) -> Record | None:
    """Return the change that wrote a file, if the file is still as that change left it."""
    now = hash_of(path)
    for record in journal.records():
        is_valid = record.title == title and record.is_done and not record.is_undone
        if is_valid and (str(path), now) in ((file.path, file.after) for file in record.files):
            return record
    return None
