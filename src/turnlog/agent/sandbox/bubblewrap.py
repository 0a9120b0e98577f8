"""Shell commands in a sandbox: bubblewrap lets them write only where work may be done."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from turnlog.agent.permissions.paths import PROTECTED_FILES, PROTECTED_FOLDERS
from turnlog.agent.sandbox.confinement import NO_HOSTS, Confinement
from turnlog.errors import UsageError

KEPT_IN_GIT = (Path(".git", "hooks"), Path(".git", "config"))
"""What of a repository stays as it is; the rest of it changes with each commit."""
MISSING = "the settings ask for a sandbox, and bwrap is missing"
HINT = "install bubblewrap"
NOTHING = "/dev/null"


class Mount(Struct, frozen=True, order=True):
    """What becomes of a path; those of the paths above it come first."""

    depth: int
    rank: int
    """Of several for one path, the strictest comes last."""
    options: tuple[str, ...]


def in_sandbox(
    argv: Sequence[str], rules: Confinement, folders: Iterable[Path], temporary: Path
) -> Sequence[str]:
    """The command line that runs another in a sandbox, if the settings ask for one.

    Where bubblewrap is missing the command runs without it, unless that would let it see or reach
    what the settings keep from it.
    """
    if not rules.is_on:
        return argv
    program = shutil.which(rules.program)
    if program:
        return [program, *_options(rules, folders, temporary), "--", *argv]
    if rules.is_required or rules.guards:
        raise UsageError(MISSING, HINT)
    return argv


def sandbox_notes(rules: Confinement) -> list[str]:
    """What the user should know of it; a sandbox that is required and missing is an error."""
    if not rules.is_on:
        return []
    notes = [NO_HOSTS] if rules.filters_hosts else []
    if not shutil.which(rules.program):
        if rules.is_required:
            raise UsageError(MISSING, HINT)
        then = "no command is run" if rules.guards else "commands run without one"
        notes.append(f"{MISSING}: {then} ({HINT})")
    return notes


def _options(rules: Confinement, folders: Iterable[Path], temporary: Path) -> list[str]:
    """All can be read, little be written, and there is no network unless all of it is allowed."""
    places = _Places(rules, [*folders, temporary])
    return [
        *"--die-with-parent --new-session --unshare-pid --unshare-ipc --unshare-uts".split(),
        *([] if rules.is_online else ["--unshare-net"]),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *(option for mount in sorted(places.mounts()) for option in mount.options),
        *(part for path in places.emptied for part in ("--remount-ro", str(path))),
        *("--setenv", "TMPDIR", str(temporary)),
        *(part for name in rules.variables for part in ("--unsetenv", name)),
    ]


class _Places:
    """The paths of a sandbox, as they are on the disk now."""

    def __init__(self, rules: Confinement, folders: Iterable[Path]) -> None:
        self._locked = _found(rules.unwritable)
        self._hidden = _found(rules.hidden)
        self._shown = _found(rules.shown)
        named = [*folders, *_found(rules.writable)]
        real = [path.resolve() for path in named]
        self._writable = [path for path in real if not _is_in(path, self._locked)]
        self._kept = _kept(self._writable)
        self.emptied = [path for path in self._hidden if path.is_dir()]

    def mounts(self) -> Iterator[Mount]:
        for path in filter(self._is_seen, self._writable):
            yield _mount(path, 0, "--bind-try", path)
        for path in filter(self._is_seen, self._shown):
            yield _mount(path, 1, "--bind" if self._is_writable(path) else "--ro-bind", path)
        for path in filter(self._is_seen, [*self._kept, *self._locked]):
            yield _mount(path, 2, "--ro-bind", path)
        for path in self._hidden:
            is_folder = path in self.emptied
            yield _mount(path, 3, "--tmpfs") if is_folder else _mount(path, 3, "--ro-bind", NOTHING)

    def _is_seen(self, path: Path) -> bool:
        """Whether it may be read: what is said of it, else of the nearest path above it."""
        for place in (path, *path.parents):
            if place in self._hidden:
                return False
            if place in self._shown:
                return True
        return True

    def _is_writable(self, path: Path) -> bool:
        return _is_in(path, self._writable) and not _is_in(path, [*self._locked, *self._kept])


def _is_in(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _mount(path: Path, rank: int, option: str, source: Path | str = "") -> Mount:
    given = (str(source), str(path)) if source else (str(path),)
    return Mount(len(path.parts), rank, (option, *given))


def _found(patterns: Iterable[str]) -> list[Path]:
    """The files that patterns name, where links lead to."""
    named = [path for each in patterns for path in _matches(each)]
    return list(dict.fromkeys(path.resolve() for path in named if path.exists()))


def _matches(pattern: str) -> Iterable[Path]:
    has_choice = any(mark in pattern for mark in "*?[")
    return Path("/").glob(pattern.lstrip("/")) if has_choice else [Path(pattern)]


def _kept(folders: Iterable[Path]) -> list[Path]:
    """What is there in writable folders and must not change: settings, and what git runs."""
    names = [Path(name) for name in sorted(PROTECTED_FILES | PROTECTED_FOLDERS - {".git"})]
    places = [folder / name for folder in folders for name in (*KEPT_IN_GIT, *names)]
    return [place.resolve() for place in places if place.exists()]
