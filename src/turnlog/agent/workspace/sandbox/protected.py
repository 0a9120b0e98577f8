"""Files that programs take commands from: git hooks, settings of the client, startup files.

Changing one always asks, whatever the mode; in a sandbox, those that exist are read-only.
"""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path

from turnlog.agent.workspace.access import (
    PROTECTED_FILES,
    PROTECTED_FOLDERS,
    PROTECTED_PATHS,
    REPOSITORIES,
)
from turnlog.agent.workspace.programs import find_program
from turnlog.agent.workspace.project_directories import (
    CONFIG,
    SERVERS,
    definition_directories,
    project_root,
)
from turnlog.agent.workspace.repository import common_folder, git_folder, repository_of
from turnlog.agent.workspace.sandbox.patterns import names_of
from turnlog.store.directories import config_directory, data_directory
from turnlog.store.paths import BY_SESSION, open_store, real_path

MAX_CONFIG_FILES = 10_000
MAX_SECONDS = 5.0
SESSION_DATA = frozenset(
    (*BY_SESSION, *"debug paste-cache plans projects shell-snapshots todos worktrees".split())
)
"""Directories of `.claude` with thousands of files that nothing runs."""
WORKTREES = "worktrees"
"""The directory of `.claude` that holds working trees."""
ENDS = tuple(f"/{path}" for path in PROTECTED_PATHS)
GIT_PARTS = ("hooks", "config", "config.worktree", "commondir", "gitdir", "info", "modules")
"""Read-only parts of a git directory; the rest changes with each commit."""
VARIABLES = ("GIT_DIR", "GIT_COMMON_DIR")
OTHER_PARTS = (".hg/hgrc", ".hg/sharedpath", ".jj/repo/config.toml")
PYTHON_PLACES = ("scripts", "purelib", "platlib", "stdlib", "platstdlib")


def is_protected(path: Path, roots: Iterable[Path]) -> bool:
    """Return whether the user is asked about every change to a path."""
    names = names_of(path)
    if any(has_protected_part(name) for name in names):
        return True
    ends = linked_places(tuple(roots))
    above = {each for end in ends for each in end.parents} - critical_paths(roots)
    # `rm -r .agents && mv evil .agents` replaces `.agents/skills` as well.
    return any(name in above or any(map(name.is_relative_to, ends)) for name in names)


def has_protected_part(path: Path) -> bool:
    """Return whether a path is that of a protected file or directory, or of anything below one.

    Case is ignored, as on some file systems.
    """
    parts = [part.casefold() for part in path.parts]
    for rank, part in enumerate(parts):
        if part == CONFIG and parts[rank + 1 : rank + 2] == [WORKTREES]:
            continue
        if part in PROTECTED_FOLDERS or part in PROTECTED_FILES:
            return True
    whole = f"/{'/'.join(parts)}/"
    return any(f"{end}/" in whole for end in ENDS)


def critical_paths(roots: Iterable[Path]) -> set[Path]:
    """Return the home, the working directories, and all their parents."""
    places = [name for each in (*roots, Path.home()) for name in names_of(each)]
    return {each for place in places for each in (place, *place.parents)}


@lru_cache(maxsize=8)
def _listed_places(roots: tuple[Path, ...], _now: int) -> frozenset[Path]:
    owners = {each for root in roots for each in definition_directories(real_path(root))}
    store = open_store().root
    links = [owner / SERVERS for owner in owners if (owner / SERVERS).is_symlink()]
    links += [link for place in (*(o / CONFIG for o in owners), store) for link in _links_in(place)]
    links += _startup_links(real_path(Path.home()))
    # turnlog's own directories store which projects are trusted, and where traces go.
    own = (store, Path(data_directory(os.environ)), Path(config_directory(os.environ)))
    links += [place for place in own if not has_protected_part(place)]
    hooks = [place for root in roots for place in _hook_directories(root)]
    own_hooks = (git / "hooks" for root in roots for git in _git_directories(root))
    links += [link for place in (*hooks, *own_hooks) for link in _links_in(place)]
    links += hooks
    return frozenset(map(real_path, (*links, *_own_code(roots))))


def linked_places(roots: tuple[Path, ...]) -> frozenset[Path]:
    """Return protected places without a protected name: the targets of links, hooks, own code."""
    from time import monotonic

    # Asked for each of thousands of paths; what is on the disk changes, but not that fast.
    return _listed_places(roots, int(monotonic()))


def protected_in(roots: Iterable[Path]) -> Iterator[Path]:
    """Yield the protected paths that exist in some directories, with links resolved."""
    names = sorted(PROTECTED_FILES | PROTECTED_PATHS | PROTECTED_FOLDERS - REPOSITORIES)
    places = tuple(roots)
    for root in places:
        found = [root / name for name in (*names, *OTHER_PARTS)]
        found += [place / part for place in _git_directories(root) for part in GIT_PARTS]
        # The `.git` of a linked work tree is a file: `gitdir: evil` would redirect it.
        found += [root / ".git"] if os.path.isfile(root / ".git") else []  # noqa: PTH113
        yield from (real_path(path) for path in found if os.path.exists(path))  # noqa: PTH110
    yield from (path for path in linked_places(places) if os.path.exists(path))  # noqa: PTH110


def _git_directories(root: Path) -> Iterator[Path]:
    """Yield the git directories of the repository around a directory, and of its work trees."""
    found = (repository_of(root, {}) or root) / ".git"
    named = (root / os.environ[name] for name in VARIABLES if os.environ.get(name))
    for git in (git_folder(found), *named):
        yield from (Path(os.path.normpath(each)) for each in (git, common_folder(git)))
    if found.is_dir():
        yield found
        yield from (found / WORKTREES).glob("*")


def _hook_directories(root: Path) -> Iterator[Path]:
    """Yield the directory of `core.hooksPath`, such as `.githooks`."""
    for line in (
        _git(root, "config", "--get-all", "core.hooksPath") if repository_of(root, {}) else ()
    ):
        yield root / Path(line).expanduser()


def _git(place: Path, *arguments: str) -> list[str]:
    program = find_program("git", (place, project_root(Path.cwd())))
    if program is None:
        return []
    # `rev-parse` and `config` run nothing that the repository names.
    try:
        done = subprocess.run(
            [program, *arguments], cwd=place, capture_output=True, check=False, timeout=MAX_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return os.fsdecode(done.stdout).splitlines() if done.returncode == 0 else []


def _own_code(roots: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the places in some directories that turnlog itself runs: it may be in a `.venv`."""
    schemes = (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))
    named = {sysconfig.get_path(kind, scheme) for scheme in schemes for kind in PYTHON_PLACES}
    beside = (Path(sys.executable).parent, Path(sys.prefix, "pyvenv.cfg"))
    for place in (*map(Path, named), *beside):
        if any(real_path(place).is_relative_to(real_path(root)) for root in roots):
            yield place


def _startup_links(home: Path) -> Iterator[Path]:
    """Yield the protected files in the home that are links, as dotfile managers create them.

    With `~/.bashrc -> ~/dotfiles/bashrc`, the file is in a project under a harmless name.
    """
    folders = {home, *(home / Path(path).parent for path in PROTECTED_PATHS)}
    protected = [path for each in folders for path in _listed(each) if has_protected_part(path)]
    inner = [path for each in protected for path in _listed(each)]
    yield from (path for path in (*protected, *inner) if path.is_symlink())


def _listed(folder: Path) -> list[Path]:
    try:
        return list(islice(folder.iterdir(), MAX_CONFIG_FILES))
    except OSError:
        return []


def _links_in(folder: Path) -> Iterator[Path]:
    """Yield the links in a configuration directory, or the directory if it is one itself."""
    if folder.is_symlink():
        yield folder
        return
    for part in (each for each in _listed(folder) if each.name not in SESSION_DATA):
        if part.is_symlink():
            yield part
        else:
            inner = (Path(top, name) for top, *names in os.walk(part) for name in chain(*names))
            yield from filter(Path.is_symlink, islice(inner, MAX_CONFIG_FILES))
