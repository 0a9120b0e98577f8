"""Check which repositories a git call exchanges objects with.

`git push ./vendor/x` runs the hooks of that repository, and programs that its configuration names.
A rule for `git push` covers neither, if the repository lies in a working directory.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from turnlog.agent.permissions.bash import UnknownValue, Word
from turnlog.agent.permissions.displacement import FILE_RULES
from turnlog.agent.permissions.git_reader import GitReader
from turnlog.agent.permissions.git_repository import Repository
from turnlog.agent.permissions.path_access import names_of
from turnlog.agent.permissions.policy import AccessDecision, Policy, VerdictKind
from turnlog.agent.permissions.working_directories import arguments_in, path_in

HELPER = re.compile(r"[A-Za-z0-9+.-]+::")
"""The start of an address that git passes to a program: `ext::sh -c x` runs `sh`."""
TRANSFERS = frozenset("archive clone fetch ls-remote pull push remote submodule".split())
REPLACING = "refs/replace"
REMOTE_ARCHIVE = "--rem"
"""The start of `--remote`, with which `git archive` runs programs of another repository."""
PLAIN_PUSH = frozenset(
    """
    -4 -6 --all -d --delete --dry-run -f --follow-tags --force --force-if-includes
    --force-with-lease --mirror -n --no-force-with-lease --no-progress --no-signed --no-thin
    --no-verify --porcelain --progress --prune -q --quiet --set-upstream --tags --thin -u -v
    --verbose --verify
    """.split()
)
"""Options of `git push` without a value; the first operand behind them is the repository."""


def guard_transfer(
    words: tuple[Word, ...], place: Path, repository: Repository, policy: Policy
) -> Iterator[AccessDecision]:
    """Ask about a call that runs programs of another repository, or swaps objects for others."""
    subcommand = words[1].text if words[1:] else ""
    texts = [word.text for word in words[2:]]
    has_rules = any(rule.tool in FILE_RULES for rule in (*policy.deny, *policy.ask))
    if any(REPLACING in text for text in texts):
        reason = f"{REPLACING} makes git show other content"
        yield AccessDecision(VerdictKind.ASK, reason, is_firm=has_rules, is_guarded=True)
    if subcommand in TRANSFERS and any(map(HELPER.match, texts)):
        reason = "the address names a program that git runs"
        is_firm = bool(policy.deny or policy.ask)
        yield AccessDecision(VerdictKind.ASK, reason, is_firm=is_firm, is_guarded=True)
    if subcommand == "archive" and any(text.startswith(REMOTE_ARCHIVE) for text in texts):
        reason = "git runs programs of the repository that --remote names"
        yield AccessDecision(VerdictKind.ASK, reason, is_guarded=True)
    if subcommand == "push":
        yield from _guard_push(words[2:], place, repository, policy)


def _guard_push(
    words: tuple[Word, ...], place: Path, repository: Repository, policy: Policy
) -> Iterator[AccessDecision]:
    try:
        named = list(arguments_in(_destinations(words), place))
        named += GitReader(place, repository).remote_addresses()
        found = [path for text in named for path in _local_paths(text, place, repository)]
        inside = [path for path in found if _is_within(path, policy)]
    except (UnknownValue, OSError, ValueError):
        reason = "which repository git pushes to is only known when it runs"
        yield AccessDecision(VerdictKind.ASK, reason, is_guarded=True)
        return
    if inside:
        reason = f"git push may run hooks of the repository in {inside[0]}"
        yield AccessDecision(VerdictKind.ASK, reason, is_guarded=True)


def _destinations(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the arguments of `git push` that may be a repository."""
    operands = tuple(word for word in words if not word.is_option)
    options = [word for word in words if word.is_option]
    if all(word.text.partition("=")[0] in PLAIN_PUSH for word in options):
        return operands[:1]
    # An unknown option may take the next argument, or name a repository itself.
    return (*operands, *(Word(word.text.partition("=")[2]) for word in options))


def _local_paths(text: str, place: Path, repository: Repository) -> Iterator[Path]:
    """Yield the existing directories that an address may mean."""
    written = text.removeprefix("file://")
    for base in dict.fromkeys((place, repository.top)):
        path = path_in(written, base)
        yield from (each for each in (path, Path(f"{path}.git")) if text and each.is_dir())


def _is_within(path: Path, policy: Policy) -> bool:
    return any(name.is_relative_to(root) for name in names_of(path) for root in policy.directories)
