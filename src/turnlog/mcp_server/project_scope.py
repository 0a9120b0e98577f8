"""The sessions that a client may see: those of its project, or all if the user allows it.

The server runs in a directory that the client chose, and answers a model that reads untrusted
text. A model must not be able to widen its own view; only the user's configuration can.
"""

import os
from pathlib import Path
from typing import NamedTuple

from turnlog.errors import UsageError
from turnlog.store.configuration import configuration_file, read_section
from turnlog.store.worktrees import worktrees_of

PROJECT, ALL = "project", "all"
SCOPES = (PROJECT, ALL)


class ProjectScope(NamedTuple):
    """The sessions that may be shown."""

    name: str
    directories: tuple[str, ...] | None
    """Working directories, including their subdirectories; None for all."""
    is_exact: bool = False
    """True to leave out subdirectories."""

    @property
    def label(self) -> str:
        """A name for the head of answers."""
        return "all projects" if self.directories is None else f"project {self.directories[0]}"


def is_all_allowed() -> bool:
    """Return whether config.toml has `scope = "all"` in its table `[mcp]`."""
    path = configuration_file()
    scope = read_section("mcp", path).get("scope", PROJECT)
    if scope not in SCOPES:
        raise UsageError(f'scope in [mcp] of {path} is not "project" or "all"', f"$EDITOR {path}")
    return scope == ALL


def scope_of(directory: Path, name: str | None) -> ProjectScope:
    """Return the scope with a name, by default the project. Raise UsageError if it is denied."""
    if name == ALL:
        if not is_all_allowed():
            # The model cannot run `turnlog` to change this; the hint is for the user it talks to.
            message = "other projects are not shared with this client: only the user can allow it,"
            path = configuration_file()
            raise UsageError(f'{message} with scope = "all" in the table [mcp] of {path}')
        return ProjectScope(ALL, None)
    own = os.path.realpath(directory)
    # Desktop clients start servers in `/` or the home directory. Nobody chose to share everything
    # below it.
    if own in ("/", os.path.realpath(Path.home())):
        return ProjectScope(PROJECT, (own,), is_exact=True)
    return ProjectScope(PROJECT, (own, *_worktrees(own)))


def _worktrees(own: str) -> list[str]:
    """Return the other worktrees of a repository, if the repository lists this one as well.

    An unpacked archive may contain a file `.git` with "gitdir: /home/ada/secret/.git". The sessions
    of that repository are shared only if it lists this directory as its worktree.
    """
    # The first one is the repository's own directory.
    found = worktrees_of(Path(own))
    if not found:
        return []
    root = found[0]
    others = (each for each in found[1:] if root in worktrees_of(each))
    return [str(each) for each in dict.fromkeys([root, *others]) if str(each) != own]
