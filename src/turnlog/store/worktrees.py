"""The worktrees of a git repository, read from its files.

git itself is not run: the configuration of an untrusted repository can make it run programs.
"""

from pathlib import Path

from turnlog.format.regular_files import read_regular

LARGEST = 1 << 14
"""Maximum bytes of a file that holds one path."""
MOST = 1000
"""Maximum number of worktrees to read."""


def worktrees_of(directory: Path) -> list[Path]:
    """Return the worktrees of the repository around a directory, its own first; [] if none."""
    own = root_of(directory)
    if own is None:
        return []
    common = _common_folder(own)
    found = [own]
    if common.name == ".git":
        found.append(common.parent)
    folders = sorted((common / "worktrees").glob("*"))[:MOST]
    links = (_path_in(folder / "gitdir", folder) for folder in folders)
    found += [link.parent for link in links if link]
    return list(dict.fromkeys(found))


def repository_name(directory: Path) -> str:
    """Return the name of the repository around a directory; "" if there is none.

    It is "shop" for /work/shop/.git, /work/shop/.bare and the bare repository /work/shop.git.
    """
    own = root_of(directory)
    common = _common_folder(own) if own else Path()
    is_inside = common.name.startswith(".")
    return common.parent.name if is_inside else common.name.removesuffix(".git")


def root_of(directory: Path) -> Path | None:
    """Return the top directory of the worktree that contains a directory."""
    return next(
        (each for each in (directory, *directory.parents) if (each / ".git").exists()), None
    )


def exclude_file(root: Path) -> Path:
    """Return the file with the paths that git ignores in all worktrees of a repository."""
    return _common_folder(root) / "info" / "exclude"


def worktree_on(directory: Path, branch: str) -> Path | None:
    """Return the worktree of a directory's repository in which a branch is checked out, if any."""
    return next((each for each in worktrees_of(directory) if branch_of(each) == branch), None)


def branch_of(root: Path) -> str | None:
    """Return the branch that is checked out in a worktree; None if there is none."""
    try:
        head = read_regular(_own_folder(root) / "HEAD", LARGEST).decode().strip()
    except (OSError, ValueError):
        return None
    lead = "ref: refs/heads/"
    return head.removeprefix(lead) if head.startswith(lead) else None


def _own_folder(root: Path) -> Path:
    """Return the folder of git's files about one worktree."""
    git = root / ".git"
    # A linked worktree has a file: "gitdir: /shop/.git/worktrees/fix".
    return git if git.is_dir() else _path_in(git, root, "gitdir:") or git


def _common_folder(root: Path) -> Path:
    """Return the `.git` folder that all worktrees of a repository share."""
    own = _own_folder(root)
    # A linked worktree names the shared folder in `commondir`.
    return _path_in(own / "commondir", own) or own


def _path_in(file: Path, base: Path, lead: str = "") -> Path | None:
    """Return the path stored in a file, resolved against a base; None if it cannot be read."""
    try:
        text = read_regular(file, LARGEST).decode().strip()
    except (OSError, ValueError):
        return None
    text = text.removeprefix(lead).strip()
    return Path(base, text).resolve() if text and "\0" not in text else None
