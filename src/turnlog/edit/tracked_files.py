"""Keep a foreign session from restoring files outside of its project.

A session names the files that `/rewind` restores from its backups, or deletes. A session from
someone else could name `~/.bashrc`: the client would replace it with a backup that comes with the
session.
"""

import os
import re
from typing import Any

from turnlog.edit.plan import encoded
from turnlog.format.decode import split_values
from turnlog.format.json_values import is_object
from turnlog.format.jsonl import Line, line_end

BACKUP = re.compile(r"[0-9a-f]{8,64}@v[0-9]{1,9}")
"""A copy of an edited file: `<hash of its path>@v<n>` (observed: 2.0.42 to 2.1.325)."""
SNAPSHOT, DELTA = "file-history-snapshot", "file-history-delta"
IGNORED = f"foreign-{DELTA}"
"""A type that clients ignore; a line must not be dropped, because lines are compared by number."""
MARKS = (b'"trackedFileBackups"', b'"trackingPath"', b"\\u00")
"""Lines without any of these track no file; an escape may hide a name: `"tracking\\u0050ath"`."""


def without_foreign_files(raw: bytes, directory: str) -> tuple[bytes, list[str]]:
    """Return a line without tracked files outside of a project, and the paths of those files.

    >>> line = b'{"type":"file-history-delta","trackingPath":"../../.bashrc"}'
    >>> without_foreign_files(line, "/home/bob/shop")
    (b'{"type":"foreign-file-history-delta","trackingPath":"../../.bashrc"}', ['../../.bashrc'])
    """
    if not any(mark in raw for mark in MARKS):
        return raw, []
    # Tolerant, because clients are: JSON.parse accepts lone surrogates, huge numbers and replaced
    # bytes, which a strict parser refuses.
    pieces, rest = split_values(Line(raw, 0, 0))
    values = [piece.value for piece in pieces]
    foreign = [path for each in values if is_object(each) for path in _remove_from(each, directory)]
    if not foreign:
        return raw, []
    end = line_end(raw) if raw.endswith(b"\n") else b""
    return b"".join(encoded(each).rstrip() for each in values) + rest + end, foreign


def _remove_from(value: dict[str, Any], directory: str) -> list[str]:
    snapshot, path = value.get("snapshot"), value.get("trackingPath")
    tracked = snapshot.get("trackedFileBackups") if is_object(snapshot) else None
    foreign: list[str] = []
    if is_object(tracked):
        foreign += [
            name
            for name, backup in tracked.items()
            if not _is_own(name, directory) or not _is_backup(backup)
        ]
        for name in foreign:
            del tracked[name]
    is_own = isinstance(path, str) and _is_own(path, directory)
    if isinstance(path, str) and not (is_own and _is_backup(value.get("backup"))):
        foreign.append(path)
        value["type"] = IGNORED
    return foreign


def _is_own(path: str, directory: str) -> bool:
    """Return whether a path is an ordinary file of a project.

    Hidden files are not ordinary: `.git/hooks` and `.claude/settings.json` contain commands.
    """
    whole = os.path.normpath(os.path.join(directory, path))  # noqa: PTH118
    below = whole.removeprefix(f"{directory.rstrip('/')}/")
    return below != whole and not any(part.startswith(".") for part in below.split("/"))


def _is_backup(backup: object) -> bool:
    """Return whether a tracked file has one of the session's own backups, or no backup at all.

    A name such as `../../../.ssh/id_ed25519` would copy a private file into the project.
    """
    name = backup.get("backupFileName") if is_object(backup) else None
    return name is None or (isinstance(name, str) and BACKUP.fullmatch(name) is not None)
