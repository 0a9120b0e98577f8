"""Find the files that a profile hides or locks on disk, under every name that leads to them.

A file can be reached by its name, by other hard links, by other mounts of its file system, and, for
what was once committed, through git's objects.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct, field

from turnlog.agent.workspace.programs import find_program, search_path
from turnlog.agent.workspace.project_directories import project_root
from turnlog.agent.workspace.repository import git_folder, repository_of
from turnlog.agent.workspace.sandbox.patterns import PathPattern, matcher
from turnlog.agent.workspace.sandbox.profile import Profile
from turnlog.agent.workspace.sandbox.protected import GIT_PARTS, protected_in
from turnlog.format.regular_files import open_regular
from turnlog.store.paths import real_path

MAX_MASKS = 100
"""Mounts cost quadratic time: 100 take 35 ms, 1,000 take 1.4 s."""
MAX_FILES = 200_000
MAX_SECONDS = 20
GIT = ("-c", "core.fsmonitor=", "-c", "log.showSignature=false", "--no-optional-locks")
HISTORY = (
    "log --all --reflog --name-only --format= -z --no-renames --diff-merges=separate --no-ext-diff"
    " --no-textconv --no-show-signature --diff-filter=A"
).split()
NESTED = frozenset((".claude", ".mcp.json"))
"""Protected names that count at any depth, besides repositories."""
SHELLS = ("bash", "sh")


class TooManyMasks(Exception):
    """The rules hide more files than mounts can cover, or there are too many to search."""


class Masks(Struct, frozen=True):
    """What a sandbox covers; paths are resolved."""

    hidden: tuple[Path, ...] = ()
    locked: tuple[Path, ...] = ()
    """Read-only paths, in writable directories."""
    hides_git: bool = False
    """True if a denied file was once committed, so that git's objects are hidden."""


class Walk(Struct):
    """What a walk through directories found, and how to see that it still holds."""

    hidden: list[Path] = field(default_factory=list[Path])
    locked: list[Path] = field(default_factory=list[Path])
    repositories: list[Path] = field(default_factory=list[Path])
    """Directories with a `.git`."""
    times: dict[str, int] = field(default_factory=dict[str, int])
    """When each directory that was read was last changed."""

    @property
    def is_current(self) -> bool:
        return all(_time(path) == time for path, time in self.times.items())


_WALKS: dict[tuple[object, ...], Walk] = {}
_HISTORIES: dict[tuple[Path, tuple[PathPattern, ...]], frozenset[str]] = {}
"""The tips of repositories whose history has no denied name."""
_CLEAN: dict[tuple[Path, tuple[PathPattern, ...]], tuple[Path, frozenset[tuple[str, int]]]] = {}
"""The git directories of work trees without denied names or content, and when each was written."""
_COMMITTED: set[tuple[Path, tuple[PathPattern, ...]]] = set()
"""Repositories with a denied name: a command may have removed the branch and its log since."""


def find_masks(profile: Profile) -> Masks:
    """Return what to cover for a profile; raise `TooManyMasks` if that is too much."""
    walk, hidden = walk_of(profile), (*profile.hidden, *profile.settings.hidden)
    is_protecting = profile.writes and not profile.is_open
    # A mount over a link covers what it leads to, and is listed under that name.
    covered = [real_path(path) for path in walk.hidden]
    covered += list(_programs(profile.programs)) if profile.programs else []
    closed = [real_path(path) for path in walk.locked]
    if is_protecting:
        closed += protected_in(profile.roots)
        closed += [real_path(r / ".git" / p) for r in walk.repositories for p in GIT_PARTS]
    if not profile.is_unasked and not profile.settings.is_on:
        # The user or a rule allows git to change its own settings, but not to add hooks.
        closed = [each for each in closed if each.name != "config" or ".git" not in each.parts]
    git = list(_git_objects(profile, hidden, walk)) if hidden else []
    covered = _everywhere([each for each in covered if os.path.lexists(each)], walk) + git
    closed = _everywhere([each for each in closed if os.path.exists(each)], walk)  # noqa: PTH110
    found = Masks(_topmost(covered), tuple(dict.fromkeys(closed)), bool(git))
    if (count := len(found.hidden) + len(found.locked)) > MAX_MASKS:
        why = f"rules hide more than {MAX_MASKS} files here ({count}); name a directory"
        raise TooManyMasks(why)
    return found


def walk_of(profile: Profile) -> Walk:
    """Search the directories of a profile, unless nothing in them has changed."""
    hidden = (*profile.hidden, *profile.settings.hidden)
    locked = (*profile.locked, *profile.settings.unwritable) if profile.writes else ()
    is_protecting = profile.writes and not profile.is_open
    places = _places(profile.roots, (*hidden, *locked))
    key = (places, hidden, locked, is_protecting)
    walk = _WALKS.get(key)
    if walk is None or not walk.is_current:
        walk = _WALKS[key] = _search(places, hidden, locked, is_protecting=is_protecting)
    return walk


def _places(roots: tuple[Path, ...], patterns: Iterable[PathPattern]) -> tuple[Path, ...]:
    """Return the directories to search: the roots, and where fixed parts of patterns lead.

    A pattern that starts above the roots with a wildcard (`//**/.env`) counts in the roots only.
    """
    found = [real_path(root) for root in roots]
    for each in patterns:
        start = real_path(each.start)
        if not any(root.is_relative_to(start) for root in found):
            found.append(start)
    return tuple(dict.fromkeys(found))


def _search(
    places: tuple[Path, ...],
    hidden: tuple[PathPattern, ...],
    locked: tuple[PathPattern, ...],
    *,
    is_protecting: bool,
) -> Walk:
    found, hides, locks = Walk(), matcher(hidden), matcher(locked)
    pending, left = [os.fspath(each) for each in places], MAX_FILES
    found.hidden += [place for place in places if hides(str(place))]
    pending = pending if hidden or locked or is_protecting else []
    while pending:
        folder = pending.pop()
        found.times[folder] = _time(folder)
        covered, entries = list[Path](), _entries(folder)
        left -= len(entries)
        if left < 0:
            raise TooManyMasks(f"there are more than {MAX_FILES:,} files to search here")
        for entry in entries:
            path = entry.path
            if hides(path):
                covered.append(Path(path))
                continue
            if locks(path) or (is_protecting and entry.name in NESTED):
                found.locked.append(Path(path))
            if entry.name == ".git":
                found.repositories.append(Path(folder))
            if _is_folder(entry) and not path.endswith("/.git/objects"):
                pending.append(path)
        # A directory with nothing else in it takes one mount.
        is_whole = len(covered) > 1 and len(covered) == len(entries) and Path(folder) not in places
        found.hidden += [Path(folder)] if is_whole else covered
    return found


def _entries(folder: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:  # not a directory, gone, or not readable for the command either
        return []


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _time(path: str) -> int:
    try:
        return os.stat(path).st_ctime_ns  # noqa: PTH116 (of thousands; st_mtime can be set back)
    except OSError:
        return -1


def _everywhere(paths: list[Path], walk: Walk) -> list[Path]:
    """Return paths with their other hard links, and the same files in other mounts."""
    linked = {(s.st_dev, s.st_ino) for p in paths if (s := _status(p)) and s.st_nlink > 1}
    found = list(paths)
    for folder in walk.times if linked else ():
        for entry in _entries(folder):
            is_name = not _is_folder(entry) and not entry.is_symlink()
            state = _status(Path(entry.path)) if is_name else None
            if state and (state.st_dev, state.st_ino) in linked:
                found.append(Path(entry.path))
    mounts = list(_mounts()) if found else []
    for path in list(found):
        found += _in_other_mounts(path, mounts)
    return list(dict.fromkeys(found))


def _status(path: Path) -> os.stat_result | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return None if path.is_dir() else state


def _mounts() -> Iterator[tuple[str, Path, Path]]:
    """Yield the device of each mount, the directory in it that is mounted, and the mount point."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        parts = line.split()
        names = (each.decode("unicode_escape").encode("latin-1") for each in parts[3:5])
        root, place = (Path(os.fsdecode(each)) for each in names)
        yield parts[2].decode(), root, place


def _in_other_mounts(path: Path, mounts: list[tuple[str, Path, Path]]) -> Iterator[Path]:
    holding = [each for each in mounts if path.is_relative_to(each[2])]
    if not holding:
        return
    device, root, place = max(holding, key=lambda each: len(each[2].parts))
    inner = root / path.relative_to(place)
    for other, top, point in mounts:
        if other == device and inner.is_relative_to(top) and point != place:
            same = point / inner.relative_to(top)
            # Something else may be mounted there by now.
            if _status(same) and same.samefile(path):
                yield same


def _topmost(paths: list[Path]) -> tuple[Path, ...]:
    """Return paths without those below another one."""
    kept = set(paths)
    return tuple(p for p in dict.fromkeys(paths) if not any(up in kept for up in p.parents))


def _programs(names: Iterable[str]) -> Iterator[Path]:
    """Yield the files of denied programs.

    A link to a program of another name, such as busybox, stays: other programs need its target.
    """
    shells = {real_path(Path(found)) for each in SHELLS if (found := find_program(each))}
    for name in names:
        base = name.rpartition("/")[2]
        # A settings file may have changed PATH since turnlog was started.
        path = f"{search_path()}{os.pathsep}{os.environ.get('PATH', '')}"
        for folder in dict.fromkeys((*path.split(os.pathsep), "/usr/bin", "/bin")):
            found = shutil.which(base, path=folder)
            real = real_path(Path(found)) if found else None
            if real and real not in shells and real.name.startswith(base):
                yield real


def _git_objects(profile: Profile, hidden: tuple[PathPattern, ...], walk: Walk) -> Iterator[Path]:
    """Yield the objects of repositories that a denied file was once committed to."""
    above = [found for root in profile.roots if (found := repository_of(root, {}))]
    hides = matcher(hidden)
    for top in dict.fromkeys((*above, *walk.repositories)):
        clean = _CLEAN.get((top, hidden))
        if clean and clean[1] == _written(top, clean[0], walk):
            continue
        common = next(iter(_git(top, "rev-parse", "--git-common-dir")), "")
        directory = real_path(top / common) if common else real_path(git_folder(top / ".git"))
        key, written = (directory, hidden), _written(top, directory, walk)
        if not common or key in _COMMITTED or _has_committed(top, directory, hidden, hides, walk):
            _COMMITTED.add(key)
            # The objects of a work tree that git refuses are those of the main one.
            main = directory.parents[1:2] if os.path.isfile(top / ".git") else ()  # noqa: PTH113
            places = (owner / "objects" for owner in (directory, *main))
            yield from filter(os.path.isdir, places)
            yield from (real_path(directory / "objects" / each) for each in _alternates(directory))
        else:
            _CLEAN[(top, hidden)] = (directory, written)


def _written(top: Path, git: Path, walk: Walk) -> frozenset[tuple[str, int]]:
    """Return when denied files, and what a new object or branch changes, were last written.

    A file that is added or replaced changes the time of its directory.
    """
    found = [f"{top}/.git", os.fspath(git), *map(os.fspath, walk.hidden)]
    found += [f"{git}/{name}" for name in ("HEAD", "config", "packed-refs")]
    found += [entry.path for entry in _entries(f"{git}/objects")]
    for part in ("refs", "reftable", "logs", "worktrees"):
        for place, _, names in os.walk(git / part):
            found += [place, *(f"{place}/{name}" for name in names)]
    return frozenset((path, _time(path)) for path in found)


def _alternates(directory: Path) -> list[str]:
    try:
        with open_regular(directory / "objects/info/alternates") as file:
            return os.fsdecode(file.read()).splitlines()
    except OSError:
        return []


def _has_committed(
    top: Path,
    directory: Path,
    hidden: tuple[PathPattern, ...],
    hides: Callable[[str], bool],
    walk: Walk,
) -> bool:
    """Return whether a denied name or content is in the objects; a failing git counts as yes."""
    key = (directory, hidden)
    tips = frozenset(line.split(" ")[0] for line in _git(top, "show-ref", "--head"))
    logs = sorted(map(str, (directory / "logs").rglob("*")))
    state = frozenset((*tips, *(f"{path}:{_time(path)}" for path in logs)))
    known = _HISTORIES.get(key)
    if known != state:
        seen = [tip for tip in (known or ()) if len(tip) in (40, 64)]
        names = _run(top, *HISTORY, *(("--not", *seen) if seen else ()))
        if names is None or any(hides(f"{top}/{name}") for name in set(names.split("\0")) if name):
            return True
    # Stashed, dangling and renamed copies of what is there now.
    files = [str(path) for path in walk.hidden if path.is_file() and path.is_relative_to(top)]
    hashes = [line for path in files for line in _git(top, "hash-object", "--no-filters", path)]
    if any(_run(top, "cat-file", "-e", each) is not None for each in hashes):
        return True
    _HISTORIES[key] = state
    return False


def _git(place: Path, *arguments: str) -> list[str]:
    return (_run(place, *arguments) or "").splitlines()


def _run(place: Path, *arguments: str) -> str | None:
    """Run git without the programs that a repository names; None if it fails."""
    # A nested repository may be in a project whose programs are on PATH.
    program = find_program("git", (place, project_root(Path.cwd())))
    if program is None:
        return None
    environment = {"GIT_NO_LAZY_FETCH": "1", "HOME": str(Path.home()), "LC_ALL": "C"}
    # A repository that git does not recognize is not that of a directory above.
    environment["GIT_CEILING_DIRECTORIES"] = str(place.parent)
    try:
        done = subprocess.run(
            [program, *GIT, *arguments],
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=MAX_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return os.fsdecode(done.stdout) if done.returncode == 0 else None
