"""Decide about reading and writing files, for every tool and command."""

import errno
from collections.abc import Callable, Iterable
from pathlib import Path

from turnlog.agent.permissions.bash import COMPARISONS, UnknownValue, is_folder
from turnlog.agent.permissions.links import ways_of
from turnlog.agent.permissions.name_mentions import mentions_rule
from turnlog.agent.permissions.path_access import (
    escaped,
    is_guarded,
    is_inside,
    names_of,
    permits,
    restricts,
)
from turnlog.agent.permissions.policy import ALLOWED, AccessDecision, Policy, VerdictKind
from turnlog.agent.permissions.rules import Rule
from turnlog.agent.workspace.access import ApprovalMode, Basis
from turnlog.format.regular_files import read_regular

OPEN_ANYWAY = frozenset(
    map(Path, ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/fd/1", "/dev/fd/2"))
)
"""Devices that may always be read, as a program may always read its input."""
NOTHING = Path("/dev/null")
READING, WRITING = ("Read",), ("Edit", "Read")
"""Tools whose deny rules count: a file that must not be read must not be written either."""

PATCHES = frozenset(("COMMIT_EDITMSG", "ADD_EDIT.patch", "patch"))
"""Files in a git directory that may contain a patch; `patch` is that of an interrupted rebase."""
LARGEST_PATCH = 1 << 20


def judge_read(path: Path, policy: Policy) -> AccessDecision:
    """Decide about reading a file or a folder."""
    if path in OPEN_ANYWAY:
        return ALLOWED
    if found := restricted(path, policy, READING):
        return found
    if rule := _permitting(path, policy, ("Read", "Edit")):
        # Not `Basis.RULE`: the rule widens what may be read, not what may run or be written.
        return AccessDecision(VerdictKind.ALLOW, f"{rule.text} allows it")
    if is_inside(path, policy.directories):
        return ALLOWED
    folder = path if is_folder(path) else path.parent
    offer = (f"Read(/{escaped(folder)}/**)",) if folder != Path("/") else ()
    return AccessDecision(
        VerdictKind.ASK, f"{path} is outside of the working directories", remember=offer
    )


def judge_output(path: Path, policy: Policy) -> AccessDecision:
    """Decide about redirecting output to a file."""
    # Only a redirection is harmless: it opens the device, while `rm /dev/null` and `sed -i` would
    # remove or replace it. Opening /dev/stdout opens the file behind it again:
    # `1<.git/config >/dev/stdout` writes it.
    return ALLOWED if path == NOTHING else judge_write(path, policy)


def judge_write(path: Path, policy: Policy) -> AccessDecision:
    """Decide about making, changing or removing a file."""
    if found := restricted(path, policy, WRITING, "Edit"):
        return found
    if policy.mode is ApprovalMode.PLAN:
        return AccessDecision(VerdictKind.DENY, f"in plan mode nothing is written: {path}")
    if is_guarded(path, policy.directories, policy.added_path):
        return AccessDecision(VerdictKind.ASK, f"{path} is protected", is_guarded=True)
    if rule := _permitting(path, policy, ("Edit",)):
        return AccessDecision(VerdictKind.ALLOW, f"{rule.text} allows it", basis=Basis.RULE)
    if not is_inside(path, policy.directories):
        return AccessDecision(VerdictKind.ASK, f"{path} is outside of the working directories")
    if policy.mode is ApprovalMode.ACCEPT_EDITS:
        return AccessDecision(VerdictKind.ALLOW, "", basis=Basis.EDITS)
    return AccessDecision(VerdictKind.ASK, f"it writes {path}")


def unknown_files(reason: str, policy: Policy) -> AccessDecision:
    """Return the decision about a call that may write any file, and so a protected or denied one.

    No rule for the command lifts it, and with rules about files, no mode does either.
    """
    return AccessDecision(VerdictKind.ASK, reason, is_firm=policy.has_file_rules, is_guarded=True)


def restricted(
    path: Path, policy: Policy, denying: tuple[str, ...], asking: str = "Read"
) -> AccessDecision | None:
    """Return the decision of the deny and ask rules about a path, if any applies."""
    return restricted_names(names_of(path), policy, denying, asking)


def restricted_names(
    names: tuple[Path, ...], policy: Policy, denying: tuple[str, ...], asking: str = "Read"
) -> AccessDecision | None:
    """Return the decision of the deny and ask rules about a file with several names."""
    path = names[0]
    COMPARISONS.spend(len(policy.deny) + len(policy.ask))
    if rule := _first(policy.deny, denying, lambda rule: restricts(rule, names, policy.places)):
        return AccessDecision(VerdictKind.DENY, f"{rule.text} denies {path}", is_firm=True)
    if rule := _first(policy.ask, (asking,), lambda rule: restricts(rule, names, policy.places)):
        return AccessDecision(VerdictKind.ASK, f"{rule.text} asks for {path}", is_firm=True)
    if denying == READING and (rule := _quoted_rule(names, policy)):
        reason = f"{path} quotes a file that {rule.text} may apply to"
        return AccessDecision(VerdictKind.ASK, reason, is_firm=True)
    return None


def _quoted_rule(names: tuple[Path, ...], policy: Policy) -> Rule | None:
    """Return a rule that may cover a file whose content git has copied into a file of its own.

    With `commit.verbose`, `.git/COMMIT_EDITMSG` contains the diff of the last commit.
    """
    rules = [rule for rule in (*policy.deny, *policy.ask) if rule.tool in READING]
    for name in names if rules else ():
        if ".git" not in name.parts or not (
            name.name in PATCHES or name.parent.name == "rebase-apply"
        ):
            continue
        try:
            text = read_regular(name, LARGEST_PATCH).decode("utf-8", "replace")
        except OSError as error:
            if error.errno == errno.EFBIG:
                return rules[0]
            continue
        if "diff --git " in text:
            return next((rule for rule in rules if mentions_rule(rule, [text])), None)
    return None


def is_readable(path: Path, policy: Policy, searched: Path | None = None) -> bool:
    """Return whether a search may show a file: no rule denies reading it or asks about it.

    An ask rule that also covers `searched`, where the search started, has already been answered:
    with ask `Read(secrets/**)`, the user was asked about a search in `secrets`.
    """
    # Links are cached for the duration of one verdict; a search takes longer.
    ways_of.cache_clear()
    try:
        names = names_of(path)
    except UnknownValue:
        return False
    if _first(policy.deny, READING, lambda rule: restricts(rule, names, policy.places)):
        return False
    if _quoted_rule(names, policy):
        return False
    asking = [rule for rule in policy.ask if rule.tool in READING]
    answered = names_of(searched) if searched and asking else ()
    return not any(
        restricts(rule, names, policy.places) and not restricts(rule, answered, policy.places)
        for rule in asking
    )


def _permitting(path: Path, policy: Policy, tools: tuple[str, ...]) -> Rule | None:
    # As in the client, `Write(src/**)` denies what `Edit(src/**)` would, but allows nothing.
    def is_about(rule: Rule) -> bool:
        return rule.text.startswith(rule.tool) and permits(rule, path, policy.root)

    return _first(policy.allow, tools, is_about)


def _first(
    rules: Iterable[Rule], tools: tuple[str, ...], is_about: Callable[[Rule], bool]
) -> Rule | None:
    return next((rule for rule in rules if rule.tool in tools and is_about(rule)), None)
