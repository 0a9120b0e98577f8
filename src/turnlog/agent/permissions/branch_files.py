"""Find the files that a git command would replace from a branch, commit or stash, or reset.

`git checkout topic` names no file, but may replace `.claude/settings.json`.
"""

import re
import subprocess
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

from msgspec import Struct

from turnlog.agent.permissions.bash import UnknownValue, Word
from turnlog.agent.permissions.file_verdicts import READING, WRITING, restricted, unknown_files
from turnlog.agent.permissions.git_calls import GitArguments, parse_call
from turnlog.agent.permissions.git_reader import GitReader
from turnlog.agent.permissions.git_repository import Repository
from turnlog.agent.permissions.git_subcommands import BRINGING
from turnlog.agent.permissions.interrupted_operations import read_continuation
from turnlog.agent.permissions.path_access import is_guarded
from turnlog.agent.permissions.policy import AccessDecision, Policy, VerdictKind
from turnlog.agent.permissions.working_directories import arguments_in

MOST_NAMES = 2_000
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
SHIFTING = re.compile(r"subtree(?:=.*)?", re.S)
"""An option of a strategy that puts the files of a branch into another directory."""
STRATEGIES = frozenset("octopus ort ours recursive resolve".split())
"""Merge strategies of git itself; for any other, git runs a program `git-merge-NAME`."""
UNSTAGING = {
    "reset": frozenset("--mixed -N -q --quiet --soft".split()),
    "restore": frozenset("-q --quiet -S --staged".split()),
}
"""Flags with which a subcommand changes only the index."""
CONTINUING = frozenset("--abort --continue --quit --skip".split())
UPSTREAM, PICKING = frozenset(("merge", "rebase")), frozenset(("cherry-pick", "revert"))
UPSTREAM_BRANCH = "@{upstream}"
"""What `git merge` and `git rebase` take without operands, if the branch has one upstream."""
SEVERAL = ("...", "FETCH_HEAD", "^!", "^@", "^-")
"""Parts of a revision that stands for several commits, or not for the commit it starts with."""
REVISION = re.compile(r"(?!-)[\w./+#=-]*(?:@\{(?:[0-9]+|u|upstream)\}|[~^][0-9]*|@)*", re.ASCII)
"""A commit to merge or apply, as everybody writes it: `topic~2`, but not `:/text` or `x^{/text}`.

A text to search for may contain dots, which look like a range.
"""
AT = re.compile(r"@\{([^}]*)")
NUMBERED = re.compile(r"-?[0-9]+|u|upstream|push", re.ASCII)
STASHES = "stash"
STASH = re.compile(r"(?:stash@\{)?([0-9]+)\}?", re.ASCII)
QUIET_STASH = frozenset("clear create drop list show store".split())
TAKING_STASH = frozenset("apply branch pop".split())
UNTRACKED = frozenset(("-u", "--include-untracked"))
UNKNOWN_CHANGE = "which files git changes is only known when it runs"


class BranchChange(Struct, frozen=True):
    """The files that a call of git may replace."""

    revisions: tuple[str, ...] = ()
    """Arguments that may name commits; one that does not is a path or a new branch."""
    paths: tuple[str, ...] = ()
    """The paths that the call is limited to; empty if it is not."""
    resets: bool = False
    """True if uncommitted changes may be lost."""
    ranges: tuple[tuple[str, str], ...] = ()
    """Ranges `first..last` of commits that are applied one by one."""
    picked: tuple[str, ...] = ()
    """Commits whose diffs are applied, as by `git cherry-pick` and `git revert`."""
    merges: bool = False
    """True if changes are merged, which follows renames."""
    unstashes: bool = False
    """True if the revisions are stashes."""
    takes_untracked: bool = False
    """True if untracked files are stashed."""
    only_stages: bool = False
    """True if it changes only the index."""
    runs_programs: bool = False
    """True if the call names programs that run in between, as `git rebase -x make` does."""


def guard_branch(
    words: tuple[Word, ...], place: Path, repository: Repository, policy: Policy
) -> Iterator[AccessDecision]:
    """Ask about a call of git that changes a protected file, or one that a rule restricts."""
    if not words[1:] or (words[1].is_known and words[1].text not in BRINGING):
        return
    try:
        change = read_change(arguments_in(words[1:], place), repository.directory)
        names = _changed_names(change, place, repository, policy) if change else []
    except (OSError, UnknownValue, ValueError, subprocess.TimeoutExpired):
        yield unknown_files(UNKNOWN_CHANGE, policy)
        return
    if len(names) > MOST_NAMES:
        yield unknown_files(UNKNOWN_CHANGE, policy)
        return
    if change and change.runs_programs and policy.has_file_rules:
        yield unknown_files(UNKNOWN_CHANGE, policy)
    paths = [repository.top / name for name in names]
    # A file or link replaces the directory, with everything in it.
    if any(path.is_dir() and not path.is_symlink() for path in paths):
        yield unknown_files(UNKNOWN_CHANGE, policy)
    # A mode may skip the first finding, but not the second one.
    guarded = (each for each in paths if is_guarded(each, policy.directories, policy.added_path))
    if path := next(guarded, None):
        yield AccessDecision(VerdictKind.ASK, f"{path} is protected", is_guarded=True)
    if found := next(filter(None, (restricted(e, policy, WRITING, "Edit") for e in paths)), None):
        yield AccessDecision(VerdictKind.ASK, found.reason, is_firm=True)


def read_change(arguments: tuple[str, ...], directory: Path) -> BranchChange | None:
    """Return the change that a call of git may make; None if it replaces no files.

    Raises `UnknownValue` if the change is only known when git runs.
    """
    subcommand, texts = next(iter(arguments), ""), list(arguments[1:])
    if subcommand not in BRINGING:
        return None
    if subcommand == "stash":
        return _read_stash(texts)
    if subcommand == "sparse-checkout" and texts == ["list"]:
        return None
    call = parse_call(subcommand, texts)
    if subcommand in UPSTREAM | PICKING:
        if not call.flags.isdisjoint(CONTINUING):
            return _read_continuation(subcommand, texts, directory)
        return _read_merge(subcommand, call)
    return _read_move(subcommand, call)


def _read_continuation(subcommand: str, texts: list[str], directory: Path) -> BranchChange | None:
    """Return the change of `--abort`, `--continue` or `--skip`, which take no other arguments."""
    if len(texts) != 1:
        raise UnknownValue(subcommand)
    left = read_continuation(subcommand, texts[0], directory)
    if left is None:
        return None
    return BranchChange(left.target, resets=left.resets, picked=left.commits, merges=True)


def _read_move(subcommand: str, call: GitArguments) -> BranchChange:
    """Return the change of a call that takes files from a commit or from the index."""
    named = [*call.operands, *call.values_of("-s", "--source")]
    _check_revisions(named)
    # `git restore --source=topic --staged x` changes only the index, too.
    if call.flags <= UNSTAGING.get(subcommand, frozenset()) and (
        subcommand == "reset" or not call.flags.isdisjoint(("-S", "--staged"))
    ):
        return BranchChange(tuple(named), only_stages=True)
    # With several operands all but the first are paths, even if a branch has the same name.
    is_switch = subcommand == "switch" or (
        subcommand == "checkout" and not call.paths and len(named) < 2
    )
    is_forced = not call.flags.isdisjoint(("-f", "--force"))
    return BranchChange(tuple(named), tuple(call.paths), resets=is_forced or not is_switch)


def _read_merge(subcommand: str, call: GitArguments) -> BranchChange:
    """Return the change of a call that merges commits, or applies them one by one."""
    strategies = call.values_of("--strategy", *(() if subcommand in PICKING else ("-s",)))
    chosen = call.values_of("-X", "--strategy-option")
    if not STRATEGIES.issuperset(strategies) or any(map(SHIFTING.fullmatch, chosen)):
        raise UnknownValue(subcommand)
    named = [*call.operands, *call.values_of("--onto")]
    _check_revisions(named)
    if not all(REVISION.fullmatch(end) for text in named for end in text.split("..")):
        raise UnknownValue(subcommand)
    if subcommand in UPSTREAM and not call.operands:
        named.append(UPSTREAM_BRANCH)
    ranges = [_ends(text) for text in named if ".." in text]
    # Next to a range, git applies all ancestors of the other operands.
    if ranges and (len(named) > 1 or subcommand in UPSTREAM):
        raise UnknownValue(subcommand)
    is_pick = subcommand in PICKING
    # A rebase that stops at a conflict leaves the files of an intermediate commit.
    ranges += _replayed(named) if subcommand == "rebase" else ()
    return BranchChange(
        () if is_pick else tuple(named),
        resets="--autostash" in call.flags,
        ranges=tuple(ranges),
        picked=tuple(text for text in named if ".." not in text) if is_pick else (),
        merges=True,
        runs_programs=bool(call.values_of("--exec", *(() if is_pick else ("-x",)))),
    )


def _check_revisions(named: list[str]) -> None:
    """Raise `UnknownValue` for an operand that may stand for several commits, or vary in time."""
    # `git cherry-pick topic^!`, `git cherry-pick ^main topic`
    for text in named:
        if text.startswith("^") or any(sign in text for sign in SEVERAL):
            raise UnknownValue(text)
        # What `topic@{3.seconds.ago}` is changes until git runs.
        if not all(map(NUMBERED.fullmatch, AT.findall(text))):
            raise UnknownValue(text)


def _replayed(named: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the ranges that a rebase may replay: `main..HEAD`, or `main..topic`."""
    yield from ((text, "HEAD") for text in named)
    if len(named) > 1:
        yield from (("HEAD", text) for text in named)
        yield from permutations(named, 2)


def _ends(text: str) -> tuple[str, str]:
    first, _, last = text.partition("..")
    return first or "HEAD", last or "HEAD"


def _read_stash(texts: list[str]) -> BranchChange | None:
    # An option first means `push`: in `git stash -m list`, `list` is the message.
    action = texts[0] if texts and not texts[0].startswith("-") else "push"
    if action in QUIET_STASH:
        return None
    call = parse_call(f"stash {action}", texts[1:] if texts[:1] == [action] else texts)
    if action in TAKING_STASH:
        given = call.operands[1:] if action == "branch" else call.operands
        numbers = [found[1] for found in map(STASH.fullmatch, given or ["0"]) if found]
        # Any commit can pose as a stash: `git stash apply topic`.
        if len(numbers) != 1 or len(given) > 1:
            raise UnknownValue(action)
        return BranchChange((f"refs/stash@{{{numbers[0]}}}",), unstashes=True, merges=True)
    return BranchChange(resets=True, takes_untracked=not call.flags.isdisjoint(UNTRACKED))


def _changed_names(
    change: BranchChange, place: Path, repository: Repository, policy: Policy
) -> list[str]:
    """Return the names that a call may change, relative to the top of the work tree."""
    git = GitReader(place, repository)
    _require_plain_settings(change, git)
    if change.only_stages:
        _check_staged(change, git, policy)
        return []
    head = git.head_tree() or EMPTY_TREE
    names: list[str] = []
    resets = change.resets or (change.merges and git.stashes_by_default())
    for text in change.revisions:
        # A path in place of a branch: `git checkout .claude`, `git checkout .`
        resets |= not any(git.trees_of(text))
        trees = [tree for tree in git.trees_named(text) if tree]
        # Without stashes, a branch may pose as one: `git stash apply stash@{0}`.
        if change.unstashes and not trees and git.tree_of(STASHES):
            raise UnknownValue(text)
        for tree in trees:
            names += git.differing(head, tree, change.paths)
        names += _unstashed(text, trees[0], git) if trees and change.unstashes else ()
    names += _applied(change, git)
    if change.merges:
        _require_one_meaning(change, git)
        names += git.watched(_rename_targets(change, git), policy)
    if resets:
        names += git.uncommitted(head, policy)
    if change.takes_untracked:
        names += git.names_from("ls-files", "--others", "--exclude-standard", "--full-name", ":/")
    return list(dict.fromkeys(names))


def _require_plain_settings(change: BranchChange, git: GitReader) -> None:
    """Raise `UnknownValue` if settings decide which files git changes."""
    if git.is_elsewhere() or git.is_selective():
        raise UnknownValue("core.worktree")
    if change.merges and git.has_merge_options():
        raise UnknownValue("branch.*.mergeOptions")
    if UPSTREAM_BRANCH in change.revisions and git.has_several_upstreams():
        raise UnknownValue(UPSTREAM_BRANCH)


def _require_one_meaning(change: BranchChange, git: GitReader) -> None:
    """Raise `UnknownValue` if a tag has the name of a branch: git takes now one, now the other."""
    ends = [end for ends in change.ranges for end in ends]
    for text in dict.fromkeys((*change.revisions, *change.picked, *ends)):
        if git.is_ambiguous(text):
            raise UnknownValue(text)


def _applied(change: BranchChange, git: GitReader) -> Iterator[str]:
    """Yield the names in the diffs of commits that are applied one by one."""
    for text in change.picked:
        if git.tree_of(text):
            yield from git.touched("--no-walk", text)
    for first, last in change.ranges:
        if git.tree_of(first) and git.tree_of(last):
            yield from git.touched(last, f"^{first}")
        elif not change.revisions:  # a rebase may name a branch of a remote
            raise UnknownValue(f"{first}..{last}")


def _rename_targets(change: BranchChange, git: GitReader) -> Iterator[str]:
    """Yield the names to which a merge may apply the changes of other files.

    If `s.txt` became `.envrc` here, a merge applies what a branch changed in `s.txt` to `.envrc`.
    Such a name is in the index, but not in the commit that both sides started from.
    """
    bases = [base for ends in change.ranges for base in git.boundaries(*ends)]
    bases += [base for text in change.picked for base in (text, f"{text}^1", f"{text}^2")]
    if change.unstashes:
        bases += [f"{text}^1" for text in change.revisions]
    else:
        bases += [base for text in change.revisions for base in git.merge_bases(text)]
    for base in bases:
        if tree := git.tree_of(base):
            yield from git.added_since(tree)


def _unstashed(text: str, tree: str, git: GitReader) -> Iterator[str]:
    yield from git.differing(git.tree_of(f"{text}^1") or EMPTY_TREE, tree, ())
    # The third parent of a stash holds files that were not tracked.
    if untracked := git.tree_of(f"{text}^3"):
        yield from git.differing(EMPTY_TREE, untracked, ())


def _check_staged(change: BranchChange, git: GitReader, policy: Policy) -> None:
    """Raise `UnknownValue` if a denied file may be staged under another name.

    From the index it can be checked out, and `git diff` shows it.
    """
    if any(rule.tool in READING for rule in (*policy.deny, *policy.ask)):
        for text in change.revisions:
            git.tree_of(text)
