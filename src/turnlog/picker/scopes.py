"""What the list is limited to: a directory, the worktrees of its repository, or nothing."""

import os
from pathlib import Path
from typing import NamedTuple

from turnlog.store.paths import last_part
from turnlog.store.worktrees import worktrees_of


class Scope(NamedTuple):
    """A limit on the sessions that are listed."""

    name: str
    directories: tuple[str, ...] | None = None
    """Only sessions of these directories and of directories below; None for all."""


EVERYTHING = Scope("all projects")


def scopes_of(directory: Path) -> list[Scope]:
    """Return the scopes of a directory, from narrow to wide.

    Worktrees are left out if there is only one, which the directory is in.
    """
    own = (_spelled(directory),)
    scopes = [Scope(last_part(own[0]) or "/", own)]
    worktrees = tuple(map(str, worktrees_of(Path(own[0]))))
    if worktrees and worktrees != own:
        count = len(worktrees)
        name = f"{last_part(worktrees[-1])}: {count} worktrees" if count > 1 else "repository"
        scopes.append(Scope(name, worktrees))
    return [*scopes, EVERYTHING]


def _spelled(directory: Path) -> str:
    # The client records the resolved directory; /tmp/shop may be a link to /private/tmp/shop.
    return os.path.realpath(directory)
