"""The workspace: directories and the state that tools keep from one call to the next."""

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from turnlog.agent.workspace.access import Tier
from turnlog.agent.workspace.read_state import ReadState
from turnlog.agent.workspace.sandbox.settings import Confinement
from turnlog.agent.workspace.shell.background_tasks import Shells
from turnlog.agent.workspace.task_list import TaskList
from turnlog.agent.workspace.web_pages import Pages


class ReadCheck(Protocol):
    """Checks whether rules allow reading a file; `searched` is where a search started."""

    def __call__(self, path: Path, searched: Path | None = None) -> bool: ...


class DirectoryIdentity(Struct, frozen=True):
    """A directory by path, device and inode: another directory may be moved to the same path."""

    path: Path
    device: int
    inode: int

    @staticmethod
    def of(path: Path, found: os.stat_result) -> "DirectoryIdentity":
        """Return the identity of a directory from its `stat` result."""
        return DirectoryIdentity(path, found.st_dev, found.st_ino)


async def _accept(event: str, about: dict[str, Any]) -> str:
    return ""


@dataclass
class Workspace:
    """The state that the calls of one conversation share; a sub-agent has one of its own."""

    root: Path
    """The directory that the session was started in."""
    folder: Path
    """The session's own folder, for `tool-results/` and `subagents/`."""
    cwd: Path
    """The directory in which commands run; a command may change it."""
    directories: list[Path] = field(default_factory=list[Path])
    """Additional working directories."""
    read_states: dict[Path, ReadState] = field(default_factory=dict[Path, ReadState])
    """Files that the model has read or written, each with its state at that time."""
    todos: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    tasks: TaskList = field(default_factory=TaskList)
    """The task list, which sub-agents share."""
    review_task: Callable[[str, dict[str, Any]], Awaitable[str]] = _accept
    """Runs the hooks for an event of a task; returns the reason if they block it, else ""."""
    shells: Shells = field(default_factory=Shells)
    """Commands in the background."""
    pages: Pages = field(default_factory=Pages)
    """Pages fetched from the web."""
    environment: dict[str, str] = field(default_factory=dict[str, str])
    """Environment variables for commands, in addition to the process's own."""
    before_change: Callable[[Path], None] = lambda path: None
    """Called with each file that is about to change, to back it up."""
    may_read: ReadCheck = lambda path, searched=None: True
    """Checks files that no call names, such as search results and memory files."""
    confinement: Confinement = field(default_factory=Confinement)
    """The sandbox settings for commands."""
    tier: Tier = Tier.NONE
    """What commands may do unasked."""
    ask: Callable[[str, list[dict[str, Any]]], Awaitable[list[dict[str, Any]]]] | None = None
    """Sends a prompt with server tools to a model, outside the conversation; returns blocks."""

    def path_of(self, name: str) -> Path:
        """Return the path that a call names; it may start with `~/` or be relative to `cwd`."""
        return path_in(self.cwd, name)

    def settle(self) -> DirectoryIdentity | None:
        """Return to the root if the current directory is gone; return where commands run now.

        This must come before a verdict. Otherwise `cat ../x` would be judged in the directory that
        is gone, and run in the root.
        """
        if not self.cwd.is_dir():
            self.cwd = self.root
        try:
            return DirectoryIdentity.of(self.cwd, self.cwd.stat())
        except OSError:
            return None

    @property
    def folders(self) -> list[Path]:
        """All working directories."""
        return [self.root, *self.directories]

    def holds(self, path: Path) -> bool:
        """Return whether a path is in one of the working directories."""
        return any(path.is_relative_to(place.resolve()) for place in self.folders)


def path_in(cwd: Path, name: str) -> Path:
    """Return the path that a call names: absolute, below `~/`, or relative to `cwd`."""
    place = Path.home() / name[2:] if name.startswith("~/") else cwd / name
    return Path(os.path.normpath(place))
