"""Check git calls that a rule allows: the repository may name programs that git runs.

A rule for `git status` does not cover the programs that `.git/config` makes it run. The user is
asked about such a call, unless it only reads and the whole command can run confined, without those
programs.
"""

import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from turnlog.agent.permissions.bash import (
    UNKNOWN,
    Script,
    UnknownValue,
    Word,
    expand,
    is_folder,
    is_there,
)
from turnlog.agent.permissions.branch_files import BRINGING, UNKNOWN_CHANGE, guard_branch
from turnlog.agent.permissions.file_verdicts import (
    READING,
    judge_read,
    restricted_names,
    unknown_files,
)
from turnlog.agent.permissions.git_index import doubt_index
from turnlog.agent.permissions.git_reader import GitReader
from turnlog.agent.permissions.git_repository import (
    GitCall,
    Repository,
    find_problem,
    find_repository,
    message_templates,
)
from turnlog.agent.permissions.git_transfers import guard_transfer
from turnlog.agent.permissions.interference import only_reads
from turnlog.agent.permissions.launchers import Inner, name_of, without_wrappers
from turnlog.agent.permissions.nested_repositories import find_nested_problem
from turnlog.agent.permissions.path_access import names_of
from turnlog.agent.permissions.policy import AccessDecision, Policy, VerdictKind
from turnlog.agent.permissions.programs import enters_submodules, read_files
from turnlog.agent.permissions.working_directories import (
    MOVES,
    arguments_in,
    path_in,
    possible_directories,
)
from turnlog.agent.workspace.access import ApprovalMode, Basis

ADDING = frozenset(("add", "stage"))
SETTLED = frozenset("add branch clone commit init mv rm tag".split())
"""Subcommands that enter only submodules that were in the index before the call."""
PLAIN_GLOBALS = frozenset(
    "--literal-pathspecs --no-lazy-fetch --no-optional-locks --no-pager -P".split()
)
"""Options in front of a subcommand that change neither the repository nor the programs that run."""
ENTERING = re.compile(r"submodule\.", re.IGNORECASE)
"""Settings that make git enter submodules."""


def guard_repositories(
    script: Script, inner: tuple[Inner, ...], policy: Policy
) -> Iterator[AccessDecision]:
    """Yield findings about git calls: programs the repository names, files that are checked out."""
    cwd = policy.cwd
    given = [without_wrappers(each.part.words) for each in inner if not each.part.is_test]
    parts = list(dict.fromkeys(filter(None, given)))
    moves = [words for words in parts if words[0].text in MOVES]
    places = None if moves and script.has_loop else possible_directories(moves, cwd)
    if _sets_repository(inner):
        places = None
    changing = [each for each in inner if not only_reads(each.part, places or (None,))]
    # In a loop, the second `git add -A` enters the submodules that the first one added.
    may_grow = script.has_loop or len(changing) > 1
    # Another program may run git in another directory; wrappers run it in the same one.
    direct = {without_wrappers(part.words) for part in script.parts}
    for words in parts:
        if name_of(words[0]) == "git":
            known = places if words in direct else None
            yield from _guard_call(words, known, policy, may_grow=may_grow)
            if _is_stale(words, changing, is_ordered=script.is_ordered and not script.has_loop):
                yield unknown_files(UNKNOWN_CHANGE, policy)


def _sets_repository(inner: tuple[Inner, ...]) -> bool:
    """Return whether a command sets a variable such as GIT_DIR."""
    names = [each.name for one in inner for each in one.part.assignments]
    names += [word.text for one in inner for word in one.part.words if "=" in word.text]
    return any(name.startswith("GIT_") for name in names)


def _guard_call(
    words: tuple[Word, ...], places: tuple[Path, ...] | None, policy: Policy, *, may_grow: bool
) -> Iterator[AccessDecision]:
    if [word.text for word in words[1:]] in (["--version"], ["version"]):
        return
    try:
        folder = _folder_of(words)
        found = [path_in(text, place) for place in places or () for text in expand(folder, place)]
    except UnknownValue:
        found = []
    if not found:
        yield _asks("which repository git uses is only known when it runs")
        if not BRINGING.isdisjoint(word.text for word in words[1:]):
            yield unknown_files(UNKNOWN_CHANGE, policy)
    for place in found:
        yield from _guard_place(words, place, policy, may_grow=may_grow)


def _folder_of(words: tuple[Word, ...]) -> Word:
    """Return the value of `-C`; raise `UnknownValue` for options that name another repository."""
    folder, waiting = Word("."), iter(words[1:])
    for word in waiting:
        if not word.is_option and word.is_known:
            break
        if word.text in PLAIN_GLOBALS:
            continue
        if not word.is_known or word.text not in ("-C", "-c"):
            raise UnknownValue(word.source)
        value = next(waiting, UNKNOWN)
        # `-c submodule.recurse=true` makes git check out other repositories as well.
        if (word.text == "-C" and folder.text != ".") or ENTERING.match(value.text):
            raise UnknownValue(value.source)
        folder = value if word.text == "-C" else folder
    return folder


def _guard_place(
    words: tuple[Word, ...], place: Path, policy: Policy, *, may_grow: bool
) -> Iterator[AccessDecision]:
    try:
        arguments = arguments_in(words[1:], place)
        effect = read_files("git", arguments)
    except UnknownValue:
        effect = None
    if not is_folder(place):
        yield _asks(f"{place} does not exist yet, so its repository is not known")
        return
    try:
        repository = find_repository(place)
        is_own = repository == find_repository(policy.cwd)
    except (OSError, ValueError) as error:
        yield _asks(f"its repository cannot be checked: {error}")
        return
    if repository:
        subcommand = effect.uses_git if effect else ""
        if subcommand:
            yield from _guard_reading(subcommand, repository, is_own=is_own)
        else:
            # The bypass mode asks only about files that a rule covers.
            if policy.mode is not ApprovalMode.BYPASS:
                yield from _guard_change(repository, may_grow=may_grow or not _keeps_links(words))
            called = _without_options(words)
            yield from guard_branch(called, place, repository, policy)
            yield from guard_transfer(called, place, repository, policy)
            if called[1:] and called[1].text == "commit":
                yield from _guard_template(repository, policy)
                # A merge that stopped at a conflict ends with the stash that it started with.
                if is_there(repository.directory / "MERGE_AUTOSTASH"):
                    yield unknown_files(UNKNOWN_CHANGE, policy)
            if called[1:] and called[1].text in ADDING:
                yield from _guard_staging(called[2:], place, repository, policy)


def _guard_staging(
    words: tuple[Word, ...], place: Path, repository: Repository, policy: Policy
) -> Iterator[AccessDecision]:
    """Ask if `git add` may copy an untracked file that a rule covers into the repository."""
    if not any(rule.tool in READING for rule in (*policy.deny, *policy.ask)):
        return
    try:
        texts = arguments_in(words, place)
        is_forced = any(text.startswith("-") and "f" in text for text in texts)
        limits = [text for text in texts if not text.startswith("-")] or [":/"]
        options = ("--others", "--full-name", *(() if is_forced else ("--exclude-standard",)))
        names = GitReader(place, repository).names_from("ls-files", *options, "--", *limits)
        tops = names_of(repository.top)
        found = [
            restricted_names(tuple(top / each for top in tops), policy, READING) for each in names
        ]
    except (UnknownValue, OSError, ValueError, subprocess.TimeoutExpired):
        reason = "which files git adds is only known when it runs"
        yield AccessDecision(VerdictKind.ASK, reason, is_firm=True)
        return
    for finding in filter(None, found):
        yield AccessDecision(VerdictKind.ASK, finding.reason, is_firm=True)


def _guard_template(repository: Repository, policy: Policy) -> Iterator[AccessDecision]:
    """Ask if `commit.template` may copy a denied file, or one elsewhere, into a commit message."""
    try:
        findings = [judge_read(path, policy) for path in message_templates(repository)]
    except (OSError, ValueError) as error:
        yield _asks(f"its repository cannot be checked: {error}")
        return
    yield from (each for each in findings if each.kind is not VerdictKind.ALLOW)


def _without_options(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return a git call without the options in front of its subcommand."""
    waiting = iter(words[1:])
    for word in waiting:
        if word.text in ("-C", "-c"):
            next(waiting, None)
        elif not word.is_option:
            return (words[0], word, *waiting)
    return words[:1]


def _is_stale(words: tuple[Word, ...], changing: Iterable[Inner], *, is_ordered: bool) -> bool:
    """Return whether another part may change the repository first: `git tag x y; git checkout x`.

    Even `git add` changes the outcome: `git reset --hard` then deletes files that were untracked.
    """
    if BRINGING.isdisjoint(word.text for word in words[1:]) or _only_creates(words):
        return False
    others = [without_wrappers(each.part.words) for each in changing]
    if words not in others:  # `git stash list`
        return False
    for other in others:
        if other == words:
            if is_ordered:
                return False
        elif other and name_of(other[0]) == "git":
            return True
    return False


def _only_creates(words: tuple[Word, ...]) -> bool:
    """Return whether a call creates a branch at the current commit: `git switch -c new`."""
    texts = [word.text for word in words[1:] if word.is_known]
    return len(words) == 4 and texts[:2] in (["checkout", "-b"], ["switch", "-c"])


def _guard_reading(
    subcommand: str, repository: Repository, *, is_own: bool
) -> Iterator[AccessDecision]:
    if doubt := doubt_index(subcommand, repository.directory / "index", repository.top):
        yield _asks(doubt)
    call = GitCall(enters_submodules=enters_submodules(subcommand))
    if problem := find_problem(repository, call):
        # Settings are overridden only in the repository of the session's own directory.
        yield _asks(problem.reason, is_confinable=problem.is_confinable and is_own)


def _guard_change(repository: Repository, *, may_grow: bool) -> Iterator[AccessDecision]:
    """Yield findings for a call that may write; a rule that allows it also covers its hooks."""
    if problem := find_problem(repository, GitCall(reads=False, covers_hooks=True)):
        yield _asks(problem.reason)
    # `git add .` and `git stash` run git in submodules, which no rule covers.
    elif reason := find_nested_problem(repository, may_grow=may_grow):
        yield _asks(reason)


def _keeps_links(words: tuple[Word, ...]) -> bool:
    """Return whether a call enters no repository that it turns into a submodule itself.

    `git switch` may enter one: if the branch has a submodule, git enters the directory of that
    name.
    """
    return len(words) > 1 and words[1].text in SETTLED


def _asks(reason: str, *, is_confinable: bool = False) -> AccessDecision:
    return AccessDecision(VerdictKind.ASK, reason, is_confinable=is_confinable, basis=Basis.RULE)
