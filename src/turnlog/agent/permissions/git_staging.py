"""Check git calls that copy files into the repository, such as `git add`.

From there, a file that a `Read` rule denies can be pushed, and shown under another name.
"""

import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from turnlog.agent.permissions.bash import UnknownValue, Word
from turnlog.agent.permissions.file_verdicts import READING, restricted, restricted_names
from turnlog.agent.permissions.folder_contents import restrictions_below
from turnlog.agent.permissions.git_reader import GitReader
from turnlog.agent.permissions.git_repository import Repository
from turnlog.agent.permissions.git_subcommands import ADDING, is_builtin, may_be, without_options
from turnlog.agent.permissions.path_access import names_of
from turnlog.agent.permissions.policy import AccessDecision, Policy, VerdictKind
from turnlog.agent.permissions.program_calls import without_messages
from turnlog.agent.permissions.working_directories import arguments_in, path_in

STAGED_ONLY = re.compile(
    r"-[nqsvz]*m?|--(?:allow-empty|allow-empty-message|amend|edit|message|no-edit|no-gpg-sign"
    r"|no-signoff|no-status|no-verify|quiet|signoff|status|verbose)|--[a-z-]+=.*",
    re.S,
)
"""An option with which `git commit` commits only what is staged."""
QUOTING = frozenset(
    """
    -C -c -F -t --author --cleanup --date --file --fixup --reedit-message --reuse-message --squash
    --template --trailer
    """.split()
)
"""Options of `git commit` with a value in the next argument."""
SETTLED = frozenset("branch commit fetch push tag".split()) | ADDING
"""Subcommands after which `git add` adds what it would have added before."""


def may_add(words: tuple[Word, ...]) -> bool:
    """Return whether a call of git may copy files from the work tree into the repository."""
    called = without_options(words)
    if called[1:] and called[1].text == "commit" and not may_be(words, ADDING):
        return not _commits_staged(called[2:])
    return may_be(words, ADDING | {"commit"})


def doubt_staging(policy: Policy) -> Iterator[AccessDecision]:
    """Ask about a call that may add any file, if a rule denies reading one."""
    if _has_read_rules(policy):
        reason = "which files git adds is only known when it runs"
        yield AccessDecision(VerdictKind.ASK, reason, is_firm=True)


def guard_staging(
    called: tuple[Word, ...], place: Path, repository: Repository | None, policy: Policy
) -> Iterator[AccessDecision]:
    """Ask if a call may copy a file that a rule covers into the repository."""
    if not _has_read_rules(policy) or not may_add(called):
        return
    try:
        texts = arguments_in(called[2:], place)
        if called[1].text not in ADDING:
            texts = (":/",) if repository else ()
        limits = [text for text in texts if not text.startswith("-")]
        if repository is None:
            yield from _guard_folders([path_in(text, place) for text in limits or ["."]], policy)
            return
        git = GitReader(place, repository)
        names = git.unsaved(policy, *limits)
        if called[1].text in ADDING:
            is_forced = any(text.startswith("-") and "f" in text for text in texts)
            options = ("--others", "--full-name", *(() if is_forced else ("--exclude-standard",)))
            names += git.names_from("ls-files", *options, "--", *(limits or (":/",)))
        tops = names_of(repository.top)
        found = [
            restricted_names(tuple(top / each for top in tops), policy, READING) for each in names
        ]
    except (UnknownValue, OSError, ValueError, subprocess.TimeoutExpired):
        yield from doubt_staging(policy)
        return
    for finding in filter(None, found):
        yield AccessDecision(VerdictKind.ASK, finding.reason, is_firm=True)


def changes_staging(words: tuple[Word, ...]) -> bool:
    """Return whether a program may change which files a later `git add` adds."""
    called = without_options(words)
    if words[0].text != "git" or not called[1:]:
        return True
    return not is_builtin(called[1]) or called[1].text not in SETTLED


def adds_single_files(called: tuple[Word, ...], places: Iterable[Path]) -> bool:
    """Return whether `git add` names all that it adds, none of which is a directory."""
    if called[1].text not in ADDING or not all(word.is_known for word in called):
        return False
    named = [word.text for word in called[2:] if word.text != "--"]
    return bool(named) and all(
        not text.startswith(("-", ":")) and (place / text).is_file()
        for text in named
        for place in places
    )


def _guard_folders(paths: list[Path], policy: Policy) -> Iterator[AccessDecision]:
    """Check all files of a directory that is no repository yet, whether they are ignored or not."""
    yield from filter(None, (restricted(path, policy, READING) for path in paths))
    yield from restrictions_below(paths, policy, READING, "Read")


def _commits_staged(given: tuple[Word, ...]) -> bool:
    """Return whether `git commit` with some arguments commits only what is staged."""
    waiting = iter(without_messages("git", (Word("commit"), *given))[1:])
    for word in waiting:
        if word.text in QUOTING:
            next(waiting, None)
        elif not word.is_known or not STAGED_ONLY.fullmatch(word.text):
            return False
    return True


def _has_read_rules(policy: Policy) -> bool:
    return any(rule.tool in READING for rule in (*policy.deny, *policy.ask))
