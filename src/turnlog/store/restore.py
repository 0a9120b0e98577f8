"""Brings a session back from the archive: every file as it was, or none at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from turnlog.errors import Ambiguous, Conflict, Damaged, NotFound
from turnlog.format.jsonl import sync_folder
from turnlog.store.archive import Archive, ArchivedFile, Manifest
from turnlog.store.objects import hash_of
from turnlog.store.whole import UNFINISHED


class Restored(NamedTuple):
    """What was brought back."""

    written: list[Path]
    kept: list[Path]
    """Files that were there already."""


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
    archive: Archive, manifest: Manifest, root: Path, is_kept_fresh: bool = False
) -> Restored:
    """Write the files of a session below a folder; none is written over.

    With `is_kept_fresh` they are of today: the client deletes files by their time.
    """
    wanted = {root / _safe(manifest, file): file for file in manifest.current}
    kept = [path for path, file in wanted.items() if _is_there(path, file, manifest)]
    missing = {path: file for path, file in wanted.items() if path not in kept}
    with ExitStack() as undo:
        beside: dict[Path, Path] = {}
        for path, file in missing.items():
            chunks = _named(archive.chunks(file), f"{manifest.session}: {file.path}")
            beside[path] = _write_beside(path, chunks, file.mode, undo)
            if not is_kept_fresh:
                os.utime(beside[path], ns=(file.mtime_ns, file.mtime_ns))
        # The session itself comes last: it is not there before all that it needs is.
        for path in sorted(beside, key=lambda path: manifest.is_transcript(missing[path])):
            _put_in_place(beside[path], path, undo)
        undo.pop_all()
    return Restored(sorted(beside), kept)


def _with_title(archive: Archive, wanted: str) -> list[Manifest]:
    titled = [(each, (each.title or "").casefold()) for each in archive.manifests()]
    exact = [each for each, title in titled if title == wanted]
    return exact or [each for each, title in titled if wanted in title]


def _named(chunks: Iterator[bytes], where: str) -> Iterator[bytes]:
    """What is read, where a damage tells whose it is."""
    try:
        yield from chunks
    except Damaged as error:
        raise Damaged(f"{where}: {error.message}", "turnlog archive --check") from error


def _safe(manifest: Manifest, file: ArchivedFile) -> str:
    """The path of a file, if it leads nowhere else."""
    if file.path.startswith("/") or ".." in file.path.split("/"):
        raise Damaged(f"{manifest.session}: {file.path} leads out of the store")
    return file.path


def _is_there(path: Path, file: ArchivedFile, manifest: Manifest) -> bool:
    """Whether a file is there as it was archived, or has grown since."""
    if not path.exists():
        return False
    with path.open("rb") as there:
        if all(hash_of(there.read(piece.size)) == piece.hash for piece in file.pieces):
            return True
    hint = f"turnlog restore {manifest.session} --to DIR"
    raise Conflict(f"{path} exists already, with other content", hint)


def _write_beside(path: Path, chunks: Iterator[bytes], mode: int, undo: ExitStack) -> Path:
    for folder in reversed([each for each in path.parents if not each.exists()]):
        folder.mkdir(mode=0o700)
        undo.callback(_remove_folder, folder)
    descriptor, name = tempfile.mkstemp(UNFINISHED, f".{path.name[:100]}.", path.parent)
    undo.callback(Path(name).unlink, missing_ok=True)
    with os.fdopen(descriptor, "wb") as beside:
        beside.writelines(chunks)
        beside.flush()
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    return Path(name)


def _put_in_place(beside: Path, path: Path, undo: ExitStack) -> None:
    if path.exists():
        raise Conflict(f"{path} has come into being meanwhile", "run the command again")
    beside.rename(path)
    undo.callback(path.unlink)
    sync_folder(path.parent)


def _remove_folder(folder: Path) -> None:
    with suppress(OSError):  # another file has come into it
        folder.rmdir()
