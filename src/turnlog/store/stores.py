"""Read several stores as one: list them, and find the store that a file is in.

The first store is the one that chat and hooks use.
"""

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from turnlog.errors import NotFound
from turnlog.format.regular_files import note_skipped
from turnlog.store.configuration import store_directories
from turnlog.store.paths import Store, expand_user, real_path

Stores = Sequence[Store]
AnyStores = Store | Stores
"""Functions that read accept one store or several."""

WHERE = "turnlog where"


def each_store(stores: AnyStores) -> tuple[Store, ...]:
    """Return one store or several as a tuple of stores."""
    # A `Store` is a named tuple, so `tuple(store)` would return its directory.
    return (stores,) if isinstance(stores, Store) else tuple(stores)


def open_stores(environment: Mapping[str, str] = os.environ) -> tuple[Store, ...]:
    """Return the user's stores; report those that are missing, and leave them out.

    The first one may be missing: the client creates it.
    """
    first, *others = (Store(Path(each)) for each in store_directories(environment))
    found = [first]
    for store in others:
        if store.projects.is_dir():
            found.append(store)
        else:
            # The disk of another machine may not be mounted; other stores can still be read.
            note_skipped(store.root, f"it has no projects folder (try: {WHERE})")
    return distinct(found)


def store_at(path: str | Path, may_be_new: bool = False) -> Store:
    """Return the store at a path; the path of its `projects` folder is accepted as well.

    With `may_be_new`, accept an empty directory, or a missing one in an existing directory.
    """
    folder = Path(os.path.abspath(expand_user(str(path))))  # noqa: PTH100
    if may_be_new and _can_begin(folder):
        return Store(folder)
    if folder.name == "projects" and folder.is_dir() and not (folder / "projects").is_dir():
        return Store(folder.parent)
    if not folder.is_dir():
        raise NotFound(f"there is no store in {folder}: no such directory", WHERE)
    if not (folder / "projects").is_dir():
        raise NotFound(f"there is no store in {folder}: it has no projects folder", WHERE)
    return Store(folder)


def _can_begin(folder: Path) -> bool:
    if os.path.lexists(folder):
        return folder.is_dir() and not os.listdir(folder)
    return folder.parent.is_dir()


def distinct(stores: Iterable[Store]) -> tuple[Store, ...]:
    """Return each store once, even if several paths lead to it through symlinks."""
    found: dict[Path, Store] = {}
    for store in stores:
        found.setdefault(real_path(store.root), store)
    return tuple(found.values())


def holder_of(stores: AnyStores, path: Path) -> Store:
    """Return the store that contains a file; the first store if none does."""
    known = each_store(stores)
    return find_holder(known, path) or known[0]


def store_argument(stores: AnyStores, path: Path) -> str:
    """Return the arguments that select the store of a file; empty if it is the user's only one."""
    # With several stores, an id may be in more than one of them.
    known = each_store(stores)
    if len(known) == 1 and distinct(Store(Path(each)) for each in store_directories()) == known:
        return ""
    return f" --store {shlex.quote(str(holder_of(stores, path).root))}"


def find_holder(stores: AnyStores, path: Path) -> Store | None:
    """Return the innermost store that contains a file; None if none does."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100
    resolved = real_path(path)
    holders = [
        store
        for store in each_store(stores)
        if absolute.is_relative_to(store.root) or resolved.is_relative_to(real_path(store.root))
    ]
    return max(holders, key=lambda store: len(real_path(store.root).parts), default=None)


def present(stores: AnyStores) -> tuple[Store, ...]:
    """Return the stores that exist; all of them if none does."""
    known = each_store(stores)
    return tuple(store for store in known if store.projects.is_dir()) or known


def all_session_files(stores: AnyStores, cwd: str | None = None) -> Iterator[Path]:
    """Yield the session files of all stores, or those of a working directory."""
    known = each_store(stores)
    roots = {store.root for store in known}
    for store in known:
        for path in store.session_files(cwd):
            # If a store is inside the `projects` folder of another one, its `history.jsonl` would
            # look like a session.
            if path.parent not in roots:
                yield path


def places_of(stores: AnyStores) -> str:
    """Return the `projects` folders of stores as text for a message."""
    return ", ".join(str(store.projects) for store in each_store(stores))


def no_sessions(stores: AnyStores, command: str = "ls") -> NotFound:
    """Return the error for stores without a session; the hint runs a command on the samples."""
    return NotFound(f"no sessions in {places_of(stores)}", f"turnlog --samples {command}")
