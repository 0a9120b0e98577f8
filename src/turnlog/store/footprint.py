"""Everything on disk that belongs to one session: the files to edit, move or remove together."""

import os
import re
import tempfile
from dataclasses import dataclass
from glob import escape
from pathlib import Path

from turnlog.format.decode import read_entries
from turnlog.format.entries import ChainEntry
from turnlog.format.fields import given
from turnlog.format.regular_files import is_readable, regular_paths, skipping
from turnlog.store.paths import (
    BY_SESSION,
    Store,
    adjacent_subagents,
    folder_name,
    sidecar_folder,
    subagent_meta,
)
from turnlog.store.symlinks import find_link, is_link, note_link, without_links

NICKNAME = re.compile(r"[\w-]+")


@dataclass(frozen=True)
class Footprint:
    """The files of a session by kind."""

    session: Path
    sidecars: list[Path]
    """Files in the session's own folder: sub-agents, saved outputs, workflows, the title."""
    subagents: list[Path]
    """Sub-agents next to the session (2.0.x), and what started them."""
    backups: list[Path]
    """Copies of edited files, images and uploads in the client's own folders."""
    todos: list[Path]
    logs: list[Path]
    plans: list[Path]
    """Plans, possibly shared: a fork continues with the same one."""
    outputs: list[Path]
    """Outputs of background tasks, in the system's temporary folder."""
    directories: frozenset[str]
    """The working directories named in its entries."""

    @property
    def own(self) -> list[Path]:
        """The files that are useless without the session; the session file is last."""
        # Last, so that an interrupted removal leaves a session that can be found and removed again.
        others = [*self.sidecars, *self.subagents, *self.backups, *self.todos, *self.logs]
        return [*others, self.session]

    @property
    def files(self) -> list[Path]:
        """All files of the session."""
        return [*self.own, *self.plans, *self.outputs]


def footprint_of(store: Store, session: Path) -> Footprint:
    """Return all files of a session, without following symlinks."""
    name = session.stem
    slugs, directories = _slugs_and_directories(session)
    root = root_of(store, session)
    agents = owners_in(session.parent, root)
    todos = store.todos.glob(f"{escape(name)}-agent-*.json")
    logs = [path for path in [store.logs / f"{name}.txt"] if path.is_file()]
    plans = [path for slug in sorted(slugs) for path in _plans(store, slug)]
    return Footprint(
        session=session,
        sidecars=files_below(root, sidecar_folder(session)),
        subagents=[path for path, owner in agents.items() if owner == name],
        backups=[
            p for kind in BY_SESSION for p in files_below(store.root, store.root / kind / name)
        ],
        todos=without_links(store.root, regular_paths(todos)),
        logs=without_links(store.root, logs),
        plans=without_links(store.root, plans),
        outputs=[path for cwd in sorted(directories) for path in _task_outputs(cwd, name)],
        directories=frozenset(directories),
    )


def files_by_session(store: Store) -> dict[str | None, list[Path]]:
    """Return every file that may contain session data, by session id.

    The key None is for files that sessions share and for leftovers of deleted sessions.
    """
    sessions = {path.stem for path in store.session_files()}
    owners: dict[Path, str | None] = {}
    for project in store.projects.glob("*/"):
        owners |= owners_in(project, store.root)
    found: dict[str | None, list[Path]] = {name: [] for name in (*sorted(sessions), None)}
    for folder in (store.projects, *_data_folders(store)):
        for path in filter(is_readable, files_below(store.root, folder)):
            parts = path.relative_to(store.root).parts
            names = (owners.get(path), path.stem, path.name.partition("-agent-")[0], *parts)
            found[next((name for name in names if name in sessions), None)].append(path)
    found[None] += [store.history] if store.history.is_file() else []
    for folder in _outputs_root().glob("*/*/"):
        if folder.name in sessions:
            found[folder.name] += filter(is_readable, files_below(_temporary(), folder))
    return found


def session_folders(store: Store, session: Path) -> list[Path]:
    """Return the folders that contain only files of a session."""
    return [sidecar_folder(session), *(store.root / kind / session.stem for kind in BY_SESSION)]


def root_of(store: Store, session: Path) -> Path:
    """Return the root below which the files of a session must not be reached through symlinks.

    It is the store, or the session's own folder if a path outside the store was given.
    """
    return store.root if session.is_relative_to(store.root) else session.parent


def owners_in(project: Path, root: Path) -> dict[Path, str | None]:
    """Return the sub-agent files among a project's sessions (2.0.x), with the session of each."""
    owners = {path: _owner(path) for path in without_links(root, adjacent_subagents(project))}
    metas = {subagent_meta(path): owner for path, owner in owners.items()}
    existing = without_links(root, filter(Path.is_file, metas))
    return owners | {path: metas[path] for path in existing}


def files_below(root: Path, folder: Path) -> list[Path]:
    """Return the regular files in a folder and its subfolders, without following links.

    Return an empty list if the folder, or a folder between it and the root, is a link.
    """
    if link := find_link(root, folder):
        if os.path.lexists(folder):
            note_link(root, link)
        return []
    found: list[Path] = []
    for path in folder.rglob("*"):
        if is_link(path):
            note_link(root, path)
        elif path.suffix == ".jsonl" or not path.is_dir():
            found.append(path)
    return regular_paths(found)


def _slugs_and_directories(session: Path) -> tuple[set[str], set[str]]:
    """Return the nicknames of a session, which name its plans, and its working directories."""
    slugs: set[str] = set()
    directories: set[str] = set()
    for _, entry in read_entries(session):
        if isinstance(entry, ChainEntry):
            slugs.add(given(entry.slug) or "")
            directories.add(given(entry.cwd) or "")
    return slugs - {""}, directories - {""}


def _task_outputs(cwd: str, name: str) -> list[Path]:
    return files_below(_temporary(), _outputs_root() / folder_name(cwd) / name)


def _outputs_root() -> Path:
    user = f"-{os.getuid()}" if hasattr(os, "getuid") else ""
    return _temporary() / f"claude{user}"


def _temporary() -> Path:
    return Path(tempfile.gettempdir())


def _data_folders(store: Store) -> list[Path]:
    shared = [store.todos, store.plans, store.pastes, store.logs, store.agent_notes]
    return [*shared, *(store.root / kind for kind in BY_SESSION)]


def _plans(store: Store, nickname: str) -> list[Path]:
    """Return a session's plan and those of its sub-agents (2.1.325)."""
    # The nickname comes from the session file and becomes part of a path and a glob pattern:
    # `../../x` or `*` must not match files of other sessions.
    if not NICKNAME.fullmatch(nickname):
        return []
    # Another machine's version (`x.1a2b3c4d.theirs.md`) is the session's as well.
    names = (f"{nickname}.md", f"{nickname}.*.theirs.md", f"{nickname}-agent-*.md")
    return [path for name in names for path in regular_paths(store.plans.glob(name))]


def _owner(subagent: Path) -> str | None:
    with skipping(subagent):
        named = (given(entry.session_id) for _, entry in read_entries(subagent))
        return next(filter(None, named), None)
    return None
