"""Parse DEST, open its transport and check that it is initialized."""

import re
from pathlib import Path
from shlex import quote

from turnlog.errors import Conflict, NotFound, UsageError
from turnlog.exchange.directory_transport import DirectoryTransport
from turnlog.exchange.git_transport import BRANCH_NAME, GitTransport
from turnlog.exchange.rclone_transport import RcloneTransport
from turnlog.exchange.ssh_transport import SshTransport
from turnlog.exchange.transports import FOLDERS, Transport
from turnlog.secrets import mask
from turnlog.store.paths import expand_user
from turnlog.store.worktrees import branch_of, exclude_file, root_of

HOST = re.compile(r"[\w.@-]{2,}:", re.ASCII)
JUNK = frozenset({"lost+found", "System Volume Information", "$RECYCLE.BIN"})
"""Entries of an empty file system. Like hidden files except `.git`, they are ignored."""


def open_transport(dest: str, folder: Path) -> Transport:
    """Return the transport for DEST; `folder` holds its local files, such as a clone."""
    kind, _, rest = dest.partition(":")
    if kind == "ssh" and not rest.startswith("//"):
        return SshTransport(*_host_and_path(dest, rest))
    if kind == "rclone":
        return RcloneTransport(_remote(dest, rest))
    if kind == "git" and not rest.startswith("//"):
        return GitTransport(_url(dest, rest), folder / "git")
    path = _local_path(dest)
    # A bare repository is also a directory, but files copied into it would be in no commit.
    if "://" in dest or dest.endswith(".git") or _is_bare_repository(path):
        return GitTransport(_url(dest, dest if "://" in dest else str(path)), folder / "git")
    _require_no_checkout(path)
    return DirectoryTransport(path)


def _require_no_checkout(path: Path) -> None:
    """Raise `Conflict` for a worktree of a git DEST: it looks like DEST, but is a copy of it."""
    if branch_of(path) == BRANCH_NAME:
        shown = quote(str(path))
        hint = f"git -C {shown} switch --detach && turnlog sync-with git:{shown}"
        raise Conflict(f"{path} is a git worktree: files written there would be in no commit", hint)


def initialize(transport: Transport, dest: str, may_start: bool, is_dry_run: bool) -> list[str]:
    """Raise an error if DEST is new and `may_start` is False; return notes for the user."""
    if transport.list():
        return []
    shown = quote(mask(dest))
    root = transport.root if isinstance(transport, DirectoryTransport) else None
    if root is not None:
        _require_unused(root)
    # A typo, and the mount point of a share that is not mounted, look like a new DEST.
    if not may_start:
        exists = root is None or root.exists()
        problem = "has no sessions of turnlog yet" if exists else "does not exist"
        raise NotFound(f"{shown} {problem}", f"turnlog sync-with {shown} --init")
    if root is None:
        return [f"{'would start' if is_dry_run else 'starting'} at {shown}"]
    if not root.parent.is_dir():
        raise NotFound(f"{root.parent} does not exist", f"mkdir -p {quote(str(root.parent))}")
    start, create = ("would start", "would create") if is_dry_run else ("starting", "creating")
    found = [f"{start} in {shown}" if root.exists() else f"{create} {shown}"]
    if repository := root_of(root.resolve()):
        # `git add .` would commit every conversation, and `git push` publish it.
        below = quote(f"/{root.resolve().relative_to(repository)}/")
        exclude = quote(str(exclude_file(repository)))
        found.append(f"{shown} is in a git repository (try: echo {below} >> {exclude})")
    return found


def _require_unused(root: Path) -> None:
    """Raise `Conflict` if a directory contains files that are not turnlog's."""
    entries = [entry.name for entry in root.iterdir()] if root.is_dir() else []
    other = {name for name in entries if name == ".git" or not name.startswith(".")}
    if other - JUNK - set(FOLDERS):
        hint = f"turnlog sync-with {quote(str(root / 'turnlog'))} --init"
        raise Conflict(f"{root} has other files, and no sessions of turnlog", hint)


def _local_path(dest: str) -> Path:
    if not dest:
        raise UsageError("DEST is empty", "turnlog sync-with DIR")
    path = expand_user(dest).absolute()
    # scp and rsync read `desk:sessions` as a host and a path; a new directory of that name would
    # be a DEST that no other machine reaches.
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
