"""Restores a session from the archive: every file as it was, or none at all.

The archive is not trusted. Before the first byte is written, every path is matched against the
layouts of session files, every piece is read and compared with its hash, and the total is bounded.
"""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from turnlog.errors import Ambiguous, Conflict, Damaged, NotFound, Unavailable
from turnlog.store.archive.allowed_paths import collision, is_run_by_client, session_problem
from turnlog.store.archive.archive import Archive, ArchivedFile, Manifest
from turnlog.store.archive.objects import hash_of
from turnlog.store.destination import Destination

SPARE = 64 << 20
"""Bytes of the disk that a restore leaves free."""


class Restored(NamedTuple):
    """What was restored."""

    written: list[Path]
    kept: list[Path]
    """Files that were there already."""
    left_out: list[str]
    """Files that the client would execute, by their paths in the archive."""


def find_archived(archive: Archive, text: str) -> Manifest:
    """The session in the archive that `text` names: its id, the start of it, or its title."""
    wanted = text.lower()
    names = [name for name in archive.names() if name.lower().startswith(wanted)]
    if exact := [name for name in names if name.lower() == wanted]:
        return archive.load(exact[0])
    matches = [archive.load(name) for name in names] or _with_title(archive, text.casefold())
    if not matches:
        hint = "turnlog archive --list"
        raise NotFound(f"no session matches {text!r} in {archive.folder}", hint)
    if len(matches) > 1:
        rows = [f"{each.session}  {each.title or ''}".rstrip() for each in matches]
        raise Ambiguous(f"{text!r} matches {len(matches)} sessions", rows)
    return matches[0]


def restore_session(
    archive: Archive,
    manifest: Manifest,
    root: Path,
    is_kept_fresh: bool = False,
    max_size: int | None = None,
) -> Restored:
    """Write the files of a session below a directory; never overwrite one.

    With `is_kept_fresh` their time is now, because the client deletes files by their time.
    `max_size` replaces the limit on what an archive may expand to.
    """
    files = manifest.current
    _require_sound(archive, manifest, files, max_size)
    left_out = [file.path for file in files if is_run_by_client(file.path)]
    wanted = [file for file in files if not is_run_by_client(file.path)]
    with Destination(root) as place:
        kept = {file.path for file in wanted if _is_there(place, file, manifest)}
        missing = [file for file in wanted if file.path not in kept]
        _require_room(root, sum(file.size for file in missing))
        times = [None if is_kept_fresh else _sane_time(file.mtime_ns) for file in missing]
        staged = [
            place.write(file.path.split("/"), _content(archive, manifest, file), file.mode, moment)
            for file, moment in zip(missing, times, strict=True)
        ]
        # The session itself comes last: it must not be there before all that it needs is.
        pairs = zip(staged, missing, strict=True)
        for each, _ in sorted(pairs, key=lambda pair: manifest.is_transcript(pair[1])):
            place.put_in_place(each)
    there = [root / path for path in sorted(kept)]
    return Restored(sorted(each.path for each in staged), there, left_out)


def _with_title(archive: Archive, wanted: str) -> list[Manifest]:
    titled = [(each, (each.title or "").casefold()) for each in archive.manifests()]
    exact = [each for each, title in titled if title == wanted]
    return exact or [each for each, title in titled if wanted in title]


def _require_sound(
    archive: Archive, manifest: Manifest, files: list[ArchivedFile], max_size: int | None
) -> None:
    """Refuse a session if anything in the archive about it is not as turnlog writes it."""
    name = manifest.session
    if problem := session_problem(name):
        raise Damaged(f"{name!r} {problem}; nothing restored")
    for file in files:
        if problem := manifest.problem(file):
            raise Damaged(f"{name}: {file.path!r} {problem}; nothing restored")
        if file.size != sum(piece.size for piece in file.pieces):
            raise Damaged(f"{name}: {file.path} is not as large as its pieces; nothing restored")
    if path := collision(file.path for file in files):
        raise Damaged(f"{name}: {path!r} takes the place of another file; nothing restored")
    if problem := archive.size_problem(files, max_size):
        total = sum(file.size for file in files)
        hint = f"turnlog restore {name} --max-size {total}"
        raise Damaged(f"{name}: {problem}; nothing restored", hint)
    for file in files:
        for piece in dict.fromkeys(file.pieces):
            try:
                archive.objects.read(piece)
            except Damaged as error:
                raise _named(error, manifest, file) from error


def _content(archive: Archive, manifest: Manifest, file: ArchivedFile) -> Iterator[bytes]:
    """The content of a file, each piece compared with its hash once more as it is written."""
    try:
        yield from archive.chunks(file)
    except Damaged as error:
        raise _named(error, manifest, file) from error


def _named(error: Damaged, manifest: Manifest, file: ArchivedFile) -> Damaged:
    return Damaged(f"{manifest.session}: {file.path}: {error.message}", "turnlog archive --check")


def _is_there(place: Destination, file: ArchivedFile, manifest: Manifest) -> bool:
    """Whether a file is there as it was archived, or has grown since."""
    descriptor = place.open_existing(file.path.split("/"))
    if descriptor is None:
        return False
    with os.fdopen(descriptor, "rb") as there:
        if all(hash_of(there.read(piece.size)) == piece.hash for piece in file.pieces):
            return True
    hint = f"turnlog restore {manifest.session} --into DIR"
    raise Conflict(f"{place.root / file.path} exists already, with other content", hint)


def _require_room(root: Path, size: int) -> None:
    free = shutil.disk_usage(root).free
    if size + SPARE > free:
        raise Unavailable(
            f"{size:,} bytes do not fit below {root}: {free:,} are free", f"df {root}"
        )


def _sane_time(mtime_ns: int) -> int:
    """A file's time, but none before 1970 or in the future: tools sort and expire by it."""
    return min(max(0, mtime_ns), time.time_ns())
