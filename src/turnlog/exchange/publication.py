"""Read the manifests of other machines, and publish the one of this machine.

A machine writes its packs, then its manifest, and keeps its last two manifests: a reader that
listed the older one can still read it.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from turnlog.errors import Damaged
from turnlog.exchange.machine_manifest import (
    FORMAT,
    MachineManifest,
    ManifestName,
    SessionVersion,
    decode_manifest,
    encode_manifest,
    pieces_of,
)
from turnlog.exchange.machine_state import State, new_machine, save_state
from turnlog.exchange.options import NotExchanged
from turnlog.exchange.packs import PackWriter, Place, read_verified
from turnlog.exchange.transports import Transport

LARGEST_PACKED = 128 << 20
"""Compressed size of a manifest, in bytes."""


@dataclass
class Others:
    """What other machines published."""

    manifests: dict[ManifestName, MachineManifest] = field(
        default_factory=dict[ManifestName, MachineManifest]
    )
    places: dict[bytes, Place] = field(default_factory=dict[bytes, Place])
    """Where the pieces at DEST are."""
    problems: list[NotExchanged] = field(default_factory=list[NotExchanged])


def read_manifests(transport: Transport, state: State) -> Others:
    """Read the newest manifest of each machine; this machine gets a new id if its own is taken."""
    listed = transport.list()
    names = sorted(filter(None, map(ManifestName.parse, listed)))
    own = {str(name) for name in names if name.machine == state.machine}
    if not own <= set(state.names):
        # The data directory was copied to another machine, or restored from a backup. Two machines
        # with one id would remove each other's manifests.
        state.machine, state.sequence, state.names = new_machine(), 0, []
    others = Others()
    for machine in sorted({name.machine for name in names}):
        ours = machine == state.machine
        newest = [name for name in reversed(names) if name.machine == machine]
        _read_newest(transport, newest, others, is_own=ours)
    packs = {name.removeprefix("packs/") for name in listed if name.startswith("packs/")}
    others.places = {each: at for each, at in others.places.items() if at.pack in packs}
    return others


def _read_newest(
    transport: Transport, names: list[ManifestName], others: Others, is_own: bool
) -> None:
    for name in names:
        try:
            packed = read_verified(transport, str(name), name.hash, LARGEST_PACKED)
            manifest = decode_manifest(packed, name)
            places = _places(manifest)
        except Damaged as error:
            others.problems.append(NotExchanged(str(name), str(error)))
            continue
        # Our own places win: a hostile manifest must not keep us from uploading a piece by
        # claiming that it is somewhere else.
        others.places = others.places | places if is_own else places | others.places
        if not is_own:
            others.manifests[name] = manifest
        return


def _places(manifest: MachineManifest) -> dict[bytes, Place]:
    try:
        return {
            digest: Place(manifest.packs[pack].hex(), offset)
            for digest, pack, offset in manifest.places
            if pack >= 0 and offset >= 0
        }
    except IndexError as error:
        raise Damaged("a piece is in a pack that the manifest does not name") from error


def publish(
    transport: Transport,
    writer: PackWriter,
    states: tuple[State, State],
    folder: Path,
    is_listed: Callable[[str], bool],
) -> bool:
    """Write the manifest unless it would equal the last one; save the state in either case.

    `states` are the last state and the new one.
    """
    old, new = states
    writer.finish()
    sessions = [version for version in map(_published(writer), new.sessions) if version.files]
    is_same = old.names and is_listed(old.names[-1]) and sessions == old.sessions
    if not is_same:
        packed = encode_manifest(_manifest(old.machine, sessions, writer))
        digest = hashlib.sha256(packed).hexdigest()
        name = str(ManifestName(old.machine, old.sequence + 1, digest))
        older, old.names = old.names[:-1], [*old.names, name]
        old.sequence += 1
        # Saved before the upload: after a crash between the two, the manifest at DEST is known to
        # be ours. All else stays as it was: files count as seen once their lines are published.
        save_state(folder, old)
        transport.remove(older)
        transport.write(name, packed)
        transport.finish()
    new.sequence, new.names, new.sessions = old.sequence, old.names[-2:], sessions
    save_state(folder, new)
    return not is_same


def _published(writer: PackWriter) -> Callable[[SessionVersion], SessionVersion]:
    """Return a function that leaves out files with pieces that DEST has lost."""

    def published(version: SessionVersion) -> SessionVersion:
        files = [
            file
            for file in version.files
            if all(piece.hash in writer.known for piece in file.pieces)
        ]
        for file in files:
            file.former = [
                former
                for former in file.former
                if all(piece.hash in writer.known for piece in former)
            ]
        return SessionVersion(
            version.session, version.label, files, version.local, version.is_deleted
        )

    return published


def _manifest(
    machine: str, sessions: Iterable[SessionVersion], writer: PackWriter
) -> MachineManifest:
    listed = list(sessions)
    hashes = sorted({piece.hash for piece in pieces_of(listed)})
    packs = sorted({writer.known[each].pack for each in hashes})
    numbers = {name: number for number, name in enumerate(packs)}
    places = [
        (each, numbers[writer.known[each].pack], writer.known[each].offset) for each in hashes
    ]
    return MachineManifest(FORMAT, machine, list(map(bytes.fromhex, packs)), places, listed)
