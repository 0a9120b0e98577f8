"""Find the transport for a DEST as the user writes it."""

import re
from pathlib import Path

from turnlog.errors import UsageError
from turnlog.exchange.directory_transport import DirectoryTransport
from turnlog.exchange.git_transport import GitTransport
from turnlog.exchange.rclone_transport import RcloneTransport
from turnlog.exchange.ssh_transport import SshTransport
from turnlog.exchange.transports import Transport
from turnlog.store.paths import expand_user

HOST = re.compile(r"[\w.@-]{2,}:", re.ASCII)


def open_transport(dest: str, folder: Path) -> Transport:
    """Return the transport for DEST; `folder` is for its own files, such as a clone."""
    kind, _, rest = dest.partition(":")
    if kind == "ssh" and not rest.startswith("//"):
        return SshTransport(*_host_and_path(dest, rest))
    if kind == "rclone":
        return RcloneTransport(_remote(dest, rest))
    if kind == "git" and not rest.startswith("//"):
        return GitTransport(_url(dest, rest), folder / "git")
    path = _local_path(dest)
    if "://" in dest or dest.endswith(".git") or _is_bare_repository(path):
        return GitTransport(_url(dest, dest if "://" in dest else str(path)), folder / "git")
    return DirectoryTransport(path)


def _local_path(dest: str) -> Path:
    if not dest:
        raise UsageError("DEST is empty", "turnlog sync-with DIR")
    path = expand_user(dest).absolute()
    # `desk:sessions` is a host for scp and rsync: a directory of that name would reach nobody.
    if "://" not in dest and HOST.match(dest) and not path.exists():
        raise UsageError(f"{dest!r} is not a directory", f"turnlog sync-with ssh:{dest}")
    return path


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
