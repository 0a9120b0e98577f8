"""Find the user's and the project's files that define commands, skills and agents.

A project may define them in every directory from the repository's root to the working directory.
"""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

from turnlog.agent.config.frontmatter import MOST_TOGETHER, head_of
from turnlog.agent.config.plugins import Plugin
from turnlog.agent.workspace.project_directories import (
    CONFIG,
    EVERY_SOURCE,
    LARGEST,
    SettingSource,
    definition_directories,
    is_within,
    project_root,
)
from turnlog.format.regular_files import read_regular, why_unreadable
from turnlog.store.paths import Store, real_path

MOST_ENTRIES = 10_000
"""Maximum number of entries visited in one search."""
DEEPEST = 16
TOO_LONG = f"the frontmatter of the project's files exceeds {MOST_TOGETHER >> 10} KiB in total"

Definition = TypeVar("Definition")
Report = Callable[[str], None]
"""Called with each file that is not loaded, and why."""


def _contains(path: Path, root: Path) -> bool:
    return is_within(path, [root])


class DefinitionFiles:
    """The files that define commands, skills and agents for a session.

    A link that leaves the project is not followed: `.claude/skills/x/SKILL.md` could link to any
    file of the user, which would then be shown to the model.
    """

    def __init__(
        self,
        store: Store,
        cwd: Path,
        sources: Collection[SettingSource] = EVERY_SOURCE,
        is_trusted: Callable[[Path], bool] = lambda path: True,
        contains: Callable[[Path, Path], bool] = _contains,
        may_read: Callable[[Path], bool] = lambda path: True,
    ) -> None:
        """Search from `cwd` in the given setting sources.

        `is_trusted` decides which files of the project may define hooks, rules and servers.
        `contains` decides if a file lies in a project after links are resolved. `may_read` returns
        False for a file that a rule denies reading.
        """
        self.problems: list[str] = []
        """Files that are not loaded, and why."""
        self.ignored: list[str] = []
        """Parts ignored in untrusted files, each as `FILE (what)`."""
        self._store = store
        self._cwd = cwd
        self._sources = sources
        self._is_trusted = is_trusted
        self._contains = contains
        self._may_read = may_read
        self.plugins: Sequence[Plugin] = ()
        self._room = MOST_TOGETHER
        # Without the store: in the home directory, `.claude` belongs to the user, not to a project.
        places = (each / CONFIG for each in definition_directories(cwd))
        self._theirs = [each for each in places if each != store.root]

    def add_plugins(self, plugins: Sequence[Plugin]) -> "DefinitionFiles":
        """Add the files of plugins, which count as the user's; return this object."""
        self.plugins = (*self.plugins, *plugins)
        return self

    def user_folders(self, kind: str) -> list[Path]:
        """Return the user's directory for one kind of definition."""
        return [self._store.root / kind] if SettingSource.USER in self._sources else []

    def project_folders(self, kind: str) -> list[Path]:
        """Return a project's directories for one kind of definition, the nearest last."""
        if SettingSource.PROJECT not in self._sources:
            return []
        places = [each / CONFIG for each in definition_directories(self._cwd)]
        return [each / kind for each in places if each != self._store.root]

    def markdown(self, folder: Path) -> Iterator[Path]:
        """Yield the Markdown files in a folder and below it, or the file itself if it is one."""
        if not self._is_ours(folder):
            return
        if folder.suffix == ".md" and folder.is_file():
            yield from filter(self._is_loaded, [folder])
        else:
            yield from filter(self._is_loaded, markdown_files(folder, self._report))

    def of_plugins(self, kind: str) -> Iterator[tuple[Plugin, Path]]:
        """Yield each plugin's files and directories for one kind of definition."""
        for plugin in self.plugins:
            yield from ((plugin, place) for place in plugin.places(kind))

    def in_folders(self, folder: Path, name: str) -> Iterator[Path]:
        """Yield the files of a given name in the subdirectories of a directory."""
        if not self._is_ours(folder):
            return
        # A plugin may list the directory of a single skill.
        if any(each.holds(folder) for each in self.plugins) and os.path.lexists(folder / name):
            yield from filter(self._is_loaded, [folder / name])
            return
        for entry in list_entries(folder, MOST_ENTRIES, self._report):
            path = Path(entry.path, name)
            if os.path.lexists(path) and self._is_loaded(path):
                yield path

    def read(self, path: Path, read: Callable[[Path], Definition | None]) -> Definition | None:
        """Return the definition in a file; report any error instead of raising it."""
        if self.is_project(path):
            # PyYAML is slow: the frontmatter of a thousand files would delay the start by seconds.
            self._room -= len(head_of(read_text(path) or ""))
            if self._room < 0:
                self._report(f"{path} is not loaded: {TOO_LONG}")
                return None
        try:
            return read(path)
        except Exception as error:  # a stranger's file must not prevent a chat from starting
            why = str(error) if isinstance(error, ValueError) else type(error).__name__
            self._report(f"{path} is not loaded: {why}")
            return None

    def is_project(self, path: Path) -> bool:
        """Return whether a file belongs to the project rather than the user.

        The project may lie in the store: a repository cloned into `~/.claude/skills` is not the
        user's.
        """
        if any(path.is_relative_to(plugin.root) for plugin in self.plugins):
            return False
        is_own = path.is_relative_to(self._store.root)
        return not is_own or any(path.is_relative_to(each) for each in self._theirs)

    def may_act(self, path: Path, wants: Collection[str]) -> bool:
        """Return whether a file may define hooks, rules and servers; record it if not."""
        if not self.is_project(path) or self._is_trusted(path):
            return True
        if wants:
            self.ignored.append(f"{path} ({', '.join(wants)})")
        return False

    def _is_loaded(self, path: Path) -> bool:
        """Return whether a file may be loaded and read; report why not."""
        if not self._may_read(path):
            self._report(f"{path} is not loaded: a rule denies reading it")
        elif self._is_ours(path):
            if not (reason := why_unreadable(path, LARGEST)):
                return True
            self._report(f"{path} is not loaded: {reason}")
        return False

    def _is_ours(self, path: Path) -> bool:
        """Return whether a path is the user's, or really lies in the project; report if not."""
        owners = [each for each in self.plugins if path.is_relative_to(each.root)]
        if owners and not any(each.holds(path) for each in owners):
            where = real_path(path)
            self._report(f"{path} is not loaded: it links to {where}, outside of the plugin")
            return False
        if not self.is_project(path) or self._contains(path, project_root(self._cwd)):
            return True
        where = real_path(path)
        self._report(f"{path} is not loaded: it links to {where}, outside of the project")
        return False

    def _report(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)


def markdown_files(folder: Path, report: Report = lambda problem: None) -> list[Path]:
    """Return the Markdown files in a folder and below it, sorted; `report` folders left out.

    Linked folders are not entered. The search is bounded, as `.claude/rules` may contain anything:
    an entire home directory, or a mount of one of its own parents.
    """
    found: list[Path] = []
    pending = [(folder, 0)]
    room = MOST_ENTRIES
    while pending:
        place, depth = pending.pop()
        entries = list_entries(place, room, report)
        room -= len(entries)
        for entry in entries:
            is_inner = entry.is_dir(follow_symlinks=False)
            if is_inner and depth < DEEPEST:
                pending.append((Path(entry.path), depth + 1))
            elif is_inner:
                report(f"{entry.path} is not searched: it is nested too deeply")
            elif entry.name.endswith(".md"):
                found.append(Path(entry.path))
    return sorted(found)


def list_entries(folder: Path, most: int, report: Report) -> "list[os.DirEntry[str]]":
    """Return the entries of a folder, sorted, up to a limit; `report` if there are more."""
    try:
        with os.scandir(folder) as entries:
            found = list(islice(entries, most + 1))
    except OSError:  # usually the folder does not exist
        return []
    if len(found) > most:
        report(f"{folder} is not searched further: it has too many files")
    return sorted(found[:most], key=lambda entry: entry.name)


def read_text(path: Path) -> str | None:
    """Return a file's text; None if it cannot be read or is not a regular file."""
    try:
        return read_regular(path, LARGEST).decode("utf-8", "replace")
    except OSError:
        return None
