"""Keep a foreign session from restoring files outside of its project.

A session names the files that `/rewind` restores from its backups, or deletes. One from someone
else could name `~/.bashrc`: the client would replace it with a backup from the bundle.
"""

import os
from typing import Any

import msgspec

from turnlog.edit.plan import encoded
from turnlog.format.json_values import is_object
from turnlog.format.jsonl import line_end

SNAPSHOT, DELTA = "file-history-snapshot", "file-history-delta"
IGNORED = f"foreign-{DELTA}"
"""A type that clients ignore; a line must not be dropped, because lines are compared by number."""
MARKS = (b'"trackedFileBackups"', b'"trackingPath"')

_decode = msgspec.json.Decoder().decode


def without_foreign_files(raw: bytes, directory: str) -> tuple[bytes, list[str]]:
    """Return a line that tracks only files of a project, and the paths that it tracked besides.

    >>> line = b'{"type":"file-history-delta","trackingPath":"../../.bashrc"}'
    >>> without_foreign_files(line, "/home/bob/shop")
    (b'{"type":"foreign-file-history-delta","trackingPath":"../../.bashrc"}', ['../../.bashrc'])
    """
    if not any(mark in raw for mark in MARKS):
        return raw, []
    try:
        value = _decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return raw, []  # the client reads no such line either
    if not is_object(value):
        return raw, []
    foreign = _remove_from(value, directory)
    if not foreign:
        return raw, []
    return encoded(value).rstrip() + (line_end(raw) if raw.endswith(b"\n") else b""), foreign


def _remove_from(value: dict[str, Any], directory: str) -> list[str]:
    snapshot, path = value.get("snapshot"), value.get("trackingPath")
    tracked = snapshot.get("trackedFileBackups") if is_object(snapshot) else None
    foreign: list[str] = []
    if is_object(tracked):
        foreign += [name for name in tracked if not _is_own(name, directory)]
        for name in foreign:
            del tracked[name]
    if isinstance(path, str) and not _is_own(path, directory):
        foreign.append(path)
        value["type"] = IGNORED
    return foreign


def _is_own(path: str, directory: str) -> bool:
    """Return whether a path is an ordinary file of a project.

    Hidden ones are not: `.git/hooks` and `.claude/settings.json` contain commands.
    """
    whole = os.path.normpath(os.path.join(directory, path))  # noqa: PTH118
    below = whole.removeprefix(f"{directory.rstrip('/')}/")
    return below != whole and not any(part.startswith(".") for part in below.split("/"))
