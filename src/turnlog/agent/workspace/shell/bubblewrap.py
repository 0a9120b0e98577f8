"""Run shell commands in a bubblewrap sandbox that is read-only outside the working directories.

Commands that were allowed by the analysis alone always run in a sandbox if one works here. Those
that read cannot write at all, those that edit can write only in the working directories, and
neither can reach the network.
"""

import os
import subprocess
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from turnlog.agent.sandbox.seccomp import filtered
from turnlog.agent.workspace.access import (
    PROTECTED_FILES,
    PROTECTED_FOLDERS,
    PROTECTED_PATHS,
    REPOSITORIES,
    Basis,
)
from turnlog.agent.workspace.shell.command_environment import CONFINED, find_program
from turnlog.agent.workspace.shell.sandbox_settings import NO_HOSTS, Confinement, is_pattern
from turnlog.errors import UsageError
from turnlog.store.paths import is_there, real_path

KEPT_IN_REPOSITORIES = (
    *(
        Path(".git", name)
        for name in ("hooks", "config", "config.worktree", "commondir", "info", "modules")
    ),
    *map(Path, (".hg/hgrc", ".hg/sharedpath", ".jj/repo/config.toml")),
)
"""Read-only parts of a repository; the rest changes with each commit."""
MISSING = "the settings require a sandbox, but bwrap is not installed"
HINT = "apt install bubblewrap"
NOTHING = "/dev/null"
MEMORY = Path("/dev/shm")
"""A private in-memory folder of the sandbox: here-documents and `sort` need temporary files."""
FAILURE = "bwrap: "
"""Prefix of bubblewrap's error messages."""
PATIENCE = 5.0
DEPTHS = "**"
MOST_ENTRIES = 50_000
"""Maximum files and directories visited for all patterns of a command."""
MOST_MATCHES = 1_000
"""Maximum matches of all patterns: each is a mount and a part of the command line."""
WITHOUT_FILES = ("/proc", "/sys", "/dev")
"""Directories that patterns do not enter; bubblewrap creates fresh mounts for two of them."""
# Root keeps the capabilities to read or write files of other users. Without CAP_SYS_ADMIN it
# cannot remount the file system as writable.
READING_ROOT = ("--cap-add", "CAP_DAC_READ_SEARCH")
WRITING_ROOT = tuple(
    part for name in ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER") for part in ("--cap-add", name)
)


class Mount(Struct, frozen=True, order=True):
    """A mount of the sandbox; parents are mounted first."""

    depth: int
    rank: int
    """Orders mounts of the same path: the strictest comes last."""
    options: tuple[str, ...]


def wrapper_of(
    basis: Basis, rules: Confinement, folders: Iterable[Path], temporary: Path
) -> tuple[str, ...]:
    """Return the prefix that runs a command in a sandbox; empty if it runs without one.

    The stricter of the settings and the basis applies. Without bubblewrap, a command runs
    unsandboxed, unless it could then use something that the settings deny.
    """
    places = list(folders)
    if not rules.is_on:
        program = find_program(rules.program, places) if basis in CONFINED else None
        if program is None or not is_working(program):
            return ()
        return (program, *_narrow_options(basis, rules, places), "--")
    program = find_program(rules.program, places)
    if program is None:
        if rules.is_required or rules.guards:
            raise UsageError(MISSING, HINT)
        return ()
    if basis in CONFINED:
        return (program, *_narrow_options(basis, rules, places), "--")
    return (program, *_options(rules, places, temporary), "--")


@lru_cache(maxsize=8)
def is_working(program: str) -> bool:
    """Return whether bubblewrap can start a command here; containers often forbid namespaces."""
    options = _narrow_options(Basis.UNDERSTOOD, Confinement(), [])
    try:
        with filtered([program, *options]) as (wrapper, filters):
            done = subprocess.run(
                [*wrapper, "--", "/bin/sh", "-c", ":"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=PATIENCE,
                pass_fds=filters,
            )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def sandbox_notes(rules: Confinement) -> list[str]:
    """Return messages about the sandbox; raise if it is required and missing."""
    if not rules.is_on:
        return []
    notes = [NO_HOSTS] if rules.filters_hosts else []
    if not find_program(rules.program):
        if rules.is_required:
            raise UsageError(MISSING, HINT)
        then = "no command is run" if rules.guards else "commands run without one"
        notes.append(f"{MISSING}: {then} (try: {HINT})")
    return notes


def _narrow_options(basis: Basis, rules: Confinement, folders: list[Path]) -> list[str]:
    """Return the options for an unconfirmed command, ignoring settings that would allow more."""
    narrow = replace(rules, writable=(), is_online=False)
    return _options(narrow, folders if basis is Basis.EDITS else [], MEMORY)


def _options(rules: Confinement, folders: list[Path], temporary: Path) -> list[str]:
    """Return the arguments of a sandbox: read-only except for some paths, no network by default."""
    places = _Places(rules, folders if temporary == MEMORY else [*folders, temporary])
    return [
        *"--die-with-parent --new-session --unshare-pid --unshare-ipc --unshare-uts".split(),
        *([] if rules.is_online else ["--unshare-net"]),
        *_capabilities(bool(folders)),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        # Root owns its files, and `core_pattern` names a program that the kernel runs outside.
        *("--ro-bind", "/proc/sys", "/proc/sys"),
        *(option for mount in sorted(places.mounts()) for option in mount.options),
        *(part for path in places.emptied for part in ("--remount-ro", str(path))),
        *("--setenv", "TMPDIR", str(temporary)),
    ]


def _capabilities(is_writing: bool) -> tuple[str, ...]:
    added = WRITING_ROOT if is_writing else READING_ROOT
    return ("--cap-drop", "ALL", *(added if os.geteuid() == 0 else ()))


class _Places:
    """The paths in the rules of a sandbox, resolved on disk."""

    def __init__(self, rules: Confinement, folders: Iterable[Path]) -> None:
        finder = _Finder()
        self._locked = finder.find(rules.unwritable)
        self._hidden = finder.find(rules.hidden)
        self._shown = finder.find(rules.shown)
        named = [*folders, *finder.find(rules.writable)]
        real = [real_path(path) for path in named]
        self._writable = [path for path in real if not _is_in(path, self._locked)]
        self._protected = _protected(self._writable)
        self.emptied = [path for path in self._hidden if path.is_dir()]

    def mounts(self) -> Iterator[Mount]:
        for path in filter(self._is_visible, self._writable):
            yield _mount(path, 0, "--bind-try", path)
            # A mount point cannot be renamed, so no other repository can take its place.
            if (path / ".git").is_dir():
                yield _mount(path / ".git", 0, "--bind-try", path / ".git")
        for path in filter(self._is_visible, self._shown):
            yield _mount(path, 1, "--bind" if self._is_writable(path) else "--ro-bind", path)
        for path in filter(self._is_visible, [*self._protected, *self._locked]):
            yield _mount(path, 2, "--ro-bind", path)
        for path in self._hidden:
            is_folder = path in self.emptied
            yield _mount(path, 3, "--tmpfs") if is_folder else _mount(path, 3, "--ro-bind", NOTHING)

    def _is_visible(self, path: Path) -> bool:
        """Return whether a path is visible, by the rule for it or for its nearest parent."""
        for place in (path, *path.parents):
            if place in self._hidden:
                return False
            if place in self._shown:
                return True
        return True

    def _is_writable(self, path: Path) -> bool:
        return _is_in(path, self._writable) and not _is_in(path, [*self._locked, *self._protected])


def _is_in(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _mount(path: Path, rank: int, option: str, source: Path | str = "") -> Mount:
    given = (str(source), str(path)) if source else (str(path),)
    return Mount(len(path.parts), rank, (option, *given))


class _Finder:
    """Expands patterns on disk; the work is limited, because every command waits for it."""

    def __init__(self) -> None:
        self._room = MOST_ENTRIES

    def find(self, patterns: Iterable[str]) -> list[Path]:
        """Return the files that patterns match, with links resolved."""
        found: dict[Path, None] = {}
        for pattern in patterns:
            named = self._matches(pattern) if is_pattern(pattern) else [Path(pattern)]
            for path in filter(is_there, named):
                found[real_path(path)] = None
                if len(found) > MOST_MATCHES:
                    raise _too_many(pattern)
        return list(found)

    def _matches(self, pattern: str) -> Iterator[Path]:
        # Normalized, because `..` after a star would visit the same directories again and again.
        pending = [(Path("/"), Path(os.path.normpath(pattern)).parts[1:])]
        while pending:
            folder, parts = pending.pop()
            if not parts or parts == (DEPTHS,):  # a folder stands for all that is below it
                yield folder
                continue
            first, rest = parts[0], parts[1:]
            if first == DEPTHS:
                pending.append((folder, rest))
                inner = [each for each in self._entries(folder, pattern) if _is_folder(each)]
                pending += [(Path(each.path), parts) for each in inner]
            elif is_pattern(first):
                named = [e for e in self._entries(folder, pattern) if fnmatchcase(e.name, first)]
                pending += [(Path(each.path), rest) for each in named]
            else:
                pending.append((folder / first, rest))

    def _entries(self, folder: Path, pattern: str) -> "list[os.DirEntry[str]]":
        try:
            with os.scandir(folder) as entries:
                found = list(islice(entries, self._room + 1))
        except (OSError, ValueError):  # the folder is missing or cannot be read
            found = []
        self._room -= len(found) + 1
        if self._room < 0:
            raise _too_many(pattern)
        return [entry for entry in found if entry.path not in WITHOUT_FILES]


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _too_many(pattern: str) -> UsageError:
    # Skipping some of them would expose files that the pattern should hide.
    return UsageError(f"the sandbox pattern {pattern} matches too many files; name a directory")


def _protected(folders: Iterable[Path]) -> list[Path]:
    """Return the paths in writable directories that stay read-only: settings and git's hooks."""
    protected = PROTECTED_FILES | PROTECTED_PATHS | PROTECTED_FOLDERS - REPOSITORIES
    names = [Path(name) for name in sorted(protected)]
    places = [folder / name for folder in folders for name in (*KEPT_IN_REPOSITORIES, *names)]
    # The `.git` of a linked work tree is a file: `gitdir: evil` would redirect it.
    places += [folder / ".git" for folder in folders if (folder / ".git").is_file()]
    return [place.resolve() for place in places if place.exists()]
