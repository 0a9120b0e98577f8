"""Find the files that a command changes by applying a patch.

A rule for `git apply` names no file: the patch does. It may come from a stranger, or have been
written by the model a moment ago, and name `.claude/settings.json` or a file that a rule denies.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from turnlog.agent.permissions.bash import UNKNOWN, SimpleCommand, UnknownValue, Word
from turnlog.agent.permissions.file_verdicts import WRITING, restricted, unknown_files
from turnlog.agent.permissions.git_repository import find_repository
from turnlog.agent.permissions.name_mentions import mentions_protected, mentions_rule
from turnlog.agent.permissions.path_access import is_guarded
from turnlog.agent.permissions.policy import AccessDecision, Policy, VerdictKind, may_apply
from turnlog.agent.permissions.working_directories import arguments_in, path_in
from turnlog.format.regular_files import read_regular

LARGEST = 1 << 20
MOST_NAMES = 1_000
"""Maximum number of names in a patch, including the shorter ones that `-p` may produce."""
HEADER = re.compile(
    r"^(?:[ \t>X]|- )*(?:(?:diff|---|\+\+\+|\*\*\*|rename|copy)[ \t]|Index:).*", re.M
)
"""A line that names a file; in a mail, patches may be indented, quoted or start with a dash."""
MAIL_HEADER = re.compile(r"^content-.*(?:\n[ \t].*)*", re.I | re.M)
"""A header of a mail, with its continuation lines, that says how the body is encoded."""
PLAIN_HEADER = re.compile(
    r"content-transfer-encoding: [78]bit\r?"
    r"|content-type: text/plain; *charset=\"?(?:utf-8|us-ascii)\"?\r?|content-language: [\w-]+\r?",
    re.I,
)
SERIES = re.compile(r"\s*#(?! HG changeset patch)")
"""The start of a series file: a list of patches, which `git am` also accepts."""
ESCAPED = re.compile(r"\".*\\")
"""A name with escapes: `"b/\\056envrc"` is `.envrc`."""
LINK = re.compile(
    r"^(?:[ \t>X]|- )*(?:(?:old|new|(?:new|deleted) file) mode|index[ \t]+\S+)"
    r"[ \t]+[0-7]*12[0-7]{4}\b",
    re.M,
)
"""A header of a symbolic link: with `l -> .git/hooks`, `l/x` in the same patch is a hook."""
APPLYING = frozenset(("am", "apply"))
THREE_WAY = frozenset(("-3", "--3way"))
BINARY = re.compile(r"^(?:[ \t>X]|- )*(?:GIT binary patch|(?:Binary f|F)iles )", re.M)
"""A binary patch: git takes the new content from any object that its `index` line names."""
SHARED_OPTION = r"-[3q]|-[pC][0-9]+|--(?:3way|ignore-whitespace|quiet|whitespace=[a-z-]+)"
PLAIN_OPTIONS = {
    "am": re.compile(
        rf"{SHARED_OPTION}|-[ksu]|--(?:committer-date-is-author-date|ignore-date|keep|keep-cr"
        r"|signoff|utf8)"
    ),
    "apply": re.compile(
        rf"{SHARED_OPTION}|-[NRv]|--(?:allow-empty|apply|cached|check|ignore-space-change|index"
        r"|intent-to-add|numstat|recount|reverse|stat|summary|unidiff-zero|verbose)"
    ),
    "patch": re.compile(
        r"-[bEfNlRsu]*(?:p[0-9]+)?|-i|--(?:backup|batch|dry-run|force|forward|input(?:=.*)?|quiet"
        r"|reverse|silent|strip=[0-9]+|verbose)",
        re.S,
    ),
}
"""Options with a known effect: they name no file, except for the input of `patch`.

With any other option, the effect of a call is unknown: `--no-stat` cancels an option, `--appl`
abbreviates one, and `--exclude` takes the next word as a name, whatever it looks like."""
ONLY_SHOWING = frozenset("--check --numstat --stat --summary".split())
QUITTING = "--quit"
"""The option with which `git am` forgets an earlier patch, and changes no file.

With `--abort` and `--skip`, git returns to a commit that another call may have replaced, and with
`--continue` it applies patches that nobody looks at here.
"""
UNKNOWN_PATCH = "which files the patch changes is only known when it runs"


def guard_patches(
    name: str, words: tuple[Word, ...], part: SimpleCommand, place: Path | None, policy: Policy
) -> Iterator[AccessDecision]:
    """Ask about a patch that changes a protected or denied file, or that cannot be read."""
    if _patches(name, words) is None:
        return
    try:
        paths = find_patches(name, words, part, place)
        texts = [read_regular(path, LARGEST).decode("utf-8", "replace") for path in paths]
    except (OSError, UnknownValue):
        yield unknown_files(UNKNOWN_PATCH, policy)
        return
    # No file is named, so the patch comes through a pipe, and nobody has seen it yet.
    if not texts and part.is_fed:
        yield unknown_files(UNKNOWN_PATCH, policy)
    yield from _judge_objects(words, texts, policy)
    target = _target(name, words, place)
    for path, text in zip(paths, texts, strict=True):
        headers = list(dict.fromkeys(HEADER.findall(text)))
        yield from _judge(path, text, headers, policy)
        yield from _judge_names(headers, target, policy)


def _target(name: str, words: tuple[Word, ...], place: Path | None) -> Path | None:
    """Return the directory that names in a patch are relative to: for `git am`, the top."""
    if name != "git" or words[0].text != "am" or place is None:
        return place
    try:
        repository = find_repository(place)
    except (OSError, ValueError):
        return None
    return repository.top if repository else place


def _judge_objects(
    words: tuple[Word, ...], texts: list[str], policy: Policy
) -> Iterator[AccessDecision]:
    """Ask about a patch that may copy a denied file from git's object store, by its hash.

    A binary patch takes its content from there, and `--3way` merges with it.
    """
    is_merge = any(word.text in THREE_WAY for word in words)
    # A merge follows renames: a patch for one file may change another.
    if is_merge and words[0].text == "am":
        yield unknown_files(UNKNOWN_PATCH, policy)
    rules = [rule for rule in (*policy.deny, *policy.ask) if rule.tool == "Read"]
    if rules and (is_merge or any(map(BINARY.search, texts))):
        yield may_apply(rules[0])


def find_patches(
    name: str, words: tuple[Word, ...], part: SimpleCommand, place: Path | None
) -> list[Path]:
    """Return the patches that a call applies; raise `UnknownValue` if they are not known."""
    given = _patches(name, words)
    if given is None:
        return []
    files = [*given, *(each.target for each in part.redirects if not each.is_write)]
    return [path_in(text, place) for text in arguments_in(tuple(files), place)]


def only_shows(name: str, words: tuple[Word, ...]) -> bool:
    """Return whether a call looks at a patch without applying it: `git apply --check x.patch`."""
    options = [word.text for word in words if word.is_option]
    if name == "patch":
        return "--dry-run" in options and _are_plain(name, options)
    is_apply = name == "git" and bool(words) and words[0].text == "apply"
    return is_apply and _patches(name, words) is None


def _judge_names(
    headers: list[str], place: Path | None, policy: Policy
) -> Iterator[AccessDecision]:
    """Decide about the files that headers name, in the directory where the patch is applied.

    Options decide how many leading directories are stripped, so every tail of a name counts.
    """
    # `Index:file` needs no blank; the first word of a header is its keyword, never a name.
    words = {text for line in headers for text in line.replace("Index:", "Index: ").split()[1:]}
    parts = [text.strip('"').split("/") for text in words]
    ends = {"/".join(each[rank:]) for each in parts for rank in range(len(each))}
    # A patch of a hundred thousand names would hold up the chat: each tail is compared with
    # each rule.
    if len(ends) > MOST_NAMES:
        yield unknown_files(UNKNOWN_PATCH, policy)
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
    if _is_encoded(text) or LINK.search(text) or any(map(ESCAPED.search, headers)):
        yield unknown_files(UNKNOWN_PATCH, policy)
    if mentions_protected(headers):
        yield AccessDecision(VerdictKind.ASK, f"{path} changes a protected file", is_guarded=True)
    for rule in (*policy.deny, *policy.ask):
        if rule.tool in ("Edit", "Read") and mentions_rule(rule, headers):
            yield may_apply(rule)


def _is_encoded(text: str) -> bool:
    """Return whether a patch may be an encoded mail, or is a series file."""
    found = MAIL_HEADER.findall(text)
    return bool(SERIES.match(text)) or not all(map(PLAIN_HEADER.fullmatch, found))


def _patches(name: str, words: tuple[Word, ...]) -> list[Word] | None:
    """Return the patches that a call applies; None if it applies none."""
    if name == "patch":
        return _patches_of_patch(words)
    if name != "git" or not any(word.text in APPLYING for word in words):
        return None
    if words[0].is_option:
        return [UNKNOWN]  # `git -C dir apply x` means another `x`
    subcommand, given = words[0].text, words[1:]
    options = [word.text for word in given if word.is_option]
    if subcommand == "am" and [word.text for word in given] == [QUITTING]:
        return None
    if subcommand not in APPLYING:
        return None
    if not _are_plain(subcommand, options):
        return [UNKNOWN]
    if ONLY_SHOWING.intersection(options) and "--apply" not in options:
        return None
    return [word for word in given if not word.is_option and word.text != "-"]


def _patches_of_patch(words: tuple[Word, ...]) -> list[Word]:
    """Return the input of `patch`: `-i FILE`, `--input=FILE` or its second operand."""
    if not _are_plain("patch", [word.text for word in words if word.is_option]):
        return [UNKNOWN]
    joined = [word.text.partition("=")[2] for word in words if word.text.startswith("--input=")]
    named = [after for before, after in pairwise(words) if before.text in ("-i", "--input")]
    operands = [word for word in words if not word.is_option and word not in named]
    return [*map(Word, joined), *named] or operands[1:2]


def _are_plain(command: str, options: Iterable[str]) -> bool:
    return all(map(PLAIN_OPTIONS[command].fullmatch, options))
