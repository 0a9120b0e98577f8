"""Sessions taken to another working directory, after a project was moved or renamed.

Which directory a session belongs to is told by its entries: the names of folders are ambiguous.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from turnlog.edit.apply import Change
from turnlog.edit.journal import chunks_of
from turnlog.edit.relocate import Relocation, relocating, relocating_history
from turnlog.errors import NotFound, UsageError
from turnlog.format.decode import read_entries
from turnlog.format.entries import ChainEntry
from turnlog.format.fields import given
from turnlog.format.jsonl import FileState, read_lines
from turnlog.format.state import Relocated
from turnlog.store.footprint import files_below, owners_in, root_of
from turnlog.store.paths import TOOL_RESULTS, Store, folder_name, is_windows_path, sidecar_folder

MEMORY = "memory"
"""The folder of a project for what the model is to remember."""

Directories = dict[Path, str | None]
"""Sessions, and the directory of each; None where entries name none."""


@dataclass(frozen=True)
class Moved:
    """A session that gets another directory."""

    session: Path
    old: str | None
    new: str


@dataclass
class Move:
    """What is to become of each file."""

    store: Store
    relocation: Relocation
    sessions: list[Moved] = field(default_factory=list[Moved])
    arriving: list[Change] = field(default_factory=list[Change])
    leaving: list[Change] = field(default_factory=list[Change])
    prompts: int = 0
    """How many prompts of the history were typed in the old directory."""

    @property
    def changes(self) -> list[Change]:
        """Files leave their old places when all are in their new ones."""
        return self.arriving + self.leaving

    @property
    def sizes(self) -> list[int]:
        """The sizes of the files that go elsewhere, or may change in their place."""
        return [each.was.size for each in self.changes if each.was and not each.is_log]

    @property
    def clearing(self) -> list[Path]:
        """Folders that are left empty: those of sessions, or that of the whole project."""
        gone = {change.path for change in self.leaving}
        places = {path.relative_to(self.store.projects).parts[0] for path in gone}
        projects = [self.store.projects / name for name in sorted(places)]
        emptied = [
            folder for folder in projects if gone.issuperset(files_below(self.store.root, folder))
        ]
        sessions = [moved.session for moved in self.sessions if moved.session in gone]
        return emptied + [sidecar_folder(session) for session in sessions]


def move_session(store: Store, session: Path, new: str) -> Move:
    """Make a session one of another directory."""
    old = directory_of(session)
    move = Move(store, Relocation(old or new, new))
    _take_session(
        move, Moved(session, old, new), owners_in(session.parent, root_of(store, session))
    )
    _take_prompts(move, f'"sessionId":"{session.stem}"'.encode())
    return move


def move_project(store: Store, old: str, new: str) -> Move:
    """Make all sessions of a directory, and of those below it, sessions of another one."""
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
    """The directory that a session belongs to.

    Of those that its entries name, it is the one that its folder is named after, else the first.
    """
    seen: dict[str, None] = {}
    for _, entry in read_entries(session):
        named = entry.cwd if isinstance(entry, ChainEntry) else None
        named = entry.relocated_cwd if isinstance(entry, Relocated) else named
        directory = given(named)
        if directory and directory not in seen:
            if folder_name(directory) == session.parent.name:
                return directory
            seen[directory] = None
    return next(iter(seen), None)


def _take_folder(move: Move, folder: Path, directories: Directories) -> None:
    """Take the sessions of a folder that belong to the old directory.

    What names no directory, and the memory, go along if no other directory has sessions there.
    """
    moving = {s: new for s, old in directories.items() if old and (new := move.relocation.of(old))}
    if not moving and folder != move.store.project_of(move.relocation.old):
        return
    owners = owners_in(folder, move.store.root)
    for session, new in moving.items():
        _take_session(move, Moved(session, directories[session], new), owners)
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
    """Take files from one project's folder to another's; only lines change if it is the same."""
    rewrite = relocating(move.relocation)
    for path in files:
        state = FileState.of(path)
        content = map(rewrite, _lines_of(path)) if _is_noted(path) else chunks_of(path)
        if old != new:
            move.arriving.append(Change(new / path.relative_to(old), content, None, like=path))
            move.leaving.append(Change(path, None, state))
        elif _is_noted(path):
            move.arriving.append(Change(path, content, state))


def _is_noted(path: Path) -> bool:
    """Whether a file has notes of the client, not an output or a memory."""
    is_log = path.name.endswith((".jsonl", ".meta.json"))
    return is_log and path.parent.name not in (MEMORY, TOOL_RESULTS)


def _take_prompts(move: Move, mark: bytes = b"") -> None:
    """Let prompts of the history, or those of them that have a mark, name the new directory."""
    history = move.store.history
    if not history.exists():
        return
    rewrite = relocating_history(move.relocation)

    def moved(raw: bytes) -> bytes:
        return rewrite(raw) if mark in raw else raw

    state = FileState.of(history)
    move.prompts = sum(moved(raw) != raw for raw in _lines_of(history))
    if move.prompts:
        move.arriving.append(Change(history, map(moved, _lines_of(history)), state, is_log=True))


def _lines_of(path: Path) -> Iterator[bytes]:
    return (line.raw for line in read_lines(path))


def _spellings(directory: str) -> Iterable[str]:
    """How entries may name a directory that is perhaps gone, or a link to where it is now."""
    if is_windows_path(directory):
        return [directory]
    whole = Path(os.path.normpath(Path(directory).absolute()))
    beside = whole.parent.resolve() / whole.name
    return dict.fromkeys(map(str, (beside, whole, whole.resolve())))
