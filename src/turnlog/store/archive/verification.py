"""Verification of an archive: read everything and report what is missing or damaged."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from turnlog.errors import Damaged
from turnlog.store.archive.archive import Archive, ArchiveManifest
from turnlog.store.archive.objects import Chunk


@dataclass(frozen=True)
class Damage:
    """A part of the archive that is missing or has changed."""

    session: str
    path: str | None
    """The affected file; None if the manifest itself is damaged."""
    message: str


@dataclass
class Checked:
    """The result of a verification."""

    sessions: int = 0
    objects: int = 0
    unused: int = 0
    """Objects that no session refers to, left over from an interrupted run."""
    damages: list[Damage] = field(default_factory=list[Damage])


def check_archive(archive: Archive, progress: Callable[[], None] = lambda: None) -> Checked:
    """Read all manifests and pieces; call `progress` after each session."""
    checked = Checked()
    # Files may share pieces: each is decompressed and hashed only once.
    outcomes: dict[Chunk, str | None] = {}
    for name in archive.names():
        checked.sessions += 1
        try:
            checked.damages += _find_damage(archive, archive.load(name), outcomes)
        except Damaged as error:
            checked.damages.append(Damage(name, None, error.message))
        progress()
    hashes = {piece.hash for piece in outcomes}
    checked.objects = len(hashes)
    checked.unused = len(archive.objects.sizes().keys() - hashes)
    return checked


def _find_damage(
    archive: Archive, manifest: ArchiveManifest, outcomes: dict[Chunk, str | None]
) -> Iterator[Damage]:
    """Yield the damage to a session; `outcomes` caches the error of each piece, None if intact."""
    for file in manifest.files:
        if problem := manifest.problem(file):
            yield Damage(manifest.session, file.path, f"its path {problem}")
        for piece in dict.fromkeys(file.pieces):
            if piece not in outcomes:
                outcomes[piece] = None
                try:
                    archive.objects.read(piece)
                except Damaged as error:
                    outcomes[piece] = error.message
            if message := outcomes[piece]:
                yield Damage(manifest.session, file.path, message)
    if problem := archive.size_problem(manifest.files):
        yield Damage(manifest.session, None, problem)
