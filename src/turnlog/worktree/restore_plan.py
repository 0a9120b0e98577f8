"""Plan which files to restore as of a moment, and which contents they may replace."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from turnlog.worktree.beliefs import Certainty
from turnlog.worktree.file_names import FileName
from turnlog.worktree.file_steps import branch_leaves
from turnlog.worktree.moments import FileMoment, state_at
from turnlog.worktree.safe_paths import safe_paths
from turnlog.worktree.worktree import FileRevision, Worktree


class RestoredFile(NamedTuple):
    """A file to restore."""

    parts: tuple[str, ...]
    """Its path below the target directory."""
    content: bytes
    replaceable: frozenset[str]
    """Hashes of all contents that the session shows: any other content was written since."""


@dataclass
class RestorePlan:
    """The files to restore, and those that cannot be restored."""

    files: list[RestoredFile] = field(default_factory=list[RestoredFile])
    states: list[FileRevision] = field(default_factory=list[FileRevision])
    """The states of `files`."""
    absent: list[FileRevision] = field(default_factory=list[FileRevision])
    """Files that did not exist then."""
    gaps: list[FileRevision] = field(default_factory=list[FileRevision])


def plan_restore(worktree: Worktree, moment: FileMoment, names: Iterable[FileName]) -> RestorePlan:
    """Return a plan to restore some files as of a moment."""
    plan = RestorePlan()
    paths = safe_paths(worktree.files.values(), worktree.root_of)
    for name in names:
        state = state_at(worktree, name, moment)
        if state.is_absent:
            plan.absent.append(state)
        elif state.certainty is Certainty.GAP or state.content is None:
            plan.gaps.append(state)
        else:
            known = known_hashes(worktree, name)
            plan.files.append(RestoredFile(paths[name.key], state.content, known))
            plan.states.append(state)
    return plan


def known_hashes(worktree: Worktree, name: FileName) -> frozenset[str]:
    """Return the hashes of all contents of a file that the session shows, on any branch."""
    found: set[str] = set()
    for leaf in branch_leaves(worktree.session):
        states = [worktree.base(name, leaf), *worktree.versions(name, leaf)]
        found |= {_hash(state.content) for state in states if state.content is not None}
    return frozenset(found)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
