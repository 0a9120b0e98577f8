"""Decide before anything is read which versions are too much for what they take at DEST.

A manifest of a few kilobytes can list one piece a million times, in one file, in many, as former
versions or in many sessions. So every piece that a version lists counts against its pack, which
may expand `RATIO`-fold in one sync; beyond that, all versions together share `ALWAYS_ALLOWED`.
A new file costs time and disk space even if it is empty, so files are counted as well.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from turnlog.exchange.machine_manifest import Piece, SessionVersion
from turnlog.exchange.packs import ALWAYS_ALLOWED, RATIO, PieceReader

BYTES_PER_FILE = 20
"""Compressed bytes of a manifest for each new file: ids and hashes hardly compress."""
ALWAYS_ALLOWED_FILES = 1000


class ExpansionBudget:
    """Counts the bytes and the new files that may still be read in a sync."""

    def __init__(self, reader: PieceReader, sizes: Mapping[str, int]) -> None:
        """`sizes` are the compressed sizes of manifests by machine."""
        self._reader = reader
        self._files = {machine: size // BYTES_PER_FILE for machine, size in sizes.items()}
        self._other_files = ALWAYS_ALLOWED_FILES
        self._used: Counter[str] = Counter()
        """Expanded bytes by pack."""
        self._rest = ALWAYS_ALLOWED
        self._counted: set[tuple[str, str, str, bytes]] = set()
        self._problems: dict[int, str | None] = {}

    def problem_of(self, version: SessionVersion, have: set[tuple[str, bytes]]) -> str | None:
        """Return why a version of another machine is refused; None if it may be read.

        `have` are the roles and hashes of the pieces of this machine's files, which are not read.
        A version that is asked about again counts once.
        """
        if id(version) not in self._problems:
            self._problems[id(version)] = self._count(version, have)
        return self._problems[id(version)]

    def admits_files(self, machine: str, version: SessionVersion, have: Collection[str]) -> bool:
        """Return whether a machine may add the files of a version; `have` are the roles here."""
        new = sum(file.role not in have for file in version.files)
        # A former version may become a fork, with all other files.
        new += len(version.files) * sum(len(file.former) for file in version.files)
        beyond = max(0, new - self._files[machine])
        if beyond > self._other_files:
            return False
        self._files[machine] -= new - beyond
        self._other_files -= beyond
        return True

    def _count(self, version: SessionVersion, have: set[tuple[str, bytes]]) -> str | None:
        needed: Counter[str] = Counter()
        for piece in self._to_read(version, have):
            # A piece that is nowhere cannot be read.
            if place := self._reader.places.get(piece.hash):
                needed[place.pack] += piece.size
        allowed = {pack: RATIO * self._reader.packed_size(pack) for pack in needed}
        beyond = sum(
            max(0, size - max(0, allowed[pack] - self._used[pack])) for pack, size in needed.items()
        )
        if beyond > self._rest:
            total = sum(needed.values())
            return f"expands to {total:,} bytes, too much for what it takes at DEST"
        self._rest -= beyond
        self._used += needed
        for file in version.files:
            self._counted |= {(*version.key, file.role, piece.hash) for piece in file.pieces}
        return None

    def _to_read(self, version: SessionVersion, have: set[tuple[str, bytes]]) -> Iterator[Piece]:
        """Yield the pieces that merging a version may read, as often as they are listed."""
        for file in version.files:
            # Such a file is refused on its own, and the rest of the session is exchanged.
            if any(map(self._reader.size_problem, file.listed)):
                continue
            for piece in file.pieces:
                # Many machines have the same lines, which are read once.
                is_counted = (*version.key, file.role, piece.hash) in self._counted
                if not is_counted and (file.role, piece.hash) not in have:
                    yield piece
            for former in file.former:
                yield from former


def repetitions(listed: Iterable[tuple[str, SessionVersion]]) -> dict[str, int]:
    """Return how often each machine lists a piece, on average and rounded down."""
    counts: Counter[str] = Counter()
    found: dict[str, set[Piece]] = {}
    for machine, version in listed:
        for pieces in version.listed:
            counts[machine] += max(1, len(pieces))
            found.setdefault(machine, set()).update(pieces)
    return {machine: counts[machine] // max(1, len(each)) for machine, each in found.items()}
