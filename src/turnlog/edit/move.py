"""Move sessions to another working directory, after a project was moved or renamed.

A session belongs to the directory that its entries name; folder names are ambiguous.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from turnlog.edit.apply import Change
from turnlog.edit.journal import chunks_of
from turnlog.edit.relocate import Relocation, history_relocator, line_relocator
from turnlog.errors import NotFound, UsageError
from turnlog.format.decode import read_entries
from turnlog.format.entries import ChainEntry
from turnlog.format.fields import given
from turnlog.format.jsonl import FileState, read_lines
from turnlog.format.state import Relocated
from turnlog.store.footprint import files_below, owners_in, root_of
from turnlog.store.paths import TOOL_RESULTS, Store, folder_name, is_windows_path, sidecar_folder

MEMORY = "memory"
"""The folder of a project's memory files."""

Directories = dict[Path, str | None]
"""The working directory of each session; None if its entries name none."""


@dataclass(frozen=True)
class Moved:
    """A session with its old and new directory."""

    session: Path
    old: str | None
    new: str


@dataclass
class Move:
    """The planned changes of a move."""

    store: Store
    relocation: Relocation
    sessions: list[Moved] = field(default_factory=list[Moved])
    arriving: list[Change] = field(default_factory=list[Change])
    leaving: list[Change] = field(default_factory=list[Change])
    prompts: int = 0
    """Number of prompts in the history that were typed in the old directory."""

    @property
    def changes(self) -> list[Change]:
        """Changes in order: all new files are written before any old one is removed."""
        return self.arriving + self.leaving

    @property
    def sizes(self) -> list[int]:
        """Sizes of the files that are moved or may be rewritten."""
        return [each.was.size for each in self.changes if each.was and not each.is_log]

    @property
    def clearing(self) -> list[Path]:
        """Folders to remove once they are empty: those of sessions, or of the whole project."""
        gone = {change.path for change in self.leaving}
        names = {path.relative_to(self.store.projects).parts[0] for path in gone}
        projects = [self.store.projects / name for name in sorted(names)]
        emptied = [
            folder for folder in projects if gone.issuperset(files_below(self.store.root, folder))
        ]
        sessions = [moved.session for moved in self.sessions if moved.session in gone]
        return emptied + [sidecar_folder(session) for session in sessions]


def move_session(store: Store, session: Path, new: str) -> Move:
    """Plan to move a session to another directory."""
    old = directory_of(session)
    move = Move(store, Relocation(old or new, new))
    _take_session(
        move, Moved(session, old, new), owners_in(session.parent, root_of(store, session))
    )
    _take_prompts(move, f'"sessionId":"{session.stem}"'.encode())
    return move


def move_project(store: Store, old: str, new: str) -> Move:
    """Plan to move all sessions of a directory and of directories below it."""
    directories = {session: directory_of(session) for session in store.session_files()}
    spellings = [each for each in _spellings(old) if each != new]
    if not spellings:
        raise UsageError(f"{old} and {new} are the same directory", "turnlog mv --help")
    for spelling in spellings:
        move = Move(store, Relocation(spelling, new))
        folders: dict[Path, Directories] = {store.project_of(spelling): {}}
        for session, directory in directories.items():
            folders.setdefault(session.parent, {})[session] = directory
        for folder, members in folders.items():
            _take_folder(move, folder, members)
        if move.changes:
            _take_prompts(move)
            return move
    raise NotFound(f"no sessions of {old} in {store.projects}", "turnlog ls")


def directory_of(session: Path) -> str | None:
    """Return the directory that a session belongs to.

    If its entries name several directories, this is the one that its folder is named after, or else
    the first.
    """
    directories: dict[str, None] = {}
    for _, entry in read_entries(session):
        named = entry.cwd if isinstance(entry, ChainEntry) else None
        named = entry.relocated_cwd if isinstance(entry, Relocated) else named
        directory = given(named)
        if directory and directory not in directories:
            # The session may have changed directories: /shop/web belongs to the folder -shop if it
            # was started in /shop.
            if folder_name(directory) == session.parent.name:
                return directory
            directories[directory] = None
    return next(iter(directories), None)


def _take_folder(move: Move, folder: Path, directories: Directories) -> None:
    """Plan to move the sessions of a folder that belong to the old directory.

    Sessions without a directory, and the memory, move along unless another directory has sessions
    in the same folder.
    """
    moving = {s: new for s, old in directories.items() if old and (new := move.relocation.of(old))}
    if not moving and folder != move.store.project_of(move.relocation.old):
        return
    owners = owners_in(folder, move.store.root)
    for session, new in moving.items():
        _take_session(move, Moved(session, directories[session], new), owners)
    # Folder names are ambiguous: /a/b-c and /a/b/c both become -a-b-c. A file that names no
    # directory may belong to either, so it stays if both have sessions in the folder.
    rest = directories.keys() - moving.keys()
    if any(directories[session] for session in rest):
        return
    new = next(iter(moving.values()), move.relocation.new)
    for session in sorted(rest):
        _take_session(move, Moved(session, None, new), owners)
    names = {session.stem for session in directories}
    agents = [path for path, owner in owners.items() if owner not in names]
    notes = files_below(move.store.root, folder / MEMORY)
    _take(move, [*agents, *notes], folder, move.store.project_of(new))


def _take_session(move: Move, moved: Moved, owners: dict[Path, str | None]) -> None:
    session = moved.session
    agents = [path for path, owner in owners.items() if owner == session.stem]
    sidecars = files_below(root_of(move.store, session), sidecar_folder(session))
    files = [*sidecars, *agents, session]
    _take(move, files, session.parent, move.store.project_of(moved.new))
    move.sessions.append(moved)


def _take(move: Move, files: list[Path], old: Path, new: Path) -> None:
    """Plan to move files between project folders, or to rewrite them within the same one."""
    rewrite = line_relocator(move.relocation)
    for path in files:
        state = FileState.of(path)
        content = map(rewrite, _lines_of(path)) if _is_noted(path) else chunks_of(path)
        if old != new:
            move.arriving.append(Change(new / path.relative_to(old), content, None, like=path))
            move.leaving.append(Change(path, None, state))
        elif _is_noted(path):
            move.arriving.append(Change(path, content, state))


def _is_noted(path: Path) -> bool:
    """Return whether a file is the client's log or metadata, not tool output or a memory file."""
    is_log = path.name.endswith((".jsonl", ".meta.json"))
    return is_log and path.parent.name not in (MEMORY, TOOL_RESULTS)


def _take_prompts(move: Move, mark: bytes = b"") -> None:
    """Plan to update the directory in those lines of the prompt history that contain `mark`."""
    history = move.store.history
    if not history.exists():
        return
    rewrite = history_relocator(move.relocation)

    def moved(raw: bytes) -> bytes:
        return rewrite(raw) if mark in raw else raw

    state = FileState.of(history)
    move.prompts = sum(moved(raw) != raw for raw in _lines_of(history))
    if move.prompts:
        move.arriving.append(Change(history, map(moved, _lines_of(history)), state, is_log=True))


def _lines_of(path: Path) -> Iterator[bytes]:
    return (line.raw for line in read_lines(path))


def _spellings(directory: str) -> Iterable[str]:
    """Return the ways in which entries may spell a directory that may be gone or a symlink."""
    if is_windows_path(directory):
        return [directory]
    whole = Path(os.path.normpath(Path(directory).absolute()))
    # The directory itself may be gone or a link to its new location, but its parent is likely real.
    resolved_parent = whole.parent.resolve() / whole.name
    return dict.fromkeys(map(str, (resolved_parent, whole, whole.resolve())))
