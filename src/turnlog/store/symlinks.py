"""Find symlinks below a root. Files that one leads to are never changed, moved or removed.

A store may come from someone else, or be shared: if `file-history/<session>` were a link to a home
directory, removing the session would empty that directory. The root itself may be a link.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from turnlog.errors import Conflict
from turnlog.format.regular_files import note_skipped, skipping
from turnlog.store.descriptors import JUNCTION

REASON = "a symbolic link; what it leads to is left alone"


def find_link(root: Path, path: Path) -> Path | None:
    """Return the outermost symlink on the way from a root to a path; None if there is none.

    Of a path that is not below the root, only the last component is checked.
    """
    if not path.is_relative_to(root):
        return path if is_link(path) else None
    place = root
    for part in path.relative_to(root).parts:
        place /= part
        # Behind `..`, the components that were checked say nothing about where the path leads.
        if part == ".." or is_link(place):
            return place
    return None


def is_link(path: Path) -> bool:
    """Return whether a path is a symlink, or a junction of Windows."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return path.is_symlink() or getattr(found, "st_reparse_tag", 0) == JUNCTION


def without_links(root: Path, paths: Iterable[Path]) -> list[Path]:
    """Return the paths that no symlink leads to; note the links that lead to others."""
    found: list[Path] = []
    for path in paths:
        if link := find_link(root, path):
            note_skipped(link, REASON)
        else:
            found.append(path)
    return found


def require_no_link(root: Path, paths: Iterable[Path]) -> None:
    """Raise `Conflict` if a symlink leads to one of some paths."""
    for path in paths:
        if link := find_link(root, path):
            raise Conflict(f"{link} is {REASON}", "turnlog ls")


def note_link(root: Path, link: Path) -> None:
    """Note a symlink, unless the file that it leads to is known by its own name.

    The client keeps such links: `debug/latest`, and outputs of tasks that are sub-agents' files.
    """
    with skipping(link):  # one that leads nowhere has a reason of its own
        link.stat()
        target = Path(os.path.realpath(link))
        if not (target.is_file() and target.is_relative_to(os.path.realpath(root))):
            note_skipped(link, REASON)
