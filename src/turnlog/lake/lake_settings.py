"""Settings of the lake: `[lake]` in the configuration, and the identity of this machine.

```toml
[lake]
dest = "s3://team/lake"
with = ["paths"]
names = "hash"             # or "plain"
key = "~/team.key"         # the key of all hashes, the same for all machines
user = "ada"
host = "desk"
```
"""

import getpass
import os
import socket
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from turnlog.errors import UsageError
from turnlog.format.atomic import write_atomic
from turnlog.format.json_values import is_array
from turnlog.format.private_files import secure_folder
from turnlog.format.regular_files import read_regular
from turnlog.lake.lake_names import LakeNames
from turnlog.lake.lake_schema import CONSENTS
from turnlog.store.configuration import configuration_file, read_section
from turnlog.store.directories import data_directory
from turnlog.store.paths import expand_user

SHORTEST_KEY = 16
LARGEST_KEY = 4096
"""Bytes of the shortest and the longest key."""


class LakeMachine(Struct):
    """The identity of a machine: random, so it reveals nothing about the machine."""

    id: str
    secret: bytes
    """Key of the ids of its files and stores."""
    names_key: bytes
    """Key of hashed names, unless the user configures one."""


@dataclass(frozen=True)
class LakeSettings:
    """Settings of pushes: destination, consents and names."""

    dest: str | None = None
    consents: frozenset[str] = frozenset()
    is_hashed: bool = False
    key: Path | None = None
    user: str | None = None
    host: str | None = None


def encode_settings(settings: LakeSettings) -> bytes:
    """Encode settings for the push state; the key itself stays in its file."""
    return msgspec.json.encode(settings, enc_hook=str)


def decode_settings(content: bytes) -> LakeSettings:
    """Decode settings from the push state."""
    return msgspec.json.decode(content, type=LakeSettings, dec_hook=lambda _, text: Path(text))


def lake_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder with the identity of this machine and the state of its pushes."""
    return Path(data_directory(environment)) / "lake"


def this_machine(environment: Mapping[str, str] = os.environ) -> LakeMachine:
    """Return the identity of this machine; create it on first use."""
    path = lake_folder(environment) / "machines"
    # A home directory may be shared by several machines, or be copied to another one. Two machines
    # with one id would take each other's sessions for deleted.
    place = _fingerprint()
    known: dict[str, LakeMachine] = {}
    with suppress(OSError, msgspec.MsgspecError):
        known = msgspec.msgpack.decode(path.read_bytes(), type=dict[str, LakeMachine])
    if place not in known:
        # The secret is what makes ids of files meaningless to others.
        secure_folder(path.parent)
        known[place] = LakeMachine(os.urandom(8).hex(), os.urandom(32), os.urandom(32))
        write_atomic(path, msgspec.msgpack.encode(known))
    return known[place]


def _fingerprint() -> str:
    with suppress(OSError):
        if found := Path("/etc/machine-id").read_text("utf-8").strip():
            return found
    return f"{uuid.getnode():x}"


def read_settings(environment: Mapping[str, str] = os.environ) -> LakeSettings:
    """Return the settings of the configuration; raise `UsageError` if they are not valid."""
    file = configuration_file(environment)
    table = read_section("lake", file)
    known = {"dest", "with", "names", "key", "user", "host"}
    for name in table:
        if name not in known:
            raise _not_valid(file, f"[lake] has no setting {name}")
    for name in known - {"with"}:
        if not isinstance(table.get(name, ""), str):
            raise _not_valid(file, f"{name} of [lake] is not a string")
    if table.get("names", "plain") not in ("plain", "hash"):
        raise _not_valid(file, 'names of [lake] is neither "plain" nor "hash"')
    listed: Any = table.get("with", [])
    if not is_array(listed) or not all(isinstance(each, str) for each in listed):
        raise _not_valid(file, 'with of [lake] is not a list, such as ["paths"]')
    key = table.get("key")
    return LakeSettings(
        dest=table.get("dest"),
        consents=parse_consents(listed),
        is_hashed=table.get("names") == "hash",
        key=file.parent / expand_user(key) if key else None,
        user=table.get("user"),
        host=table.get("host"),
    )


def parse_consents(words: Sequence[str]) -> frozenset[str]:
    """Parse the words of `--with`; raise `UsageError` for an unknown one."""
    found = [part.strip() for word in words for part in word.split(",")]
    for each in found:
        if each not in CONSENTS:
            hint = f"turnlog lake push DEST --with {CONSENTS[0]}"
            raise UsageError(f"--with {each}: choose from {', '.join(CONSENTS)}", hint)
    return frozenset(found)


def names_for(settings: LakeSettings, machine: LakeMachine) -> LakeNames:
    """Return the names under which this machine pushes."""
    key = machine.names_key if settings.key is None else read_key(settings.key)
    user = settings.user or _user()
    host = settings.host or socket.gethostname().partition(".")[0] or None
    return LakeNames(key, user, host, settings.consents, settings.is_hashed)


def read_key(path: Path) -> bytes:
    """Return the key in a file; raise `UsageError` if it is too short to be one."""
    make = f"head -c 32 /dev/urandom | base64 > {path}"
    try:
        found = read_regular(path, LARGEST_KEY).strip()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the key {path}", make) from error
    if len(found) < SHORTEST_KEY:
        raise UsageError(f"{path} has fewer than {SHORTEST_KEY} bytes, too few for a key", make)
    return found


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without users
        return None


def _not_valid(file: Path, reason: str) -> UsageError:
    return UsageError(f"{file}: {reason}", f"$EDITOR {file}")
