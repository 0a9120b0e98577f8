"""Find symlinks below a root, so that files behind them are never changed, moved or removed.

A store may come from someone else, or be shared: if `file-history/<session>` were a link to a home
directory, removing the session would empty that directory. The root itself may be a link.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from turnlog.errors import Conflict
from turnlog.format.regular_files import note_skipped, skipping
from turnlog.store.descriptors import JUNCTION

REASON = "a symbolic link; its target is left alone"


def find_link(root: Path, path: Path) -> Path | None:
    """Return the outermost symlink on the way from a root to a path; None if there is none.

    Of a path that is not below the root, only the last component is checked.
    """
    if not path.is_relative_to(root):
        return path if is_link(path) else None
    place = root
    for part in path.relative_to(root).parts:
        place /= part
        # After `..`, the components checked so far no longer tell where the path leads.
        if part == ".." or is_link(place):
            return place
    return None


def is_link(path: Path) -> bool:
    """Return whether a path is a symlink or a Windows junction."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return path.is_symlink() or getattr(found, "st_reparse_tag", 0) == JUNCTION


def without_links(root: Path, paths: Iterable[Path]) -> list[Path]:
    """Return the paths that are not behind a symlink; report the symlinks of others as skipped."""
    found: list[Path] = []
    for path in paths:
        if link := find_link(root, path):
            note_skipped(link, REASON)
        else:
            found.append(path)
    return found


def require_no_link(root: Path, paths: Iterable[Path]) -> None:
    """Raise `Conflict` if any of the paths is behind a symlink."""
    for path in paths:
        if link := find_link(root, path):
            raise Conflict(f"{link} is {REASON}", "turnlog ls")


def note_link(root: Path, link: Path) -> None:
    """Report a symlink as skipped, unless its target is a file below the root.

    The client creates such links: `debug/latest`, and task outputs that link to sub-agent files.
    """
    with skipping(link):  # a dangling link is reported with its own reason
        link.stat()
        target = Path(os.path.realpath(link))
        if not (target.is_file() and target.is_relative_to(os.path.realpath(root))):
            note_skipped(link, REASON)
