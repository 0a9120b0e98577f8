"""Where commands, skills and agents are defined: with the user, and along the way to the project.

A project's own folders lie in every directory from its repository's root to where the work is.
"""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from turnlog.agent.project import (
    CONFIG,
    EVERY_SOURCE,
    SettingSource,
    definition_directories,
    is_within,
    project_root,
)
from turnlog.store.paths import Store


def _contains(path: Path, root: Path) -> bool:
    return is_within(path, [root])


class DefinitionFiles:
    """The files that define commands, skills and agents for a session.

    A link that leaves the project is not followed: `.claude/skills/x/SKILL.md` could be a link to
    any file of the user, which the model would then be shown.
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
        """`is_trusted` says which of the project's files may bring hooks, rules and servers,
        `contains` whether a file really lies in a project, `may_read` whether no rule denies
        reading it."""
        self.problems: list[str] = []
        """What is not loaded, and why."""
        self.ignored: list[str] = []
        """What is left out of files that are not trusted, each as `FILE (what)`."""
        self._store = store
        self._cwd = cwd
        self._sources = sources
        self._is_trusted = is_trusted
        self._contains = contains
        self._may_read = may_read

    def user_folders(self, kind: str) -> list[Path]:
        """The folder of the user for one kind of definition."""
        return [self._store.root / kind] if SettingSource.USER in self._sources else []

    def project_folders(self, kind: str) -> list[Path]:
        """The folders of a project for one kind of definition, the nearest last."""
        if SettingSource.PROJECT not in self._sources:
            return []
        places = [each / CONFIG for each in definition_directories(self._cwd)]
        return [each / kind for each in places if each != self._store.root]

    def markdown(self, folder: Path) -> Iterator[Path]:
        """All Markdown files in a folder and below it."""
        return filter(self._is_loaded, markdown_files(folder))

    def named(self, folder: Path, pattern: str) -> Iterator[Path]:
        """The files of a folder that a pattern names."""
        return filter(self._is_loaded, sorted(folder.glob(pattern)))

    def is_project(self, path: Path) -> bool:
        """Whether a file is the project's, not the user's."""
        return not path.is_relative_to(self._store.root)

    def may_act(self, path: Path, wants: Collection[str]) -> bool:
        """Whether a file may bring what it wants to: hooks, rules, servers. Takes down if not."""
        if not self.is_project(path) or self._is_trusted(path):
            return True
        if wants:
            self.ignored.append(f"{path} ({', '.join(wants)})")
        return False

    def _is_loaded(self, path: Path) -> bool:
        told = ""
        if not self._may_read(path):
            told = f"{path} is not loaded: a rule denies reading it"
        elif self.is_project(path) and not self._contains(path, project_root(self._cwd)):
            told = f"{path} is not loaded: it links to {path.resolve()}, outside of the project"
        if told and told not in self.problems:
            self.problems.append(told)
        return not told


def markdown_files(folder: Path) -> list[Path]:
    """All Markdown files in a folder and below it."""
    return sorted(path for path in folder.rglob("*.md") if path.is_file())


def read_text(path: Path) -> str | None:
    """A file's text; None for one that cannot be read."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return None
