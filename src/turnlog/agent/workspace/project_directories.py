"""Directories that a project's configuration is loaded from.

Every loader gets its paths from here, so that trust covers exactly what is loaded: settings from
the session's directory and the main checkout, servers from the session's directory, definitions
from each directory between the repository's root and the session's.
"""

import os
from collections.abc import Collection
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from turnlog.agent.workspace.repository import repository_of
from turnlog.format.regular_files import read_regular
from turnlog.store.paths import Store, real_path

CONFIG = ".claude"
SERVERS = ".mcp.json"
SETTINGS = Path(CONFIG, "settings.json")
LOCAL_SETTINGS = Path(CONFIG, "settings.local.json")
LARGEST = 4 << 20
"""Maximum size of a configuration file; a larger one is a mistake or an attack."""
LINKABLE = ("", "settings.json", "settings.local.json", "agents", "commands", "rules", "skills")
"""Parts of `.claude` that may be links to somewhere else."""


class SettingSource(StrEnum):
    """Setting sources, named as in `--setting-sources`."""

    USER = "user"
    PROJECT = "project"
    LOCAL = "local"


EVERY_SOURCE = frozenset(SettingSource)


class ConfigDirectory(Struct, frozen=True):
    """A directory that contains configuration."""

    path: Path
    names: tuple[str, ...]
    """Names loaded from it: `.claude`, `.mcp.json`."""
    links: tuple[Path, ...] = ()
    """Targets of links to configuration outside the project."""

    @property
    def files(self) -> tuple[Path, ...]:
        """Full paths of the names that are loaded from it."""
        return tuple(self.path / name for name in self.names)

    def holds(self, path: Path) -> bool:
        """Return whether a file belongs to it, judging by its path before links are resolved."""
        return any(path.is_relative_to(each) for each in self.files)


def config_directories(
    store: Store, cwd: Path, sources: Collection[SettingSource] = EVERY_SOURCE
) -> list[ConfigDirectory]:
    """List the directories whose configuration a session in `cwd` uses, the outermost first."""
    found: dict[Path, list[str]] = {}
    if SettingSource.PROJECT in sources:
        for folder in definition_directories(cwd):
            found.setdefault(folder, []).append(CONFIG)
        found.setdefault(cwd, []).append(SERVERS)
    if SettingSource.LOCAL in sources:
        for path in local_files(cwd):
            if os.path.lexists(path):
                found.setdefault(path.parent.parent, []).append(CONFIG)
    top = real_path(project_root(cwd))
    listed: list[ConfigDirectory] = []
    for folder, names in found.items():
        brought = tuple(name for name in dict.fromkeys(names) if _is_brought(folder / name, store))
        if brought:
            links = _links(folder, brought, top)
            listed.append(ConfigDirectory(folder, brought, tuple(links)))
    return sorted(listed, key=lambda each: len(each.path.parts))


def project_root(cwd: Path) -> Path:
    """Return the repository root of a directory, or the directory itself."""
    found = repository_of(cwd)
    # With a `~/.git` for dotfiles, all files of the user would belong to the project.
    if found is None or real_path(Path.home()).is_relative_to(real_path(found)):
        return cwd
    return found


def definition_directories(cwd: Path) -> list[Path]:
    """Return the directories that may define commands, skills and agents, the nearest last."""
    way = [cwd, *cwd.parents]
    return way[way.index(project_root(cwd)) :: -1]


def memory_directories(cwd: Path) -> list[Path]:
    """Return the directories whose memory files are loaded, the nearest last.

    Memory is only text, so directories above the project need no trust.
    """
    return [*reversed(cwd.parents), cwd]


def settings_files(
    cwd: Path, sources: Collection[SettingSource] = EVERY_SOURCE
) -> list[tuple[Path, SettingSource]]:
    """Return the settings files of a project, those with higher precedence last."""
    found = [(cwd / SETTINGS, SettingSource.PROJECT)]
    found += [(path, SettingSource.LOCAL) for path in local_files(cwd)]
    return [(path, source) for path, source in found if source in sources]


def local_files(cwd: Path) -> list[Path]:
    """Return the local settings files: main checkout and session directory."""
    return list(dict.fromkeys([local_folder(cwd) / LOCAL_SETTINGS, cwd / LOCAL_SETTINGS]))


def local_folder(root: Path) -> Path:
    """Return the directory for local settings: the main checkout of a repository."""
    repository = repository_of(root)
    found = _main_checkout(repository) if repository else root
    return root if found == Path.home() else found


def is_within(path: Path, roots: Collection[Path]) -> bool:
    """Return whether a path, with links resolved, is in one of several directories."""
    real = real_path(path)
    return any(real.is_relative_to(real_path(root)) for root in roots)


def _is_brought(path: Path, store: Store) -> bool:
    """Return whether a path exists and is not the user's own configuration."""
    # A dangling link counts: its target may appear between the trust question and the loading.
    is_own = not path.is_symlink() and real_path(path) == real_path(store.root)
    return os.path.lexists(path) and not is_own


def _links(folder: Path, names: tuple[str, ...], top: Path) -> list[Path]:
    """Return the targets of configuration links that leave the project."""
    found: list[Path] = []
    for name in names:
        parts = LINKABLE if name == CONFIG else ("",)
        for place in (folder / name / part for part in parts):
            if os.path.lexists(place) and not is_within(place, [top, folder, *found]):
                found.append(real_path(place))
    return found


def _main_checkout(folder: Path) -> Path:
    """Return the main checkout of a worktree, or the directory itself."""
    link = folder / ".git"
    named = _text(link).partition("gitdir:")[2].strip() if link.is_file() else ""
    git = folder / named
    # A `.git` file is project content: it could name another project, to gain what is allowed
    # there. The other side must name this worktree in return, as git itself records it.
    back = _text(git / "gitdir").strip()
    if not named or not back or real_path(git / back) != real_path(link):
        return folder
    # The file that names this worktree must be in the other project's `.git`: an unpacked archive
    # could contain a git directory of its own, with any `commondir`.
    shared = real_path(git).parent.parent
    is_worktree = real_path(git).parent.name == "worktrees" and shared.name == ".git"
    return shared.parent if is_worktree else folder


def _text(path: Path) -> str:
    try:
        return read_regular(path, LARGEST).decode("utf-8", "replace")
    except (OSError, ValueError):  # a path taken from a file may contain a NUL
        return ""
