"""Find what `git rebase --abort`, `git cherry-pick --continue` and the like would still do.

Git keeps the state of an interrupted operation in files of the git directory. Another call may have
moved the branch, and so the files that `--abort` brings back, in the meantime.
"""

import re
from pathlib import Path

from msgspec import Struct

from turnlog.agent.permissions.bash import UnknownValue, is_there
from turnlog.format.regular_files import read_regular

LARGEST = 1 << 20
HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
STEP = re.compile(r"(?:pick|p|reword|r|edit|e|squash|s|fixup|f) ([0-9a-f]{7,64})(?: .*)?")
"""A line of the todo list that applies one commit."""
IGNORED = re.compile(r"#.*|(?:drop|d|noop|break|b|update-ref)(?: .*)?|")
MERGED, APPLIED = "rebase-merge", "rebase-apply"
"""The directories with the state of a rebase; git looks for the second one first."""


class Continuation(Struct, frozen=True):
    """The rest of an interrupted operation."""

    target: tuple[str, ...] = ()
    """The commit whose files are brought back."""
    resets: bool = False
    """True if changed files are reset to the current commit."""
    commits: tuple[str, ...] = ()
    """Commits that are still to be applied."""


def read_continuation(subcommand: str, option: str, directory: Path) -> Continuation | None:
    """Return what `--abort`, `--continue` or `--skip` does; None if it changes no file.

    Raises `UnknownValue` or `OSError` if that cannot be read from the git directory.
    """
    if option == "--quit":
        return None
    if subcommand == "rebase":
        return _read_rebase(option, directory)
    # Several commits are picked, or git applies a stash in the end.
    if any(is_there(directory / name) for name in ("sequencer", "MERGE_AUTOSTASH")):
        raise UnknownValue(option)
    return None if option == "--continue" else Continuation(resets=True)


def _read_rebase(option: str, directory: Path) -> Continuation | None:
    state = directory / MERGED
    # Git applies the stash that `autostash` names in the end.
    if is_there(directory / APPLIED) or is_there(state / "autostash"):
        raise UnknownValue(option)
    if not is_there(state):  # git reports that there is no rebase
        return None
    if option == "--abort":
        target = _read(state / "orig-head").strip()
        if not HASH.fullmatch(target):
            raise UnknownValue(option)
        return Continuation((target,), resets=True)
    left: list[str] = []
    for line in _read(state / "git-rebase-todo").splitlines():
        if found := STEP.fullmatch(line.strip()):
            left.append(found[1])
        elif not IGNORED.fullmatch(line.strip()):
            raise UnknownValue(line)
    return Continuation(resets=option == "--skip", commits=tuple(left))


def _read(path: Path) -> str:
    return read_regular(path, LARGEST).decode()
