"""One file across sessions: every change with its session, turn and prompt."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from turnlog.conversation.session import Session, open_session
from turnlog.format.regular_files import skipping
from turnlog.format.timestamps import seconds_of
from turnlog.worktree.file_steps import FileStep, all_steps
from turnlog.worktree.worktree import Worktree, open_worktree


class SessionStep(NamedTuple):
    """A change of a file in one session."""

    session: Session
    step: FileStep

    @property
    def is_active(self) -> bool:
        """True if the change is on the session's active branch."""
        return self.step.leaf is None


def history_of(sessions: Mapping[str, Iterable[Path]]) -> list[SessionStep]:
    """Return the changes of files in sessions, the oldest first.

    `sessions` maps the path of each file to the session files that mention it. A change that
    several sessions share, because one is a fork of another, counts once.
    """
    found: dict[tuple[str, ...], SessionStep] = {}
    for path, files in sessions.items():
        for each in files:
            with skipping(each):
                for step in _steps_in(open_worktree(open_session(each)), path):
                    version = step.step.version
                    call = version.call_id or f"{each}:{version.line}"
                    found.setdefault((path, call, version.time or "", version.tool), step)
    return sorted(found.values(), key=lambda each: seconds_of(each.step.version.time) or 0.0)


def _steps_in(worktree: Worktree, path: str) -> Iterator[SessionStep]:
    known = worktree.known(path)
    if known:
        for step in all_steps(worktree, known):
            yield SessionStep(worktree.session, step)
