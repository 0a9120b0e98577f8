"""Restore a session from the archive: every file as it was, or none at all.

The archive is not trusted. Before the first byte is written, every path is matched against the
layouts of session files, every piece is compared with its hash, and the total size is bounded.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from turnlog.errors import Ambiguous, Conflict, Damaged, NotFound
from turnlog.format.decode import values_of
from turnlog.format.json_values import is_object
from turnlog.format.jsonl import append_lines
from turnlog.format.private_files import FILE
from turnlog.store.archive.allowed_paths import (
    HISTORY,
    SHARED,
    collision,
    is_run_by_client,
    session_problem,
)
from turnlog.store.archive.archive import Archive, ArchivedFile, ArchiveManifest
from turnlog.store.archive.objects import hash_of
from turnlog.store.destination import Destination, require_space

FILE_HISTORY = "file-history/"
"""Folder of the copies that the client makes of files before it edits them."""


class Restored(NamedTuple):
    """The result of a restore."""

    written: list[Path]
    kept: list[Path]
    """Files that already existed."""
    left_out: list[str]
    """Files that the client would execute, by their paths in the archive."""


def find_archived(archive: Archive, text: str) -> ArchiveManifest:
    """Return the archived session that `text` names by id, prefix of an id, or title."""
    matches = match_archived(archive, text)
    if not matches:
        hint = "turnlog archive --list"
        raise NotFound(f"no session matches {text!r} in {archive.folder}", hint)
    if len(matches) > 1:
        rows = [f"{found.session}  {found.title or ''}".rstrip() for found in matches]
        raise Ambiguous(f"{text!r} matches {len(matches)} sessions", rows)
    return matches[0]


def match_archived(archive: Archive, text: str) -> list[ArchiveManifest]:
    """Return the archived sessions that `text` may name."""
    start = text.lower()
    names = [name for name in archive.names() if name.lower().startswith(start)]
    if exact := [name for name in names if name.lower() == start]:
        return [archive.load(exact[0])]
    return [archive.load(name) for name in names] or _with_title(archive, text.casefold())


def restore_transcript(archive: Archive, manifest: ArchiveManifest, root: Path) -> Path:
    """Restore a session into a directory of its own; return the path of its session file."""
    transcript = next(filter(manifest.is_transcript, manifest.current), None)
    if transcript is None:
        hint = f"turnlog restore {quote(manifest.session)} --into DIR"
        raise NotFound(f"{manifest.session} has no session file in {archive.folder}", hint)
    restore_session(archive, manifest, root)
    return root / transcript.path


def restore_session(
    archive: Archive,
    manifest: ArchiveManifest,
    root: Path,
    is_kept_fresh: bool = False,
    max_size: int | None = None,
) -> Restored:
    """Write the files of a session below a directory; never overwrite one.

    With `is_kept_fresh` the files get the current time, because the client deletes files by age.
    `max_size` overrides the limit on the size of the decompressed files.
    """
    files = manifest.current
    _require_valid(archive, manifest, files, max_size)
    left_out = [file.path for file in files if is_run_by_client(file.path)]
    prompts = _prompts(archive, manifest, files)
    restored = [f for f in files if not (is_run_by_client(f.path) or f.is_history)]
    with Destination(root) as destination:
        prompts = _missing_lines(destination, prompts)
        kept = {file.path for file in restored if _exists_unchanged(destination, file, manifest)}
        missing = [file for file in restored if file.path not in kept]
        require_space(root, sum(file.size for file in missing))
        times = [None if is_kept_fresh else _sane_time(file.mtime_ns) for file in missing]
        staged = [
            destination.write(
                file.path.split("/"), _content(archive, manifest, file), _mode_of(file), moment
            )
            for file, moment in zip(missing, times, strict=True)
        ]
        # The session file comes last: a client must not open it before its sub-agents and tool
        # results exist.
        pairs = zip(staged, missing, strict=True)
        for written, _ in sorted(pairs, key=lambda pair: manifest.is_transcript(pair[1])):
            destination.put_in_place(written)
        if prompts:
            append_lines(root / HISTORY, prompts)
    existing = [root / path for path in sorted(kept)]
    changed = [*(each.path for each in staged), *([root / HISTORY] if prompts else [])]
    return Restored(sorted(changed), existing, left_out)


def _with_title(archive: Archive, text: str) -> list[ArchiveManifest]:
    titled = [(manifest, (manifest.title or "").casefold()) for manifest in archive.manifests()]
    exact = [manifest for manifest, title in titled if title == text]
    return exact or [manifest for manifest, title in titled if text in title]


def _require_valid(
    archive: Archive, manifest: ArchiveManifest, files: list[ArchivedFile], max_size: int | None
) -> None:
    """Raise `Damaged` if anything about a session is not as turnlog would have written it."""
    name = manifest.session
    if problem := session_problem(name):
        raise Damaged(f"{name!r} {problem}; nothing restored")
    for file in files:
        if problem := manifest.problem(file):
            raise Damaged(f"{name}: {file.path!r} {problem}; nothing restored")
        if file.size != sum(piece.size for piece in file.pieces):
            raise Damaged(f"{name}: {file.path} and its pieces differ in size; nothing restored")
    if path := collision(file.path for file in files):
        raise Damaged(f"{name}: {path!r} would overwrite another file; nothing restored")
    if problem := archive.size_problem(files, max_size):
        total = sum(file.size for file in files)
        hint = f"turnlog restore {quote(name)} --max-size {total}"
        raise Damaged(f"{name}: {problem}; nothing restored", hint)
    for file in files:
        for piece in dict.fromkeys(file.pieces):
            try:
                archive.objects.read(piece)
            except Damaged as error:
                raise _with_path(error, manifest, file) from error


def _prompts(archive: Archive, manifest: ArchiveManifest, files: list[ArchivedFile]) -> list[bytes]:
    """Return a session's lines of the prompt history; raise `Damaged` if one is not its own."""
    lines = [line for file in files if file.is_history for line in archive.lines(file)]
    for line in lines:
        names = [value.get("sessionId") if is_object(value) else None for value in values_of(line)]
        if names != [manifest.session]:
            message = f"line {line.number} is no prompt of this session; nothing restored"
            raise Damaged(f"{manifest.session}: {HISTORY}: {message}")
    return [line.raw for line in lines]


def _missing_lines(destination: Destination, lines: list[bytes]) -> list[bytes]:
    """Return those lines that the prompt history lacks."""
    descriptor = destination.open_existing([HISTORY]) if lines else None
    if descriptor is None:
        return lines
    with os.fdopen(descriptor, "rb") as file:
        known = {line.rstrip() for line in file}
    return [line for line in lines if line.rstrip() not in known]


def _content(archive: Archive, manifest: ArchiveManifest, file: ArchivedFile) -> Iterator[bytes]:
    """Yield the content of a file, comparing each piece with its hash again."""
    try:
        yield from archive.chunks(file)
    except Damaged as error:
        raise _with_path(error, manifest, file) from error


def _with_path(error: Damaged, manifest: ArchiveManifest, file: ArchivedFile) -> Damaged:
    return Damaged(f"{manifest.session}: {file.path}: {error.message}", "turnlog archive --check")


def _exists_unchanged(
    destination: Destination, file: ArchivedFile, manifest: ArchiveManifest
) -> bool:
    """Return whether a file exists as archived, or has grown; raise `Conflict` if it differs."""
    descriptor = destination.open_existing(file.path.split("/"))
    if descriptor is None:
        return False
    with os.fdopen(descriptor, "rb") as there:
        # Sessions share plans: another one may have changed it.
        if SHARED.fullmatch(file.path) or all(
            hash_of(there.read(piece.size)) == piece.hash for piece in file.pieces
        ):
            return True
    hint = f"turnlog restore {quote(manifest.session)} --into DIR"
    raise Conflict(f"{destination.root / file.path} already exists with different content", hint)


def _mode_of(file: ArchivedFile) -> int:
    """Return the mode of a restored file: only a copy of an edited script may be executable."""
    return file.mode if file.path.startswith(FILE_HISTORY) else FILE


def _sane_time(mtime_ns: int) -> int:
    """Clamp a file's time to between 1970 and now, because tools sort and expire files by it."""
    return min(max(0, mtime_ns), time.time_ns())
