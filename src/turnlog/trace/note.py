"""Write notes: one file per hook call and route, kept in the spool until it is delivered.

A note contains everything its delivery depends on, so no sender ever reads its own environment.
The client waits for the hook: this module imports only modules that Python has already loaded.
"""

import os
import time

from turnlog.format.private_files import secure_folder
from turnlog.store.directories import data_directory

# Type checkers treat this name as true; `typing` itself would take too long to import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SUFFIX = ".note"
FAMILY = b"turnlog-note "
"""The prefix of every note format except the first, which had no route."""
MAGIC = FAMILY + b"2\0"
END = b"\0\0"
"""Separates fields and payload: neither arguments nor variables can contain a NUL."""


def spool_folder(environment: "Mapping[str, str]" = os.environ) -> str:
    """Return the folder where notes wait for a sender."""
    return os.path.join(data_directory(environment), "trace", "spool")


def leave_note(folder: str, fields: "Mapping[str, str]", payload: bytes) -> None:
    """Write a note atomically: the fields of its route, and the JSON payload of the hook."""
    leave_notes(folder, [fields], payload)


def leave_notes(folder: str, routes: "Sequence[Mapping[str, str]]", payload: bytes) -> None:
    """Write a note for each route of a hook call; all notes have the time of the call."""
    now = time.time_ns()
    for rank, fields in enumerate(routes):
        pairs = (f"{name}={value}" for name, value in fields.items())
        head = "\0".join(pairs).encode("utf-8", "surrogateescape")
        name = f"{now:020}-{os.getpid()}{f'-{rank}' if rank else ''}{SUFFIX}"
        write_private(os.path.join(folder, name), MAGIC + head + END + payload)


def split_note(raw: bytes) -> "tuple[dict[str, str], bytes] | None":
    """Return the fields and the payload of a note; None if its format is unknown."""
    if not raw.startswith(MAGIC):
        return None
    head, _, payload = raw[len(MAGIC) :].partition(END)
    pairs = (field.partition("=") for field in head.decode("utf-8", "surrogateescape").split("\0"))
    return {name: value for name, _, value in pairs}, payload


def write_private(path: str, content: bytes) -> None:
    """Write a small private file atomically."""
    folder, name = os.path.split(path)
    secure_folder(folder, must_own=True)  # a note may contain a credential
    partial = os.path.join(folder, f".{name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(partial, flags, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    os.rename(partial, path)
