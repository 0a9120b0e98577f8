"""Check repositories inside of a work tree, which git enters when it does more than read.

`git commit -a` runs `git status` in each submodule, under the submodule's own configuration, and
`git add -A` turns any repository that it finds into a submodule. So each of them must be as
harmless as the outer repository.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from turnlog.agent.permissions.bash import is_folder, is_there
from turnlog.agent.permissions.git_index import submodules_in
from turnlog.agent.permissions.git_repository import (
    GitCall,
    Repository,
    common_directory,
    find_problem,
    find_repository,
    named_directory,
)
from turnlog.agent.permissions.links import real_path

MOST_ENTRIES = 200_000
"""Maximum number of entries of a work tree to examine; with more, the user is asked."""
MODULES = "modules"
"""The directory inside of `.git` that holds the git directories of submodules."""


def find_nested_problem(repository: Repository, *, may_grow: bool) -> str | None:
    """Return why git must not enter the repositories inside of a work tree; None if it may.

    `may_grow` is true if the command may turn any repository in the work tree into a submodule.
    """
    try:
        own = (repository.top, real_path(common_directory(repository.directory)))
        found = dict.fromkeys(_submodules(repository, own))
        if may_grow:
            found |= dict.fromkeys(_repositories_below(repository.top, own))
        found |= dict.fromkeys(_kept_modules(repository.directory / MODULES))
        call = GitCall(reads=False, top=repository.top)
        problems = (find_problem(each, call) for each in found)
        return next((each.reason for each in problems if each), None)
    except (OSError, ValueError) as error:
        return f"its submodules cannot be checked: {error}"


def _submodules(repository: Repository, own: tuple[Path, ...]) -> Iterator[Repository]:
    """Yield the submodules that the index names and, recursively, their submodules."""
    pending, seen = [repository], {repository}
    while pending:
        outer = pending.pop()
        for name in submodules_in(outer.directory / "index"):
            # Git runs in no submodule that is not checked out.
            if not is_there(outer.top / name / ".git"):
                continue
            inner = _repository_at(outer.top / name, own)
            yield inner
            if inner not in seen:
                seen.add(inner)
                pending.append(inner)


def _repository_at(place: Path, own: tuple[Path, ...]) -> Repository:
    """Return the repository of a directory that has a `.git`; raise ValueError if in doubt.

    If `.git` is a file, it must name a git directory in one of the outer repository's `own`
    directories, or one that points back, as that of a linked work tree does.
    """
    dot_git = place / ".git"
    if dot_git.is_file() and not dot_git.is_symlink():
        directory = real_path(place / named_directory(dot_git))
        # A submodule's git directory does not point back, unlike that of a linked work tree.
        if any(map(directory.is_relative_to, own)) and not is_there(directory / "commondir"):
            return Repository(place, directory)
    found = find_repository(place)
    if found is None:
        raise ValueError(f"{dot_git} is not a repository")
    return found


def _repositories_below(top: Path, own: tuple[Path, ...]) -> Iterator[Repository]:
    """Yield each repository in a work tree, other than its own."""
    folders, count = [str(top)], 0
    while folders:
        folder = folders.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                count += 1
                if count > MOST_ENTRIES:
                    raise ValueError(f"{top} has more than {MOST_ENTRIES:,} entries")
                if entry.name.lower() == ".git":
                    if folder != str(top):
                        yield _repository_at(Path(folder), own)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)


def _kept_modules(modules: Path) -> Iterator[Repository]:
    """Yield the git directories of all submodules, including those that are not checked out."""
    pending = [modules] if is_folder(modules) else []
    while pending:
        folder = pending.pop()
        if is_there(folder / "HEAD"):
            yield Repository(folder, folder)
            pending += [folder / MODULES] if is_folder(folder / MODULES) else []
        else:
            pending += [each for each in folder.iterdir() if is_folder(each)]
