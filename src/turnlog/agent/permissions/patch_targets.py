"""Files that a patch changes, for commands that apply one.

A rule for `git apply` names no file: the patch does. It may come from a stranger, or have been
written by the model a moment ago, and name `.claude/settings.json` or a file that a rule denies.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from turnlog.agent.permissions.bash import UNKNOWN, SimpleCommand, UnknownValue, Word
from turnlog.agent.permissions.directories import arguments_in, path_in
from turnlog.agent.permissions.files import WRITING, restricted
from turnlog.agent.permissions.name_mentions import mentions_protected, mentions_rule
from turnlog.agent.permissions.path_access import is_guarded
from turnlog.agent.permissions.policy import AccessDecision, Policy, VerdictKind
from turnlog.format.regular_files import read_regular

LARGEST = 1 << 20
MOST_NAMES, MOST_STRIPPED = 500, 3
"""Maximum number of names in a patch, and of directories that `-p` strips from each."""
HEADER = re.compile(r"^[ \t>]*(?:diff|---|\+\+\+|\*\*\*|rename|copy|Index:)[ \t].*", re.M)
"""A line that names a file; in a mail, patches may be indented or quoted."""
ENCODED = re.compile(r"^content-transfer-encoding:(?!\s*[78]bit\s*$)", re.I | re.M)
ESCAPED = re.compile(r"\".*\\")
"""A name with escapes: `"b/\\056envrc"` is `.envrc`."""
APPLYING = frozenset(("am", "apply"))
ONLY_SHOWING = frozenset("--check --numstat --stat --summary".split())
PLAIN_OPTION = re.compile(
    r"-[bEfNlRsu]*(?:p[0-9]+)?|-i|--(?:backup|batch|dry-run|force|forward|input(?:=.*)?|quiet|reverse"
    r"|silent|strip=[0-9]+|verbose)",
    re.S,
)
"""Options of `patch` that name no file, or its input."""
CONTINUING = frozenset("--abort --continue --quit --resolved --retry --skip -r".split())
"""Options of `git am` with which it reads no patch that is given to it."""
UNKNOWN_PATCH = AccessDecision(
    VerdictKind.ASK, "which files the patch changes is only known when it runs", is_guarded=True
)


def guard_patches(
    name: str, words: tuple[Word, ...], part: SimpleCommand, place: Path | None, policy: Policy
) -> Iterator[AccessDecision]:
    """Ask about a patch that changes a protected or denied file, or cannot be looked at."""
    given = _patches(name, words)
    if given is None:
        return
    files = [*given, *(each.target for each in part.redirects if not each.is_write)]
    try:
        paths = [path_in(text, place) for text in arguments_in(tuple(files), place)]
        texts = [read_regular(path, LARGEST).decode("utf-8", "replace") for path in paths]
    except (OSError, UnknownValue):
        yield UNKNOWN_PATCH
        return
    if not texts and part.is_fed:
        yield UNKNOWN_PATCH
    for path, text in zip(paths, texts, strict=True):
        headers = list(dict.fromkeys(HEADER.findall(text)))
        yield from _judge(path, text, headers, policy)
        yield from _judge_names(headers, place, policy)


def _judge_names(
    headers: list[str], place: Path | None, policy: Policy
) -> Iterator[AccessDecision]:
    """Decide about the files that headers name, in the directory where the patch is applied.

    How many directories are stripped from a name depends on options, so each of its ends counts.
    """
    names = {text.strip('"') for line in headers for text in line.split()[1:]}
    ends = {"/".join(name.split("/")[rank:]) for name in names for rank in range(MOST_STRIPPED)}
    if len(ends) > MOST_NAMES:
        yield UNKNOWN_PATCH
        return
    for end in sorted(filter(None, ends)):
        try:
            path = path_in(end, place)
        except UnknownValue:
            continue
        if found := restricted(path, policy, WRITING, "Edit"):
            yield AccessDecision(VerdictKind.ASK, found.reason, is_firm=True)
        if is_guarded(path, policy.directories, policy.added_path):
            yield AccessDecision(VerdictKind.ASK, f"{path} is protected", is_guarded=True)


def _judge(path: Path, text: str, headers: list[str], policy: Policy) -> Iterator[AccessDecision]:
    if ENCODED.search(text) or any(map(ESCAPED.search, headers)):
        yield UNKNOWN_PATCH
    if mentions_protected(headers):
        yield AccessDecision(VerdictKind.ASK, f"{path} changes a protected file", is_guarded=True)
    for rule in (*policy.deny, *policy.ask):
        if rule.tool in ("Edit", "Read") and mentions_rule(rule, headers):
            yield AccessDecision(VerdictKind.ASK, f"{rule.text} may be about it", is_firm=True)


def _patches(name: str, words: tuple[Word, ...]) -> list[Word] | None:
    """Return the patches that a call applies; None if it applies none."""
    if name == "patch":
        return _patches_of_patch(words)
    if name != "git" or not words or not any(word.text in APPLYING for word in words):
        return None
    if words[0].is_option:
        return [UNKNOWN]  # `git -C dir apply x` means another `x`
    options = {word.text for word in words if word.is_option}
    match words[0].text:
        case "apply" if not options & ONLY_SHOWING or "--apply" in options:
            pass
        case "am" if not options & CONTINUING:
            pass
        case _:
            return None
    return [word for word in words[1:] if not word.is_option and word.text != "-"]


def _patches_of_patch(words: tuple[Word, ...]) -> list[Word]:
    """Return the input of `patch`: `-i FILE`, `--input=FILE` or its second operand."""
    if not all(PLAIN_OPTION.fullmatch(word.text) for word in words if word.is_option):
        return [UNKNOWN]
    joined = [word.text.partition("=")[2] for word in words if word.text.startswith("--input=")]
    named = [after for before, after in pairwise(words) if before.text in ("-i", "--input")]
    operands = [word for word in words if not word.is_option and word not in named]
    return [*map(Word, joined), *named] or operands[1:2]
