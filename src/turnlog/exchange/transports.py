"""Transports: access to DEST, the immutable files in three folders that machines share.

A transport lists, reads, writes and removes files by name; it need not replace, lock or rename
anything that others can see.
"""

import re
import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from threading import Thread
from typing import IO, Protocol

from turnlog.errors import Unavailable
from turnlog.secrets import mask
from turnlog.store.paths import expand_user

FOLDERS = ("packs", "manifests", "keys")
VALID = re.compile(
    r"(packs|keys)/[0-9a-f]{64}|manifests/[0-9a-f]{32}\.[0-9]{12}\.[0-9a-f]{64}", re.ASCII
)
"""Names of files at DEST; everything else there is ignored."""
LAST_LINES = 3
LONGEST_END = 1 << 16
"""Bytes to keep from the end of a program's stderr."""


class Transport(Protocol):
    """Access to the files at a DEST."""

    def list(self) -> dict[str, int]:
        """Return the names of all files with their sizes."""
        ...

    def read(self, name: str, limit: int) -> bytes:
        """Return a file; raise `Damaged` if it is missing or larger than `limit`."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Create a file atomically: nobody sees a partial file under its name."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; those that do not exist are ignored."""
        ...

    def finish(self) -> None:
        """Make everything written so far visible to others."""
        ...


def is_valid(name: str) -> bool:
    """Return whether a name is one that turnlog gives to files at DEST."""
    return VALID.fullmatch(name) is not None


def run_program(
    arguments: Sequence[str],
    given: bytes = b"",
    limit: int | None = None,
    ignored: Collection[int] = (),
    environment: Mapping[str, str] | None = None,
    hint: str | None = None,
) -> bytes:
    """Run a program and return its output, or its first `limit` bytes.

    Raise `Unavailable` with the end of its stderr if it fails; return empty output if its exit code
    is in `ignored`. `hint` is a command that shows the user what is wrong.
    """
    if shutil.which(arguments[0]) is None:
        raise Unavailable(f"{arguments[0]} is not installed", f"apt install {arguments[0]}")
    pipe = subprocess.PIPE
    with subprocess.Popen(
        list(arguments),
        stdin=pipe if limit is None else subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        env=environment,
    ) as process:
        if limit is None:
            output, errors = process.communicate(given)
        else:
            # A hostile host could send without end.
            output, errors = _read_some(process, limit)
    is_cut = limit is not None and len(output) == limit
    if process.returncode in ignored:
        return b""
    if process.returncode and not is_cut:
        raise Unavailable(f"{arguments[0]} failed: {last_words(errors)}", hint)
    return output


def _read_some(process: "subprocess.Popen[bytes]", limit: int) -> tuple[bytes, bytes]:
    assert process.stdout is not None
    assert process.stderr is not None
    errors = bytearray()
    # Read stderr concurrently: a program that fills its pipe would wait for us to read stderr,
    # while we wait for its output.
    reader = Thread(target=_read_end, args=(process.stderr, errors))
    reader.start()
    output = process.stdout.read(limit)
    if len(output) == limit:
        process.kill()
    reader.join()
    return output, bytes(errors)


def _read_end(stream: IO[bytes], kept: bytearray) -> None:
    """Read a stream to its end, keeping only the last `LONGEST_END` bytes."""
    while chunk := stream.read(LONGEST_END):
        kept += chunk
        del kept[:-LONGEST_END]


def last_words(stderr: bytes) -> str:
    """Return the last lines of a program's stderr as one line."""
    lines = stderr.decode(errors="replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return mask("; ".join(said[-LAST_LINES:])) or "no message"


def canonical_dest(dest: str) -> str:
    """Return DEST with a local path made absolute, to find its state from any directory."""
    kind, colon, _ = dest.partition(":")
    is_remote = (colon and kind in ("ssh", "rclone", "git")) or "://" in dest
    return dest if is_remote else str(expand_user(dest).absolute())
