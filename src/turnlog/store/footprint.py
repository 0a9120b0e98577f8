"""Everything on disk that belongs to one session: the files to change together, move or remove."""

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
from turnlog.store.paths import BY_SESSION, Store, adjacent_subagents, folder_name, sidecar_folder
from turnlog.store.symlinks import find_link, is_link, note_link, without_links

NICKNAME = re.compile(r"[\w-]+")


@dataclass(frozen=True)
class Footprint:
    """The files of a session, by what they are."""

    session: Path
    sidecars: list[Path]
    """Sub-agents, saved outputs, workflows, the title: what lies in the session's own folder."""
    subagents: list[Path]
    """Sub-agents that lie beside the session (2.0.x)."""
    backups: list[Path]
    """Copies of edited files, pictures and uploads that the client keeps in folders of its own."""
    todos: list[Path]
    logs: list[Path]
    plans: list[Path]
    """Plans may be shared: forks of a session go on with the same one."""
    outputs: list[Path]
    """Outputs of background tasks, in the system's folder for temporary files."""
    directories: frozenset[str]
    """The working directories that its entries name."""

    @property
    def own(self) -> list[Path]:
        """The files that are of no use without the session, which comes last."""
        beside = [*self.sidecars, *self.subagents, *self.backups, *self.todos, *self.logs]
        return [*beside, self.session]

    @property
    def files(self) -> list[Path]:
        """All of them."""
        return [*self.own, *self.plans, *self.outputs]


def footprint_of(store: Store, session: Path) -> Footprint:
    """Find all files of a session, but for those that symlinks lead to."""
    name = session.stem
    slugs, directories = _told_by(session)
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
    """Every file in which something of a session can be, by the session; None for what they share,
    and for what is left of sessions that are gone."""
    sessions = {path.stem for path in store.session_files()}
    owners: dict[Path, str | None] = {}
    for project in store.projects.glob("*/"):
        owners |= owners_in(project, store.root)
    found: dict[str | None, list[Path]] = {name: [] for name in (*sorted(sessions), None)}
    for folder in (store.projects, *_kept_folders(store)):
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
    """The folders that hold nothing but files of a session."""
    return [sidecar_folder(session), *(store.root / kind / session.stem for kind in BY_SESSION)]


def root_of(store: Store, session: Path) -> Path:
    """Return the directory below which no symlink may lead to files of a session.

    That is the store; of a session that the user names by its path elsewhere, its own directory.
    """
    return store.root if session.is_relative_to(store.root) else session.parent


def owners_in(project: Path, root: Path) -> dict[Path, str | None]:
    """The sub-agent files among the sessions of a project (2.0.x), with the session of each."""
    return {path: _owner(path) for path in without_links(root, adjacent_subagents(project))}


def files_below(root: Path, folder: Path) -> list[Path]:
    """Return the regular files in a folder and its folders, without what links lead to.

    Neither the folder nor anything between it and the root may be a link either.
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


def _told_by(session: Path) -> tuple[set[str], set[str]]:
    """The nicknames of a session, which its plans are named by, and its working directories."""
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


def _kept_folders(store: Store) -> list[Path]:
    shared = [store.todos, store.plans, store.pastes, store.logs, store.agent_notes]
    return [*shared, *(store.root / kind for kind in BY_SESSION)]


def _plans(store: Store, nickname: str) -> list[Path]:
    """A session's plan, and those of its sub-agents (2.1.325)."""
    if not NICKNAME.fullmatch(nickname):
        return []
    names = (f"{nickname}.md", f"{nickname}-agent-*.md")
    return [path for name in names for path in regular_paths(store.plans.glob(name))]


def _owner(subagent: Path) -> str | None:
    with skipping(subagent):
        named = (given(entry.session_id) for _, entry in read_entries(subagent))
        return next(filter(None, named), None)
    return None
