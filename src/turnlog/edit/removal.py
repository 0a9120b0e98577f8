"""Plan the removal of sessions with all their files; the journal keeps them for an undo."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from turnlog.edit.apply import Change
from turnlog.format.jsonl import FileState, read_lines
from turnlog.store.footprint import footprint_of, session_folders
from turnlog.store.paths import Store


@dataclass
class Removal:
    """The files to be removed."""

    sessions: Sequence[Path]
    leaving: list[Change] = field(default_factory=list[Change])
    clearing: list[Path] = field(default_factory=list[Path])
    """Folders to remove once they are empty."""
    history: list[Change] = field(default_factory=list[Change])
    prompts: int = 0
    """Number of prompts removed from the history."""

    @property
    def changes(self) -> list[Change]:
        return self.history + self.leaving

    @property
    def sizes(self) -> list[int]:
        """Sizes of the removed files."""
        return [change.was.size for change in self.leaving if change.was]


def plan_removal(store: Store, sessions: Sequence[Path], with_prompts: bool = False) -> Removal:
    """Plan to remove sessions with all their files and, if requested, their prompts."""
    removal = Removal(sessions)
    files: dict[Path, None] = {}
    for session in sessions:
        files |= dict.fromkeys(footprint_of(store, session).own)
        removal.clearing += session_folders(store, session)
    removal.leaving = [Change(path, None, FileState.of(path)) for path in files]
    if with_prompts and store.history.exists():
        _remove_prompts(removal, store.history)
    return removal


def _remove_prompts(removal: Removal, history: Path) -> None:
    state = FileState.of(history)
    # Comparing bytes keeps lines that cannot be parsed, and is enough: the client writes no spaces.
    marks = [f'"sessionId":"{session.stem}"'.encode() for session in removal.sessions]

    def stays(raw: bytes) -> bool:
        return not any(mark in raw for mark in marks)

    removal.prompts = sum(not stays(line.raw) for line in read_lines(history))
    if removal.prompts:
        rest = (line.raw for line in read_lines(history) if stays(line.raw))
        removal.history.append(Change(history, rest, state, is_log=True))
