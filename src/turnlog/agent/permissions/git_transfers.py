"""Check which repositories a git call exchanges objects with.

`git push ./vendor/x` runs the hooks of that repository, and programs that its configuration names.
A rule for `git push` covers neither, if the repository lies in a working directory.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from turnlog.agent.permissions.bash import UnknownValue, Word, is_folder
from turnlog.agent.permissions.file_verdicts import unknown_files
from turnlog.agent.permissions.git_reader import GitReader
from turnlog.agent.permissions.git_repository import Repository, common_directory
from turnlog.agent.permissions.path_access import names_of
from turnlog.agent.permissions.policy import AccessDecision, Policy, VerdictKind
from turnlog.agent.permissions.working_directories import arguments_in, path_in

HELPER = re.compile(r"[A-Za-z0-9+.-]+::")
"""The start of an address that git passes to a program: `ext::sh -c x` runs `sh`."""
TRANSFERS = frozenset("archive clone fetch ls-remote pull push remote submodule".split())
REPLACING = re.compile(r"refs/(?:r(?:e(?:p\w*)?)?)?(?:/|\*)", re.I)
"""A name, or a pattern of names, of refs that replace objects: `refs/replace/x`, `refs/re*`."""
REMOTE_ARCHIVE = "--rem"
"""The start of `--remote`, with which `git archive` runs programs of another repository."""
NETWORK = re.compile(
    r"(?:https?|ssh|git|git\+ssh|ssh\+git)://[\w.@:-]+/[^\s]*|(?:[\w.-]+@)?[\w-][\w.-]*:(?!:|//)[^\s]*",
    re.ASCII,
)
"""An address of another machine: a URL, or `host:path`."""
PLAIN_PATH = re.compile(r"[\w./-]+", re.ASCII)
"""A path that git neither decodes nor expands."""
NETWORK_START = re.compile(
    r"(?:https?|ssh|git|git\+ssh|ssh\+git)://[^\s]*|[\w.-]+@[\w][\w.-]*:[^\s]*"
)
"""The start of an address of another machine."""
ENDINGS = ("", ".git", ".bundle")
OLD_REMOTES = ("branches", "remotes")
"""Directories in which older versions of git kept the addresses of remotes."""
OWN = "."
"""The remote of a branch that follows another branch of the same repository."""
ENTERING = re.compile(r"--rec(?!urse-submodules=(?:no|check)\Z)")
"""The start of `--recurse-submodules`, unless it pushes no submodule."""
PLAIN_PUSH = frozenset(
    """
    -4 -6 --all -d --delete --dry-run -f --follow-tags --force --force-if-includes
    --force-with-lease --mirror -n --no-force-with-lease --no-progress --no-signed --no-thin
    --no-recurse-submodules --no-verify --porcelain --progress --prune -q --quiet
    --recurse-submodules --set-upstream --tags --thin -u -v
    --verbose --verify
    """.split()
)
"""Options of `git push` without a value; the first operand behind them is the repository."""


def guard_transfer(
    words: tuple[Word, ...],
    place: Path,
    repository: Repository,
    policy: Policy,
    *,
    is_alone: bool,
) -> Iterator[AccessDecision]:
    """Ask about a call that runs programs of another repository, or swaps objects for others.

    `is_alone` is true if no other part of the command may create such a repository.
    """
    subcommand = words[1].text if words[1:] else ""
    texts = [word.text for word in words[2:]]
    if any(map(REPLACING.search, texts)):
        yield unknown_files("refs/replace makes git show other content", policy)
    if subcommand in TRANSFERS and any(map(HELPER.match, texts)):
        reason = "the address names a program that git runs"
        is_firm = bool(policy.deny or policy.ask)
        yield AccessDecision(VerdictKind.ASK, reason, is_firm=is_firm, is_guarded=True)
    if subcommand == "archive" and any(text.startswith(REMOTE_ARCHIVE) for text in texts):
        reason = "git runs programs of the repository that --remote names"
        yield AccessDecision(VerdictKind.ASK, reason, is_guarded=True)
    if subcommand == "push":
        git = GitReader(place, repository)
        bases = tuple(dict.fromkeys((place, repository.top, *policy.directories)))
        try:
            named = _addresses(arguments_in(_destinations(words[2:]), place), repository, git)
            unsure = [
                text for text in named if not _is_elsewhere(text, bases, policy, is_alone=is_alone)
            ]
            if git.pushes_submodules() or any(ENTERING.match(text) for text in texts):
                unsure.append("the remote of a submodule")
        except (UnknownValue, OSError, ValueError, subprocess.TimeoutExpired):
            unsure = ["what it pushes to"]
        if unsure:
            reason = f"{unsure[0]} may be a repository here, whose hooks git push would run"
            yield AccessDecision(VerdictKind.ASK, reason, is_guarded=True)


def _addresses(given: tuple[str, ...], repository: Repository, git: GitReader) -> list[str]:
    """Return the addresses that a push may use; raise `UnknownValue` if git may replace them.

    The name of a remote is no address, unless the remote has none: git then takes the name. The
    address of one remote may be the name of another one; git takes it for an address.
    """
    common = common_directory(repository.directory)
    for folder in filter(is_folder, (common / name for name in OLD_REMOTES)):
        if any(folder.iterdir()):
            raise UnknownValue(str(folder))
    if not all(map(NETWORK_START.fullmatch, git.address_starts())):
        raise UnknownValue("insteadOf")
    remotes = git.addresses()
    named = [*given, *(text for text in git.branch_remotes() if text != OWN)]
    addresses = [address for found in remotes.values() for address in found if address]
    return addresses + [text for text in named if not all(remotes.get(text, ("",)))]


def _destinations(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the arguments of `git push` that may be a repository."""
    operands = tuple(word for word in words if not word.is_option)
    options = [word for word in words if word.is_option]
    if all(word.text.partition("=")[0] in PLAIN_PUSH for word in options):
        return operands[:1]
    # An unknown option may take the next argument, or name a repository itself.
    return (*operands, *(Word(word.text.partition("=")[2]) for word in options))


def _is_elsewhere(text: str, bases: tuple[Path, ...], policy: Policy, *, is_alone: bool) -> bool:
    """Return whether an address certainly leads to no repository in a working directory."""
    if not text or NETWORK.fullmatch(text):
        return True
    if not PLAIN_PATH.fullmatch(text):
        return False
    for base in bases:
        for path in (path_in(f"{text}{ending}", base) for ending in ENDINGS):
            is_here = _is_within(path, policy)
            if (is_here or not path.is_dir()) if path.exists() else (is_here and not is_alone):
                return False
    return True


def _is_within(path: Path, policy: Policy) -> bool:
    return any(name.is_relative_to(root) for name in names_of(path) for root in policy.directories)
