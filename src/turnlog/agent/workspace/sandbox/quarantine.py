"""Move files out of the way that a sandboxed command created for programs to run later.

Existing protected files are read-only in the sandbox, but a mount cannot keep one from being made:
an empty placeholder would be staged by `git add`, and would break git.
"""

import glob
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from turnlog.agent.workspace.access import (
    PROTECTED_FILES,
    PROTECTED_FOLDERS,
    PROTECTED_PATHS,
    REPOSITORIES,
    Basis,
)
from turnlog.agent.workspace.repository import git_folder
from turnlog.agent.workspace.sandbox.masks import walk_of
from turnlog.agent.workspace.sandbox.profile import Profile
from turnlog.format.regular_files import open_regular
from turnlog.store.directories import data_directory
from turnlog.store.paths import real_path

NAMES = sorted(PROTECTED_FILES | PROTECTED_PATHS | PROTECTED_FOLDERS - REPOSITORIES)
MOVED = "{path} was created in the sandbox; programs take commands from it, so it was moved to {to}"
NOT_MOVED = "{path} was created in the sandbox; programs take commands from it: remove it ({error})"
PLAIN_CONFIG = re.compile(
    rb"\s*(?:[#;].*|\[(?:core|user|init|remote \"[^\"]*\"|branch \"[^\"]*\"|submodule \"[^\"]*\")\]"
    rb"|(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|symlinks|worktree"
    rb"|precomposeunicode|name|email|url|fetch|remote|merge|active|defaultbranch)\s*=.*|)\s*",
    re.I,
)
"""Lines of a git configuration that name no program."""
MAX_CONFIG = 1 << 20


def protected_files(profile: Profile | None) -> frozenset[Path]:
    """Return the files that programs take commands from, as they are now.

    Empty for profiles that cannot create any, or that may.
    """
    if profile is None or profile.basis is not Basis.WRITE or not profile.is_needed:
        return frozenset()
    roots, walk = [real_path(root) for root in profile.roots], walk_of(profile)
    found = {root / name for root in roots for name in NAMES}
    found |= set(walk.locked)
    for top in walk.repositories:
        found |= set(_running_parts(git_folder(top / ".git")))
    return frozenset(path for path in found if os.path.lexists(path))


def quarantine(paths: Iterable[Path]) -> list[str]:
    """Move new files to turnlog's own directory; return a line about each."""
    return [_move(path) for path in sorted(paths)]


def _running_parts(git: Path) -> Iterator[Path]:
    """Yield the hooks of a repository, and its configuration if it may name programs."""
    yield from (git / "commondir", git / "config.worktree")
    # Unlike `Path.glob`, this passes over directories that cannot be read.
    start = glob.escape(str(git))
    found = glob.glob(f"{start}/worktrees/*/config.worktree")  # noqa: PTH207
    found += glob.glob(f"{start}/hooks/*")  # noqa: PTH207
    yield from (Path(each) for each in found if not each.endswith(".sample"))
    if not has_plain_config(git):
        yield git / "config"


def has_plain_config(git: Path) -> bool:
    """Return whether the configuration of a git directory, if any, names no program."""
    try:
        with open_regular(git / "config") as file:
            text = file.read(MAX_CONFIG)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return len(text) < MAX_CONFIG and all(map(PLAIN_CONFIG.fullmatch, text.splitlines()))


def _move(path: Path) -> str:
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    target = Path(data_directory(os.environ), "quarantine", now, path.name)
    try:
        target.parent.mkdir(parents=True, mode=0o700)
        shutil.move(path, target)
    except (OSError, shutil.Error) as error:
        return NOT_MOVED.format(path=path, error=error)
    return MOVED.format(path=path, to=target)
