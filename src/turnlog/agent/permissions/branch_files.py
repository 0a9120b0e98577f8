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
from turnlog.agent.permissions.file_verdicts import READING, WRITING, restricted
from turnlog.agent.permissions.git_reader import GitReader
from turnlog.agent.permissions.git_repository import Repository
from turnlog.agent.permissions.path_access import is_guarded
from turnlog.agent.permissions.policy import AccessDecision, Policy, VerdictKind
from turnlog.agent.permissions.working_directories import arguments_in

MOST_NAMES = 2_000
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
BRINGING = frozenset(
    """
    checkout checkout-index cherry-pick merge merge-octopus merge-ort merge-recursive
    merge-recursive-ours merge-recursive-theirs merge-resolve merge-subtree read-tree rebase reset
    restore revert sparse-checkout stash switch
    """.split()
)
"""Subcommands that change tracked files without naming them."""
LIMITED = frozenset("checkout checkout-index reset restore".split())
"""Subcommands whose arguments after `--` are paths; the others merge or switch to them."""
SHIFTING = re.compile(r"(?:-\w*|--[a-z-]+=)?subtree(?:=.*)?")
"""The `subtree` strategy or option, which puts the files of a branch into another directory."""
RECURSION = "--recurse-submodules"
WHOLE = "--root"
"""The option of `git rebase` that replays all commits."""
STASH = "--autostash"
"""The option of `git merge` and `git rebase` that stashes changes; restoring them may fail."""
CREATING = frozenset("-b -B -c -C --create --force-create".split())
"""Options that are followed by the name of a new branch."""
KEEPING = {
    **dict.fromkeys(
        ("checkout", "switch"),
        CREATING
        | frozenset(
            """
            -d --detach --guess --no-guess --no-progress --no-track --progress -q --quiet -t --track
            """.split()
        ),
    ),
    "checkout-index": frozenset("-a --all -f --force -q --quiet -u --index".split()),
    "merge": frozenset(
        """
        --allow-unrelated-histories --autostash --cleanup --commit -e --edit --ff --ff-only
        --gpg-sign --log -m --message -n --no-autostash --no-commit --no-edit --no-ff --no-gpg-sign
        --no-log --no-progress --no-rerere-autoupdate --no-signoff --no-squash --no-stat --no-verify
        --progress -q --quiet --rerere-autoupdate -s -S --signoff --squash --stat --strategy
        --strategy-option -v --verbose --verify -X
        """.split()
    ),
    "rebase": frozenset(
        """
        --autosquash --autostash --committer-date-is-author-date --empty --exec -f --force-rebase
        --gpg-sign -i --ignore-date --interactive --keep-base --keep-empty -m --merge -n
        --no-autosquash --no-autostash --no-ff --no-gpg-sign --no-keep-empty
        --no-reapply-cherry-picks --no-rerere-autoupdate --no-stat --no-update-refs --no-verify
        --onto -q --quiet -r --reapply-cherry-picks --rebase-merges --rerere-autoupdate -s -S
        --signoff --stat --strategy --strategy-option --update-refs -v --verbose --verify
        -x -X
        """.split()
    ),
    "reset": frozenset("--hard -q --quiet".split()),
    "restore": frozenset("-q --quiet -s --source -S --staged -W --worktree".split()),
}
"""Allowlist of options that bring no files by themselves, by subcommand; any other option asks.

Git accepts abbreviated options, and new versions add options, so a denylist would never be
complete.
"""
DISCARDING = frozenset(
    """
    --conflict -f --force --ignore-other-worktrees --ignore-skip-worktree-bits -m --merge
    --no-overlay --no-overwrite-ignore --ours --overlay --overwrite-ignore --pathspec-from-file
    --theirs
    """.split()
)
"""Options with which `git checkout` may also discard changes."""
LISTING = frozenset(
    """
    --all --alternate-refs --bisect --branches --exclude --glob --not --reflog --remotes --stdin
    --tags
    """.split()
)
"""Options that select commits without naming them; git does not accept abbreviations of these."""
UNSTAGING = {
    "reset": frozenset("--mixed -N -q --quiet --soft".split()),
    "restore": frozenset("-q --quiet -S --staged".split()),
}
"""Options with which a subcommand changes only the index."""
PICKED = re.compile(
    r"-[ensx]+|-[mSX].*|--(?:allow-empty|allow-empty-message|cleanup|commit|edit|ff|gpg-sign"
    r"|keep-redundant-commits|mainline|no-commit|no-edit|no-gpg-sign|no-rerere-autoupdate"
    r"|no-signoff|rerere-autoupdate|signoff|st[a-z-]*)",
    re.S,
)
"""Options of `git cherry-pick` and `git revert` that do not select commits.

Both also accept the options of `git log`: `-5 --grep=x topic` applies a commit without naming it.
"""
JOINED = re.compile(r"-[adfqt]+[A-Za-z]")
"""Combined short options, of which only the last may take a value: `git switch -qc new`."""
CONTINUING = frozenset("--abort --continue --quit --skip".split())
RESETTING = frozenset("checkout-index read-tree reset restore".split())
UPSTREAM, PICKING = frozenset(("merge", "rebase")), frozenset(("cherry-pick", "revert"))
UPSTREAM_BRANCH = "@{upstream}"
"""What `git merge` and `git rebase` take without operands, if the branch has one upstream."""
SEVERAL = ("...", "FETCH_HEAD", "^!", "^@", "^-")
"""Parts of a revision that stands for several commits, or not for the commit it starts with."""
QUIET_STASH = frozenset("clear create drop list show store".split())
TAKING_STASH = frozenset("apply branch pop".split())
UNTRACKED = frozenset(("-u", "--include-untracked"))
PLAIN_STASH = frozenset(
    """
    -- -k --keep-index -m --message --no-keep-index --pathspec-file-nul --pathspec-from-file -q
    --quiet
    """.split()
)
UNKNOWN = "which files git changes is only known when it runs"


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
    picks: bool = False
    """True if it applies the diff of each commit, as `git cherry-pick` and `git revert` do."""
    unstashes: bool = False
    """True if the revisions are stashes."""
    takes_untracked: bool = False
    """True if untracked files are stashed."""
    only_stages: bool = False
    """True if it changes only the index."""


def unknown_files(policy: Policy) -> AccessDecision:
    """Return the decision about a call that may change any file, even one that a rule restricts."""
    has_rules = any(rule.tool in WRITING for rule in (*policy.deny, *policy.ask))
    return AccessDecision(VerdictKind.ASK, UNKNOWN, is_firm=has_rules, is_guarded=True)


def guard_branch(
    words: tuple[Word, ...], place: Path, repository: Repository, policy: Policy
) -> Iterator[AccessDecision]:
    """Ask about a call of git that changes a protected file, or one that a rule restricts."""
    if not words[1:] or (words[1].is_known and words[1].text not in BRINGING):
        return
    try:
        change = read_change(arguments_in(words[1:], place))
        names = _changed_names(change, place, repository, policy) if change else []
    except (OSError, UnknownValue, ValueError, subprocess.TimeoutExpired):
        yield unknown_files(policy)
        return
    if len(names) > MOST_NAMES:
        yield unknown_files(policy)
        return
    for path in (repository.top / name for name in names):
        # A file or link replaces the directory, with everything in it.
        if path.is_dir() and not path.is_symlink():
            yield unknown_files(policy)
            return
        if is_guarded(path, policy.directories, policy.added_path):
            yield AccessDecision(VerdictKind.ASK, f"{path} is protected", is_guarded=True)
            return
        if found := restricted(path, policy, WRITING, "Edit"):
            yield AccessDecision(VerdictKind.ASK, found.reason, is_firm=True)
            return


def read_change(arguments: tuple[str, ...]) -> BranchChange | None:
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
    named, paths, options = _operands(subcommand, texts)
    # Not `--abort --no-abort`, which merges.
    if options and options <= CONTINUING and subcommand in UPSTREAM | PICKING and not named:
        # `git rebase --skip` resets the files to where the branch is now, which may have moved.
        if subcommand == "rebase" and "--skip" in options:
            raise UnknownValue(subcommand)
        return None
    if _only_stages(subcommand, options):
        return BranchChange(tuple(named), only_stages=True)
    known = KEEPING.get(subcommand, frozenset())
    is_plain = subcommand in PICKING or options <= known
    is_known = is_plain or (subcommand == "checkout" and options <= known | DISCARDING)
    # `git restore -stopic`, `git switch --orphan x`, `git merge --into-name x`
    if not is_known or _is_doubtful(subcommand, texts, options):
        raise UnknownValue(subcommand)
    ranges = [_ends(text) for text in named if ".." in text]
    # Next to a range, git applies all ancestors of the other operands.
    if ranges and subcommand in PICKING and len(named) > 1:
        raise UnknownValue(subcommand)
    # The dots may also belong to one revision or path: `topic^{/a..b}`, `..`
    named = [part for text in named for part in (text, *(_ends(text) if ".." in text else ()))]
    if subcommand in UPSTREAM and not named:
        named = [UPSTREAM_BRANCH]
    # A rebase that stops at a conflict leaves the files of an intermediate commit.
    ranges += _replayed(named) if subcommand == "rebase" else ()
    # With several operands all but the first are paths, even if a branch has the same name.
    has_paths = bool(paths) or (subcommand == "checkout" and len(named) > 1)
    return BranchChange(
        tuple(named),
        tuple(paths),
        resets=subcommand in RESETTING
        or has_paths
        or not is_plain
        or _has_beginning(STASH, options),
        ranges=tuple(ranges),
        picks=subcommand in PICKING,
    )


def _is_doubtful(subcommand: str, texts: list[str], options: set[str]) -> bool:
    """Return whether a call may bring commits or files that its arguments do not name."""
    if subcommand == "sparse-checkout" or subcommand.startswith("merge-"):
        return True
    if any(SHIFTING.fullmatch(text) for text in texts) and subcommand in UPSTREAM | PICKING:
        return True
    if subcommand in PICKING and not all(map(PICKED.fullmatch, options)):
        return True
    if subcommand == "rebase" and _has_beginning(WHOLE, options):
        return True
    # `git cherry-pick topic^!`, `git cherry-pick ^main topic`, `git cherry-pick --stdin`
    if any(text.startswith("^") or any(sign in text for sign in SEVERAL) for text in texts):
        return True
    return not options.isdisjoint(LISTING) or _has_beginning(RECURSION, options)


def _has_beginning(name: str, options: set[str]) -> bool:
    """Return whether a long option is given, in full or abbreviated."""
    return any(name.startswith(option) for option in options if len(option) > 2)


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
    named = [text for text in texts if not text.startswith("-")]
    options = {text.partition("=")[0] for text in texts if text.startswith("-")}
    # An option first means `push`: in `git stash -m list`, `list` is the message.
    action = texts[0] if texts and texts[0] in named else "push"
    if action in QUIET_STASH:
        return None
    if action in TAKING_STASH:
        given = named[2:] if action == "branch" else named[1:]
        stashes = [f"stash@{{{text}}}" if text.isdecimal() else text for text in given]
        return BranchChange(tuple(stashes or ["stash@{0}"]), unstashes=True)
    if options - PLAIN_STASH - UNTRACKED:
        raise UnknownValue("stash")
    return BranchChange(resets=True, takes_untracked=not options.isdisjoint(UNTRACKED))


def _only_stages(subcommand: str, options: set[str]) -> bool:
    """Return whether a call leaves the files alone: `git reset HEAD~`, `git restore --staged .`."""
    if subcommand == "restore" and options.isdisjoint(("-S", "--staged")):
        return False
    return subcommand in UNSTAGING and options <= UNSTAGING[subcommand]


def _operands(subcommand: str, texts: list[str]) -> tuple[list[str], list[str], set[str]]:
    """Return the arguments that may be revisions, the paths after `--`, and the options."""
    end = texts.index("--") if "--" in texts else len(texts)
    # `--` may be the value of an option: `git merge -m -- topic`.
    if subcommand not in LIMITED or any(text.startswith("-") for text in texts[:end][-1:]):
        texts = [text for text in texts if text != "--"]
        end = len(texts)
    named: list[str] = []
    options: set[str] = set()
    before = earlier = ""
    for text in _separated(texts[:end]):
        name, has_value, value = text.partition("=")
        # In `git checkout --conflict -b topic`, `-b` is a value.
        is_new = before in CREATING and (earlier[:1] != "-" or earlier in KEEPING["checkout"])
        if text == "-":
            named.append("@{-1}")
        elif text.startswith("-"):
            options.add(name)
            named += [value] if has_value else []
        elif not is_new:
            named.append(text)
        before, earlier = text, before
    return named, texts[end + 1 :], options


def _separated(texts: list[str]) -> Iterator[str]:
    for text in texts:
        yield from (f"-{letter}" for letter in text[1:]) if JOINED.fullmatch(text) else (text,)


def _changed_names(
    change: BranchChange, place: Path, repository: Repository, policy: Policy
) -> list[str]:
    """Return the names that a call may change, relative to the top of the work tree."""
    git = GitReader(place, repository)
    if change.only_stages:
        _check_staged(change, git, policy)
        return []
    head = git.tree_of("HEAD") or EMPTY_TREE
    names: list[str] = []
    resets = change.resets
    if UPSTREAM_BRANCH in change.revisions and git.has_several_upstreams():
        raise UnknownValue(UPSTREAM_BRANCH)
    for text in change.revisions:
        trees = [tree for tree in git.trees_named(text) if tree]
        # A path in place of a branch: `git checkout .claude`, `git checkout .`
        resets |= not trees
        for tree in trees:
            names += git.differing(head, tree, change.paths)
        if trees and change.picks:
            names += git.touched("--no-walk", text)
        names += _unstashed(text, trees[0], git) if trees and change.unstashes else ()
    for first, last in change.ranges:
        if git.tree_of(first) and git.tree_of(last):
            names += git.touched(last, f"^{first}")
    if resets:
        names += git.uncommitted(head, policy)
    if change.takes_untracked:
        names += git.names_from("ls-files", "--others", "--exclude-standard", "--full-name", ":/")
    return list(dict.fromkeys(names))


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
