"""Group files by session, using only names and file states.

Only a new sub-agent file outside its session's folder is opened: its entries name the session.
"""

import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from turnlog.format.decode import read_entries
from turnlog.format.fields import given
from turnlog.format.jsonl import FileState
from turnlog.format.regular_files import entries_of, is_folder, is_regular, open_regular
from turnlog.store.archive.allowed_paths import HISTORY, SHARED, is_session_id, session_problem
from turnlog.store.paths import (
    BY_SESSION,
    META_SUFFIX,
    SUBAGENTS,
    Store,
    is_session_name,
    is_subagent_file,
)
from turnlog.store.symlinks import find_link

SLUG = re.compile(rb'"slug":"([\w-]+)"')
BLOCK = 8 << 20
"""Bytes to read at once."""


class Found(NamedTuple):
    """A file in the store."""

    state: FileState
    mode: int


Files = dict[str, Found]
"""Files by their paths in the store."""


def files_by_session(
    store: Store, owners: Mapping[str, str], ownerless: list[str] | None = None
) -> dict[str, Files]:
    """Return the files of each session; `owners` maps known sub-agent files to sessions.

    Sub-agents belong to their session even if its own file is missing. Those whose entries name no
    session are added to `ownerless`.
    """
    found: dict[str, Files] = {}
    loose: Files = {}
    for project in _entries(store.projects):
        if is_folder(project):
            _find_in_project(project.path, found, loose)
    _add_by_session(store, found)
    for entry in _entries(store.todos):
        name = entry.name.partition("-agent-")[0]
        if name in found and is_session_id(name) and entry.is_file(follow_symlinks=False):
            _add(entry, found[name])
    relative = {name: _relative(files, store.root) for name, files in found.items()}
    for path, file in _relative(loose, store.root).items():
        log = path.removesuffix(META_SUFFIX) + ".jsonl" if path.endswith(META_SUFFIX) else path
        name = owners.get(log) or _owner(store.root / log)
        if name and session_problem(name) is None:
            relative.setdefault(name, {})[path] = file
        elif ownerless is not None and file.state.size:
            ownerless.append(path)
    return relative


def shared_files(store: Store) -> Files:
    """Return the files that sessions share: the prompt history, plans and pasted texts."""
    files: Files = {}
    entries = [each for each in _entries(store.root) if each.name == HISTORY]
    for folder in (store.plans, store.pastes):
        if not find_link(store.root, folder):
            entries += _entries(folder)
    for entry in entries:
        if is_regular(entry) and not entry.is_symlink():
            _add(entry, files)
    found = _relative(files, store.root)
    return {path: file for path, file in found.items() if SHARED.fullmatch(path)}


def slugs_in(transcript: Path) -> set[str]:
    """Return the nicknames of a session, which name its plans, without decoding its lines."""
    slugs: set[str] = set()
    with suppress(OSError), open_regular(transcript) as file:
        while lines := file.readlines(BLOCK):
            slugs.update(map(bytes.decode, SLUG.findall(b"".join(lines))))
    return slugs


def _add_by_session(store: Store, found: dict[str, Files]) -> None:
    # Only names that look like session ids are used as folder names: a session file called
    # `memory.jsonl` must not claim the folder `memory/`. Each folder is listed once: looking for
    # five subfolders of each of 100,000 sessions takes seconds.
    for kind in BY_SESSION:
        for entry in _entries(store.root / kind):
            if entry.name in found and is_session_id(entry.name):
                _add_below(entry.path, found[entry.name])


def _find_in_project(project: str, found: dict[str, Files], loose: Files) -> None:
    entries = _entries(project)
    for entry in entries:
        if is_session_name(entry.name) and is_regular(entry):
            _add(entry, found.setdefault(entry.name.removesuffix(".jsonl"), {}))
        elif entry.name.startswith("agent-") and is_regular(entry) and not entry.is_symlink():
            _add(entry, loose)
        elif entry.name == SUBAGENTS and entry.is_dir(follow_symlinks=False):
            _add_subagents(entry.path, loose)
    for entry in entries:
        if is_session_id(entry.name) and entry.is_dir(follow_symlinks=False):
            below: Files = {}
            _add_below(entry.path, below)
            if below:
                found.setdefault(entry.name, {}).update(below)


def _add_subagents(folder: str, loose: Files) -> None:
    for entry in _entries(folder):
        if is_subagent_file(entry.name) and is_regular(entry) and not entry.is_symlink():
            _add(entry, loose)


def _add_below(folder: str | Path, files: Files) -> None:
    for entry in _entries(folder):
        if entry.is_dir(follow_symlinks=False) and not entry.name.endswith(".jsonl"):
            _add_below(entry.path, files)
        elif is_regular(entry) and not entry.is_symlink():
            _add(entry, files)


def _add(entry: "os.DirEntry[str]", files: Files) -> None:
    with suppress(OSError):  # deleted since it was listed
        found = entry.stat()
        state = FileState(found.st_ino, found.st_size, found.st_mtime_ns)
        files[entry.path] = Found(state, stat.S_IMODE(found.st_mode))


def _entries(folder: str | Path) -> "list[os.DirEntry[str]]":
    return sorted(entries_of(folder), key=lambda entry: entry.name)


def _relative(files: Files, root: Path) -> Files:
    prefix = f"{root}{os.sep}"
    return {path.removeprefix(prefix): file for path, file in files.items()}


def _owner(subagent: Path) -> str | None:
    try:
        named = (given(entry.session_id) for _, entry in read_entries(subagent))
        return next(filter(None, named), None)
    except OSError:
        return None
