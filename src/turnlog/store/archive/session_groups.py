"""Which files belong to which session, found by their names and states alone.

Only a new sub-agent's file outside its session's folder is opened: its entries tell whose it is.
"""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from turnlog.format.decode import read_entries
from turnlog.format.fields import given
from turnlog.format.jsonl import FileState
from turnlog.format.regular_files import entries_of, is_folder, is_regular
from turnlog.store.archive.allowed_paths import is_session_id, session_problem
from turnlog.store.paths import BY_SESSION, SUBAGENTS, Store, is_session_name, is_subagent_name


class Found(NamedTuple):
    """A file in the store."""

    state: FileState
    mode: int


Files = dict[str, Found]
"""Files by their paths in the store."""


def files_by_session(
    store: Store, owners: Mapping[str, str], ownerless: list[str] | None = None
) -> dict[str, Files]:
    """The files of each session of the store; `owners` are the sessions of known sub-agents.

    Sub-agents belong to their session even if its own file is missing. Those whose lines name no
    session are added to `ownerless`.
    """
    found: dict[str, Files] = {}
    loose: Files = {}
    for project in _entries(store.projects):
        if is_folder(project):
            _find_in_project(project.path, found, loose)
    for name in filter(is_session_id, found):
        for kind in BY_SESSION:
            _add_below(store.root / kind / name, found[name])
    for each in _entries(store.todos):
        name = each.name.partition("-agent-")[0]
        if name in found and is_session_id(name) and each.is_file(follow_symlinks=False):
            _add(each, found[name])
    relative = {name: _relative(files, store.root) for name, files in found.items()}
    for path, file in _relative(loose, store.root).items():
        name = owners.get(path) or _owner(store.root / path)
        if name and session_problem(name) is None:
            relative.setdefault(name, {})[path] = file
        elif ownerless is not None and file.state.size:
            ownerless.append(path)
    return relative


def _find_in_project(project: str, found: dict[str, Files], loose: Files) -> None:
    entries = _entries(project)
    for each in entries:
        if is_session_name(each.name) and is_regular(each):
            _add(each, found.setdefault(each.name.removesuffix(".jsonl"), {}))
        elif each.name.startswith("agent-") and is_regular(each) and not each.is_symlink():
            _add(each, loose)
        elif each.name == SUBAGENTS and each.is_dir(follow_symlinks=False):
            _add_subagents(each.path, loose)
    for each in entries:
        if is_session_id(each.name) and each.is_dir(follow_symlinks=False):
            below: Files = {}
            _add_below(each.path, below)
            if below:
                found.setdefault(each.name, {}).update(below)


def _add_subagents(folder: str, loose: Files) -> None:
    for each in _entries(folder):
        if is_subagent_name(each.name) and is_regular(each) and not each.is_symlink():
            _add(each, loose)


def _add_below(folder: str | Path, files: Files) -> None:
    for each in _entries(folder):
        if each.is_dir(follow_symlinks=False) and not each.name.endswith(".jsonl"):
            _add_below(each.path, files)
        elif is_regular(each) and not each.is_symlink():
            _add(each, files)


def _add(entry: "os.DirEntry[str]", files: Files) -> None:
    with suppress(OSError):  # gone since it was listed
        found = entry.stat()
        state = FileState(found.st_ino, found.st_size, found.st_mtime_ns)
        files[entry.path] = Found(state, stat.S_IMODE(found.st_mode))


def _entries(folder: str | Path) -> "list[os.DirEntry[str]]":
    return sorted(entries_of(folder), key=lambda each: each.name)


def _relative(files: Files, root: Path) -> Files:
    prefix = f"{root}{os.sep}"
    return {path.removeprefix(prefix): file for path, file in files.items()}


def _owner(subagent: Path) -> str | None:
    try:
        named = (given(entry.session_id) for _, entry in read_entries(subagent))
        return next(filter(None, named), None)
    except OSError:
        return None
