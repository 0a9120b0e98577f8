"""Find pieces that were truncated or changed at DEST after they were written.

A listing shows sizes only, so a pack is suspected if its size is not the recorded one, or if a
machine could not read a piece in it. Only suspects are read and checked against their hashes.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from turnlog.errors import Damaged
from turnlog.exchange.machine_manifest import MachineManifest, Piece
from turnlog.exchange.packs import LARGEST_PACK, Place, read_verified, unpacked
from turnlog.exchange.transports import Transport

Placed = dict[bytes, Place]
"""The places of pieces, by their hashes."""


@dataclass
class Contents:
    """The packs and pieces found at DEST."""

    places: Placed = field(default_factory=Placed)
    damaged: set[str] = field(default_factory=set[str])
    """Packs whose bytes do not match the hash in their names."""
    lost: Placed = field(default_factory=Placed)
    """Pieces without an intact copy: their packs are damaged, or have other bytes at the offset."""


def find_contents(
    transport: Transport,
    sizes: Mapping[str, int],
    manifests: Iterable[MachineManifest],
    is_verifying: bool,
) -> Contents:
    """Return the places of all pieces at DEST, after checking suspected packs.

    `sizes` has the size of each pack at DEST. If manifests give different places for a piece, the
    last one wins.
    """
    listed = [(manifest, places_of(manifest)) for manifest in manifests]
    reported = {piece for manifest, _ in listed for piece in manifest.unreadable}
    found = Contents()
    wrong: set[tuple[bytes, Place]] = set()
    checks = _checks([places for _, places in listed], reported)
    suspects = _of_wrong_size([manifest for manifest, _ in listed], sizes) | checks.keys()
    for name in sorted(sizes if is_verifying else suspects & sizes.keys()):
        raw = _read_pack(transport, name)
        if raw is None:
            found.damaged.add(name)
            continue
        for piece, place in checks.get(name, ()):
            content = raw[place.offset : place.offset + piece.size]
            if hashlib.sha256(content).digest() != piece.hash:
                wrong.add((piece.hash, place))
    for _, places in listed:
        for digest, place in places.items():
            if place.pack in found.damaged or (digest, place) in wrong:
                found.lost[digest] = place
            # A pack that is not listed has not arrived yet, or was removed.
            elif place.pack in sizes:
                found.places[digest] = place
    found.lost = {digest: at for digest, at in found.lost.items() if digest not in found.places}
    return found


def places_of(manifest: MachineManifest) -> Placed:
    """Return the places in a manifest; raise `Damaged` for a pack that it does not list."""
    try:
        return {
            digest: Place(manifest.packs[pack].hex(), offset)
            for digest, pack, offset in manifest.places
            if pack >= 0 and offset >= 0
        }
    except IndexError as error:
        raise Damaged("a piece is in a pack that the manifest does not name") from error


def _checks(listed: list[Placed], reported: Iterable[Piece]) -> dict[str, set[tuple[Piece, Place]]]:
    """Return the pieces reported as unreadable and their places, by pack."""
    found: dict[str, set[tuple[Piece, Place]]] = {}
    for piece in reported:
        for places in listed:
            if place := places.get(piece.hash):
                found.setdefault(place.pack, set()).add((piece, place))
    return found


def _of_wrong_size(manifests: Iterable[MachineManifest], sizes: Mapping[str, int]) -> set[str]:
    recorded: dict[str, set[int]] = {}
    for manifest in manifests:
        for digest, size in zip(manifest.packs, manifest.sizes, strict=False):
            recorded.setdefault(digest.hex(), set()).add(size)
    # Two machines that encrypt the same pack write different sizes; the last write wins.
    return {name for name, known in recorded.items() if sizes.get(name) not in known}


def _read_pack(transport: Transport, name: str) -> bytes | None:
    try:
        packed = read_verified(transport, f"packs/{name}", name, LARGEST_PACK)
    except Damaged:
        return None
    return unpacked(packed, LARGEST_PACK)
