"""The local state of a DEST: this machine's id there, what it published and what it merged.

Everything but the id can be computed again: a lost state costs time, never data.
"""

import hashlib
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from turnlog.errors import Conflict
from turnlog.exchange.machine_manifest import SessionVersion
from turnlog.exchange.transports import canonical_dest
from turnlog.format.atomic import write_atomic
from turnlog.format.jsonl import FileState
from turnlog.format.locks import lock
from turnlog.format.private_files import open_private, secure_folder
from turnlog.store.directories import data_directory

FORMAT = 1
UNSETTLED = 2_000_000_000
"""Nanoseconds after a write in which a second write may leave the time and size unchanged."""


class SeenFile(NamedTuple):
    """The state of a local file when it was read."""

    inode: int
    size: int
    mtime_ns: int
    read_ns: int

    def is_at(self, state: FileState) -> bool:
        """Return whether a file is certainly unchanged."""
        # File systems round times: a second write in the same tick leaves size and time alone.
        is_settled = self.read_ns > self.mtime_ns + UNSETTLED
        return is_settled and (self.inode, self.size, self.mtime_ns) == state


class MergedManifest(Struct):
    """The manifest that was last merged from another machine."""

    name: str
    sessions: dict[str, bytes]
    """The digest of each merged session version, by session, label and local id."""


class State(Struct):
    """The state for one DEST."""

    format: int
    machine: str
    sequence: int = 0
    names: list[str] = msgspec.field(default_factory=list[str])
    """Manifests of this machine that may be at DEST."""
    sessions: list[SessionVersion] = msgspec.field(default_factory=list[SessionVersion])
    """The sessions in the last manifest of this machine."""
    seen: dict[str, SeenFile] = msgspec.field(default_factory=dict[str, SeenFile])
    """Local files by path."""
    merged: dict[str, MergedManifest] = msgspec.field(default_factory=dict[str, MergedManifest])
    """The last merged manifest of each other machine, by machine id."""
    mapped: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    store: str = ""
    """The directory of the store."""


ENCODER = msgspec.msgpack.Encoder()
DECODER = msgspec.msgpack.Decoder(State)


def new_machine() -> str:
    """Return a random machine id."""
    return os.urandom(16).hex()


def state_folder(dest: str, store: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder with the state of a store for a DEST."""
    named = f"{canonical_dest(dest)}\0{store.resolve()}".encode()
    name = hashlib.sha256(named).hexdigest()[:16]
    return Path(data_directory(environment)) / "exchange" / name


def load_state(folder: Path) -> State:
    """Return the saved state, or a new one if there is none or it cannot be read."""
    try:
        state = DECODER.decode((folder / "state").read_bytes())
    except (OSError, msgspec.MsgspecError, RecursionError):
        return State(FORMAT, new_machine())
    return state if state.format == FORMAT else State(FORMAT, new_machine())


def sessions_elsewhere(folder: Path, store: Path) -> list[SessionVersion]:
    """Return the sessions of a store as it last published them to other DESTs."""
    found: list[SessionVersion] = []
    for other in sorted(folder.parent.glob("*/state")):
        if other.parent != folder:
            state = load_state(other.parent)
            found += state.sessions if state.store == str(store) else []
    return found


def save_state(folder: Path, state: State) -> None:
    """Save the state, unless it is saved already: a write waits for the disk."""
    content, path = ENCODER.encode(state), folder / "state"
    with suppress(OSError):
        if path.read_bytes() == content:
            return
    write_atomic(path, content)


@contextmanager
def only_sync(folder: Path, dest: str) -> Generator[None]:
    """Lock DEST for this machine; raise `Conflict` if another sync with it is running."""
    secure_folder(folder)
    descriptor = open_private(folder / "lock", os.O_RDWR | os.O_CREAT)
    try:
        try:
            lock(descriptor, wait=False)
        except BlockingIOError as error:
            raise Conflict(f"another sync with {dest} is running", "sleep 10") from error
        yield
    finally:
        os.close(descriptor)
