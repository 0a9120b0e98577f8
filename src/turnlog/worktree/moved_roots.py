"""Find the directories that a session worked in before it was moved.

`turnlog mv` rewrites the directory of every line and the paths of backed-up files, but not the
paths in calls: `/old/shop/a.py` is then a file outside of `/new/shop`. The name of a backup starts
with a hash of the file's path at that time, which proves that both paths mean the same file.
Sessions of `claude -p` have no backups. For them, a directory with the same name counts as the
former one if no file is in the new one.
"""

import hashlib
from collections.abc import Iterable, Sequence

from turnlog.format.entries import ChainEntry
from turnlog.format.fields import given
from turnlog.worktree.file_names import FileName, file_name, relative_parts
from turnlog.worktree.history_blobs import COPY, HASH_DIGITS, BackedUp
from turnlog.worktree.sightings import Sighting


def former_roots(
    sightings: Iterable[Sighting], backups: Iterable[BackedUp], root: str | None
) -> list[str]:
    """Return the former paths of the directory `root`, given all files that calls name."""
    sightings = list(sightings)
    names = {sighting.name for sighting in sightings}
    outside = {_path_hash(name.path): name.path for name in names if not _is_below(name, root)}
    found: dict[str, None] = {}
    for backup in backups if outside else ():
        copy = COPY.fullmatch(backup.copy or "")
        old = outside.get(copy[1]) if copy else None
        is_below, parts = relative_parts(backup.name.path, root)
        tail = "/" + "/".join(parts)
        if old and is_below and old.endswith(tail) and old != tail:
            found[old.removesuffix(tail)] = None
    namesake = None if found else _namesake(sightings, root)
    return [namesake] if namesake else list(found)


def _namesake(sightings: Iterable[Sighting], root: str | None) -> str | None:
    """Return the only directory named like `root` that contains files, if `root` contains none.

    A file below the directory of its own line shows that the session was not moved.
    """
    folder = (root or "").rpartition("/")[2]
    found: set[str] = set()
    for sighting in sightings if folder else ():
        if _is_below(sighting.name, root) or working_root([sighting], root) != root:
            return None
        above, is_in, _ = sighting.name.path.partition(f"/{folder}/")
        if is_in:
            found.add(f"{above}/{folder}")
    return found.pop() if len(found) == 1 else None


def moved_name(name: FileName, former: Sequence[str], root: str | None) -> FileName:
    """Return a file's name below the session's directory if the file was in a former one."""
    for each in former:
        is_below, parts = relative_parts(name.path, each)
        if is_below and not _is_below(name, root):
            return file_name("/".join(parts), root)
    return name


def working_root(sightings: Iterable[Sighting], root: str | None) -> str | None:
    """Return the working directory that contains a file: the session's, or else that of a line.

    A session can change its directory: `/add-dir`, a worktree, or resuming it elsewhere.
    """
    for sighting in sightings:
        if _is_below(sighting.name, root):
            return root
        node = sighting.call.use if sighting.call else sighting.node
        entry = sighting.source.session.entry(node)
        cwd = given(entry.cwd) if isinstance(entry, ChainEntry) else None
        if cwd and _is_below(sighting.name, cwd):
            return cwd
    return root


def _is_below(name: FileName, root: str | None) -> bool:
    return relative_parts(name.path, root)[0]


def _path_hash(path: str) -> str:
    return hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS]
