"""Check git calls that a rule allows: the repository may name programs that git runs.

A rule for `git status` does not cover the programs that `.git/config` makes it run. The user is
asked about such a call, unless it only reads and the whole command can run confined, without those
programs.
"""

import re
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path

from turnlog.agent.permissions.bash import (
    Script,
    UnknownValue,
    Word,
    expand,
    is_folder,
    is_there,
)
from turnlog.agent.permissions.branch_files import UNKNOWN_CHANGE, guard_branch
from turnlog.agent.permissions.file_verdicts import judge_read, unknown_files
from turnlog.agent.permissions.git_index import doubt_index
from turnlog.agent.permissions.git_reader import GitReader
from turnlog.agent.permissions.git_repository import (
    GitCall,
    Repository,
    find_problem,
    find_repository,
    message_templates,
)
from turnlog.agent.permissions.git_staging import (
    adds_single_files,
    changes_staging,
    doubt_staging,
    guard_staging,
    may_add,
)
from turnlog.agent.permissions.git_subcommands import (
    BRINGING,
    expand_alias,
    folder_of,
    is_builtin,
    is_program,
    may_be,
    without_options,
)
from turnlog.agent.permissions.git_transfers import guard_transfer
from turnlog.agent.permissions.interference import only_reads
from turnlog.agent.permissions.launchers import Inner, name_of, without_wrappers
from turnlog.agent.permissions.nested_repositories import find_nested_problem
from turnlog.agent.permissions.policy import AccessDecision, Policy, VerdictKind
from turnlog.agent.permissions.programs import enters_submodules, read_files
from turnlog.agent.permissions.restrictions import EVALUATORS
from turnlog.agent.permissions.working_directories import (
    MOVES,
    arguments_in,
    path_in,
    possible_directories,
)
from turnlog.agent.workspace.access import ApprovalMode, Basis

SETTLED = frozenset("add branch clone commit init mv rm tag".split())
"""Subcommands that enter only submodules that were in the index before the call."""
KEEPING_REMOTES = frozenset(
    """
    add branch checkout cherry-pick commit fetch merge mv pull push rebase reset restore revert rm
    stage stash switch tag
    """.split()
)
"""Subcommands that keep the addresses of all remotes."""
CREATING = (["checkout", "-b"], ["checkout", "-qb"], ["switch", "-c"], ["switch", "-qc"])
"""Subcommands with an option that creates a branch."""
UNKNOWN_REMOTE = "what git pushes to is only known when it runs"
SETTERS = EVALUATORS | {"env", "exec"}
"""Programs that may set or unset a variable that an argument names."""
SETTING = re.compile(r"GIT_|(?:HOME|XDG_CONFIG_HOME)(?:=|\Z)")
"""A variable that decides which repository or configuration git uses."""


def guard_repositories(
    script: Script, inner: tuple[Inner, ...], policy: Policy
) -> Iterator[AccessDecision]:
    """Yield findings about git calls: programs the repository names, files that are checked out."""
    cwd = policy.cwd
    given = [without_wrappers(each.part.words) for each in inner if not each.part.is_test]
    moves = [words for words in given if words and words[0].text in MOVES]
    places = None if moves and script.has_loop else possible_directories(moves, cwd)
    if _sets_repository(inner):
        places = None
    changing = [each for each in inner if not only_reads(each.part, places or (None,))]
    # In a loop, the second `git add -A` enters the submodules that the first one added.
    may_grow = script.has_loop or len(changing) > 1
    # Another program may run git in another directory; wrappers run it in the same one.
    direct = {without_wrappers(part.words) for part in script.parts}
    for words in dict.fromkeys(filter(None, given)):
        if name_of(words[0]) == "git":
            known = places if words in direct else None
            yield from _guard_call(words, known, policy, may_grow=may_grow)
    others = list(_without_repetitions(script, changing))
    for rank, words in enumerate(others):
        if words and name_of(words[0]) == "git":
            earlier = others[:rank] if script.is_ordered else [*others[:rank], *others[rank + 1 :]]
            may_repeat = script.has_loop or bool(script.unclear)
            yield from _guard_order(words, earlier, places, policy, may_repeat=may_repeat)


def _without_repetitions(script: Script, inner: list[Inner]) -> Iterator[tuple[Word, ...]]:
    """Yield the words of commands, once for a command behind a wrapper: `timeout 5 git stash`."""
    written, before = {id(part) for part in script.parts}, tuple[Word, ...]()
    for each in inner:
        words = without_wrappers(each.part.words)
        if id(each.part) in written or words != before:
            yield words
        before = words


def _sets_repository(inner: tuple[Inner, ...]) -> bool:
    """Return whether a command sets or unsets a variable such as GIT_DIR."""
    names = [each.name for one in inner for each in one.part.assignments]
    names += [word.text for one in inner for word in one.part.words if "=" in word.text]
    parts = [one.part.words for one in inner if one.part.words]
    names += [word.text for words in parts if words[0].text in SETTERS for word in words[1:]]
    return any(map(SETTING.match, names))


def _guard_call(
    words: tuple[Word, ...], places: tuple[Path, ...] | None, policy: Policy, *, may_grow: bool
) -> Iterator[AccessDecision]:
    if [word.text for word in words[1:]] in (["--version"], ["version"]):
        return
    try:
        folder = folder_of(words)
        found = [path_in(text, place) for place in places or () for text in expand(folder, place)]
    except UnknownValue:
        found = []
    if not found:
        yield _asks("which repository git uses is only known when it runs")
        yield from _doubt_files(words, policy)
    for place in found:
        yield from _guard_place(words, place, policy, may_grow=may_grow)


def _doubt_files(words: tuple[Word, ...], policy: Policy) -> Iterator[AccessDecision]:
    """Ask about a call in a repository that is not known, if it may change or add files."""
    if may_be(words, BRINGING):
        yield unknown_files(UNKNOWN_CHANGE, policy)
    if may_add(words):
        yield from doubt_staging(policy)


def _guard_place(
    words: tuple[Word, ...], place: Path, policy: Policy, *, may_grow: bool
) -> Iterator[AccessDecision]:
    if not is_folder(place):
        yield _asks(f"{place} does not exist yet, so its repository is not known")
        yield from _doubt_files(words, policy)
        return
    try:
        repository = find_repository(place)
        is_own = repository == find_repository(policy.cwd)
    except (OSError, ValueError) as error:
        yield _asks(f"its repository cannot be checked: {error}")
        yield from _doubt_files(words, policy)
        return
    called = without_options(words)
    if called[1:] and not is_builtin(called[1]):
        called = yield from _guard_alias(called, place, repository, policy)
        words = called
    try:
        effect = read_files("git", arguments_in(words[1:], place))
    except UnknownValue:
        effect = None
    subcommand = effect.uses_git if effect else ""
    if repository and subcommand:
        yield from _guard_reading(subcommand, repository, is_own=is_own)
    elif repository:
        # The bypass mode asks only about files that a rule covers.
        if policy.mode is not ApprovalMode.BYPASS:
            yield from _guard_change(repository, may_grow=may_grow or not _keeps_links(words))
        yield from guard_branch(called, place, repository, policy)
        is_alone = not may_grow
        yield from guard_transfer(called, place, repository, policy, is_alone=is_alone)
        if called[1:] and called[1].text == "commit":
            yield from _guard_template(repository, policy)
            # A merge that stopped at a conflict ends with the stash that it started with.
            if is_there(repository.directory / "MERGE_AUTOSTASH"):
                yield unknown_files(UNKNOWN_CHANGE, policy)
    yield from guard_staging(called, place, repository, policy)


def _guard_alias(
    called: tuple[Word, ...], place: Path, repository: Repository | None, policy: Policy
) -> Generator[AccessDecision, None, tuple[Word, ...]]:
    """Return a call with its alias expanded; ask if it cannot be, or if rules are about files."""
    reason = f"git {called[1].source or called[1].text} is no subcommand of git itself"
    # Checks of files that a rule covers would need to see what it stands for.
    if policy.has_file_rules:
        yield unknown_files(reason, policy)
        return called
    try:
        return called if is_program(called[1]) else _expanded(called, place, repository)
    except (UnknownValue, OSError, ValueError, subprocess.TimeoutExpired):
        yield unknown_files(reason, policy)
        return called


def _expanded(
    called: tuple[Word, ...], place: Path, repository: Repository | None
) -> tuple[Word, ...]:
    return expand_alias(called, GitReader(place, repository or Repository(place, place / ".git")))


def _guard_order(
    words: tuple[Word, ...],
    earlier: list[tuple[Word, ...]],
    places: tuple[Path, ...] | None,
    policy: Policy,
    *,
    may_repeat: bool,
) -> Iterator[AccessDecision]:
    """Ask if another part may change the repository first: `git tag x y; git checkout x`.

    Even `git add` changes the outcome: `git reset --hard` then deletes files that were untracked.
    """
    called = without_options(words)
    if _only_creates(words):
        return
    git = [without_options(each) for each in earlier if each and name_of(each[0]) == "git"]
    if may_be(words, BRINGING) and (git or may_repeat):
        yield unknown_files(UNKNOWN_CHANGE, policy)
    is_push = called[1:2] and called[1].text == "push"
    if is_push and any(not each[1:] or each[1].text not in KEEPING_REMOTES for each in git):
        yield AccessDecision(VerdictKind.ASK, UNKNOWN_REMOTE, is_guarded=True)
    before = [each for each in earlier if each and each != words and not _only_creates(each)]
    is_plain = bool(called[1:]) and adds_single_files(called, places or ())
    if may_add(words) and not is_plain and any(_changes_staging(each, places) for each in before):
        yield from doubt_staging(policy)


def _changes_staging(words: tuple[Word, ...], places: tuple[Path, ...] | None) -> bool:
    """Return whether a part may change which files a later `git add` adds."""
    called = without_options(words)
    if words[0].text == "git" and called[1:] and called[1].text == "init":
        # All files are checked where there is no repository; a nested one ignores other files.
        return not places or any(map(_is_in_repository, places))
    return changes_staging(words)


def _is_in_repository(place: Path) -> bool:
    try:
        return find_repository(place) is not None
    except (OSError, ValueError):
        return True


def _guard_template(repository: Repository, policy: Policy) -> Iterator[AccessDecision]:
    """Ask if `commit.template` may copy a denied file, or one elsewhere, into a commit message."""
    try:
        findings = [judge_read(path, policy) for path in message_templates(repository)]
    except (OSError, ValueError) as error:
        yield _asks(f"its repository cannot be checked: {error}")
        return
    yield from (each for each in findings if each.kind is not VerdictKind.ALLOW)


def _only_creates(words: tuple[Word, ...]) -> bool:
    """Return whether a call creates a branch at the current commit: `git switch -c new`."""
    texts = [word.text for word in words[1:] if word.text not in ("-q", "--quiet")]
    return len(texts) == 3 and texts[:2] in CREATING and all(word.is_known for word in words)


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
