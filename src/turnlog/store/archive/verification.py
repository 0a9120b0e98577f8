"""Reads everything in the archive, and tells what is not as it was."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from turnlog.errors import Damaged
from turnlog.store.archive.archive import Archive, Manifest
from turnlog.store.archive.objects import Chunk


@dataclass(frozen=True)
class Damage:
    """A part of the archive that is missing, or not what was put there."""

    session: str
    path: str | None
    """The file that lost something; None where the manifest itself is damaged."""
    message: str


@dataclass
class Checked:
    """What was found."""

    sessions: int = 0
    objects: int = 0
    unused: int = 0
    """Objects that no session has: a run that was cut short leaves them behind."""
    damages: list[Damage] = field(default_factory=list[Damage])


def check_archive(archive: Archive, progress: Callable[[], None] = lambda: None) -> Checked:
    """Read all manifests and all pieces; `progress` is called after each session."""
    checked = Checked()
    seen: dict[Chunk, str | None] = {}
    for name in archive.names():
        checked.sessions += 1
        try:
            checked.damages += _damages(archive, archive.load(name), seen)
        except Damaged as error:
            checked.damages.append(Damage(name, None, error.message))
        progress()
    hashes = {piece.hash for piece in seen}
    checked.objects = len(hashes)
    checked.unused = len(archive.objects.sizes().keys() - hashes)
    return checked


def _damages(
    archive: Archive, manifest: Manifest, seen: dict[Chunk, str | None]
) -> Iterator[Damage]:
    """The damages of a session; `seen` has what is wrong with each piece that was read."""
    for file in manifest.files:
        if problem := manifest.problem(file):
            yield Damage(manifest.session, file.path, f"its path {problem}")
        for piece in dict.fromkeys(file.pieces):
            if piece not in seen:
                seen[piece] = None
                try:
                    archive.objects.read(piece)
                except Damaged as error:
                    seen[piece] = error.message
            if message := seen[piece]:
                yield Damage(manifest.session, file.path, message)
    if problem := archive.size_problem(manifest.files):
        yield Damage(manifest.session, None, problem)
