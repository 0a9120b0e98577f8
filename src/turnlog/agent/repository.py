"""The git repository that a folder lies in, found without git."""

import os
from collections.abc import Mapping
from pathlib import Path

CEILINGS = "GIT_CEILING_DIRECTORIES"
"""Where git looks no further up, nor does turnlog."""


def repository_of(folder: Path, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The top of the repository that a folder lies in, be it a worktree."""
    ceilings = set(map(Path, filter(None, environment.get(CEILINGS, "").split(os.pathsep))))
    for place in (folder, *folder.parents):
        if place in ceilings and place != folder:
            return None
        if (place / ".git").exists():
            return place
    return None
