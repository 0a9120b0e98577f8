"""Read the manifests of other machines, and publish the one of this machine.

A machine writes its packs, then its manifest, and keeps its last two manifests: a reader that
listed the older one can still read it.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from turnlog.errors import Damaged
from turnlog.exchange.machine_manifest import (
    FORMAT,
    MachineManifest,
    ManifestName,
    Piece,
    SessionVersion,
    decode_manifest,
    encode_manifest,
    pieces_of,
)
from turnlog.exchange.machine_state import State, new_machine, save_state
from turnlog.exchange.options import NotExchanged
from turnlog.exchange.pack_damage import Contents, Placed, find_contents, places_of
from turnlog.exchange.packs import PackWriter, PieceReader, read_verified
from turnlog.exchange.transports import Transport

LARGEST_PACKED = 128 << 20
"""Compressed size of a manifest, in bytes."""


@dataclass
class Others:
    """The manifests at DEST: those of other machines, and the latest of this one."""

    manifests: dict[ManifestName, MachineManifest] = field(
        default_factory=dict[ManifestName, MachineManifest]
    )
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    """Compressed sizes of those of other machines, by machine."""
    own: MachineManifest | None = None
    """The newest manifest of this machine; None if there is none or if it is damaged."""
    damaged: list[str] = field(default_factory=list[str])
    """Manifests of this machine that are damaged."""
    contents: Contents = field(default_factory=Contents)
    problems: list[NotExchanged] = field(default_factory=list[NotExchanged])


def read_manifests(transport: Transport, state: State, is_verifying: bool = False) -> Others:
    """Read the newest manifest of each machine; give this machine a new id if its own is taken.

    Packs that seem to be damaged are read and checked; with `--verify`, all packs are.
    """
    listed = transport.list()
    names = sorted(filter(None, map(ManifestName.parse, listed)))
    own = {str(name) for name in names if name.machine == state.machine}
    if not own <= set(state.names):
        # The data directory was copied to another machine, or restored from a backup. Two machines
        # with one id would remove each other's manifests.
        state.machine, state.sequence, state.names = new_machine(), 0, []
    others = Others()
    ours: list[MachineManifest] = []
    for machine in sorted({name.machine for name in names}):
        newest = [name for name in reversed(names) if name.machine == machine]
        failed: list[NotExchanged] = []
        name, manifest, size = _read_newest(transport, newest, failed)
        if machine == state.machine:
            others.damaged = [each.name for each in failed]
            others.own = None if failed else manifest
            ours = [manifest] if manifest else []
            continue
        others.problems += failed
        if name and manifest:
            others.manifests[name], others.sizes[machine] = manifest, size
    packs = {
        name.removeprefix("packs/"): size
        for name, size in listed.items()
        if name.startswith("packs/")
    }
    # Our own places win: a hostile manifest must not keep us from uploading a piece by claiming
    # that it is somewhere else.
    manifests = [*reversed(others.manifests.values()), *ours]
    others.contents = find_contents(transport, packs, manifests, is_verifying)
    return others


def _read_newest(
    transport: Transport, names: list[ManifestName], failed: list[NotExchanged]
) -> tuple[ManifestName | None, MachineManifest | None, int]:
    for name in names:
        try:
            packed = read_verified(transport, str(name), name.hash, LARGEST_PACKED)
            manifest = decode_manifest(packed, name)
            places_of(manifest)
        except Damaged as error:
            failed.append(NotExchanged(str(name), str(error)))
            continue
        return name, manifest, len(packed)
    return None, None, 0


def publish(
    transport: Transport,
    packs: tuple[PackWriter, PieceReader],
    states: tuple[State, State],
    folder: Path,
    others: Others,
) -> bool:
    """Write the manifest unless it would equal the last one; save the state in either case.

    `states` are the last state and the new one.
    """
    old, new = states
    writer, reader = packs
    writer.finish()
    listed = transport.list()
    # A piece in a damaged pack stays listed: the pack may become intact, for example when another
    # program has finished copying it.
    places = others.contents.lost | writer.known
    sessions = [version for version in map(_published(places), new.sessions) if version.files]
    manifest = others.own if old.names and old.names[-1] in listed else None
    is_moved = bool(writer.names or others.contents.damaged or others.contents.lost)
    if manifest is None or is_moved or sessions != old.sessions:
        manifest = _manifest(old.machine, sessions, places)
    unreadable = sorted(Piece(*each) for each in reader.unreadable)
    sizes = _sizes(manifest, listed, others.contents.damaged - writer.names)
    manifest = replace(manifest, sizes=sizes, unreadable=unreadable)
    is_same = manifest == others.own and old.names[-1] in listed
    if not is_same:
        packed = encode_manifest(manifest)
        digest = hashlib.sha256(packed).hexdigest()
        name = str(ManifestName(old.machine, old.sequence + 1, digest))
        older, old.names = old.names[:-1], [*old.names, name]
        old.sequence += 1
        # Saved before the upload, so that after a crash the manifest at DEST is known to be ours.
        # Only its name and sequence are new: files count as seen once their lines are published.
        save_state(folder, old)
        transport.write(name, packed)
        # Removed only after the upload: if earlier uploads failed, one of these is the newest that
        # others can read. The previous manifest stays, as a reader may have just listed it.
        transport.remove(older)
        transport.finish()
    # If nothing was published, manifests that a killed sync did not remove may still be at DEST.
    new.names = old.names if is_same else old.names[-2:]
    new.sequence, new.sessions = old.sequence, sessions
    save_state(folder, new)
    return not is_same


def _sizes(
    manifest: MachineManifest, listed: Mapping[str, int], damaged: Collection[str]
) -> list[int]:
    """Return the sizes of the packs; 0 for a damaged one, so that the next sync checks it again."""
    names = (digest.hex() for digest in manifest.packs)
    return [0 if name in damaged else listed.get(f"packs/{name}", 0) for name in names]


def _published(places: Placed) -> Callable[[SessionVersion], SessionVersion]:
    """Return a function that drops files and former versions with a piece not in `places`."""

    def published(version: SessionVersion) -> SessionVersion:
        files = [
            file for file in version.files if all(piece.hash in places for piece in file.pieces)
        ]
        for file in files:
            file.former = [
                former for former in file.former if all(piece.hash in places for piece in former)
            ]
        return SessionVersion(
            version.session, version.label, files, version.local, version.is_deleted
        )

    return published


def _manifest(machine: str, sessions: Iterable[SessionVersion], places: Placed) -> MachineManifest:
    listed = list(sessions)
    hashes = sorted({piece.hash for piece in pieces_of(listed)})
    packs = sorted({places[each].pack for each in hashes})
    numbers = {name: number for number, name in enumerate(packs)}
    rows = [(each, numbers[places[each].pack], places[each].offset) for each in hashes]
    return MachineManifest(FORMAT, machine, list(map(bytes.fromhex, packs)), rows, listed)
