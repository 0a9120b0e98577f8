"""Where machines meet: a place with immutable files, each in one of three folders.

A transport lists, reads, writes and removes files by name; it need not replace, lock or rename
anything that others can see.
"""

import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from turnlog.errors import Unavailable, UsageError

FOLDERS = ("packs", "manifests", "keys")
VALID = re.compile(
    r"(packs|keys)/[0-9a-f]{64}|manifests/[0-9a-f]{32}\.[0-9]{12}\.[0-9a-f]{64}", re.ASCII
)
"""Names of files at DEST; everything else there is ignored."""
LAST_LINES = 3


class Transport(Protocol):
    """A place that several machines can reach."""

    def list(self) -> dict[str, int]:
        """Return the names of all files with their sizes."""
        ...

    def read(self, name: str, limit: int) -> bytes:
        """Return a file; raise `Damaged` if it is missing or larger than `limit`."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Create a file; nobody ever sees a part of it under its name."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; those that do not exist are ignored."""
        ...

    def finish(self) -> None:
        """Make everything written so far visible to others."""
        ...


def is_valid(name: str) -> bool:
    """Return whether turnlog would have given a file at DEST this name."""
    return VALID.fullmatch(name) is not None


def run_program(arguments: Sequence[str], given: bytes = b"", **options: object) -> bytes:
    """Run a program and return its output; raise `Unavailable` with its last words if it fails."""
    if shutil.which(arguments[0]) is None:
        raise Unavailable(f"{arguments[0]} is not installed", f"apt install {arguments[0]}")
    done = subprocess.run(list(arguments), input=given, capture_output=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        raise Unavailable(f"{arguments[0]} failed: {last_words(done.stderr)}")
    return done.stdout


def last_words(stderr: bytes) -> str:
    """Return the last lines that a program wrote to stderr, as one line."""
    lines = stderr.decode(errors="replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return "; ".join(said[-LAST_LINES:]) or "no message"


def open_transport(dest: str, folder: Path) -> Transport:
    """Return the transport for DEST; `folder` is for its own files, such as a clone."""
    kind, _, rest = dest.partition(":")
    if kind == "ssh":
        from turnlog.exchange.ssh_transport import SshTransport

        return SshTransport(*_host_and_path(dest, rest))
    if kind == "rclone":
        from turnlog.exchange.rclone_transport import RcloneTransport

        return RcloneTransport(_remote(dest, rest))
    if kind == "git" and not rest.startswith("//"):
        from turnlog.exchange.git_transport import GitTransport

        return GitTransport(_url(dest, rest), folder / "git")
    if "://" in dest or dest.endswith(".git") or _is_bare_repository(Path(dest)):
        from turnlog.exchange.git_transport import GitTransport

        return GitTransport(_url(dest, dest), folder / "git")
    from turnlog.exchange.directory_transport import DirectoryTransport

    return DirectoryTransport(Path(dest).expanduser().absolute())


def canonical_dest(dest: str) -> str:
    """Return DEST in the form by which its state is found again from any directory."""
    kind, colon, _ = dest.partition(":")
    is_remote = (colon and kind in ("ssh", "rclone", "git")) or "://" in dest
    return dest if is_remote else str(Path(dest).expanduser().absolute())


def _host_and_path(dest: str, rest: str) -> tuple[str, str]:
    host, _, path = rest.partition(":")
    # `ssh:-oProxyCommand=x:y` would otherwise be an option that runs a program.
    if not host or not path or host.startswith("-"):
        raise UsageError(f"{dest!r} is not ssh:HOST:PATH", "turnlog sync-with ssh:desk:sessions")
    return host, path


def _remote(dest: str, rest: str) -> str:
    name, colon, path = rest.partition(":")
    # `:local,…:` is rclone's syntax for a backend with options, which can run programs.
    if not colon or not path or not re.fullmatch(r"\w[\w .+@-]*", name, re.ASCII):
        hint = "turnlog sync-with rclone:gdrive:sessions"
        raise UsageError(f"{dest!r} is not rclone:REMOTE:PATH", hint)
    return rest


def _url(dest: str, rest: str) -> str:
    if not rest or rest.startswith("-"):
        hint = "turnlog sync-with git:git@example.org:ada/sessions.git"
        raise UsageError(f"{dest!r} is not git:URL", hint)
    return rest


def _is_bare_repository(path: Path) -> bool:
    return all((path / name).exists() for name in ("HEAD", "objects", "refs"))
