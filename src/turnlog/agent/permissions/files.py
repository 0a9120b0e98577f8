"""Decide about reading and writing files, for tools that run in this process."""

from collections.abc import Callable, Iterable
from pathlib import Path

from turnlog.agent.permissions.policy import (
    ALLOWED,
    AccessDecision,
    Policy,
    VerdictKind,
    patterns_of,
)
from turnlog.agent.permissions.rules import Rule
from turnlog.agent.workspace.access import ApprovalMode, Basis
from turnlog.agent.workspace.sandbox.patterns import anchored, escaped, names_of, permits, restricts
from turnlog.agent.workspace.sandbox.protected import is_protected

READING, WRITING = ("Read",), ("Edit", "Read")
"""Tools whose deny rules count: a file that must not be read must not be written either."""


def judge_read(path: Path, policy: Policy) -> AccessDecision:
    """Decide about reading a file or a folder."""
    if found := _restricted(path, policy, READING):
        return found
    if rule := _permitting(path, policy, ("Read", "Edit")):
        return AccessDecision(VerdictKind.ALLOW, f"{rule.text} allows it")
    if is_inside(path, policy.directories):
        return ALLOWED
    folder = path if path.is_dir() else path.parent
    offer = (f"Read(/{escaped(folder)}/**)",) if folder != Path("/") else ()
    return AccessDecision(
        VerdictKind.ASK, f"{path} is outside of the working directories", remember=offer
    )


def judge_write(path: Path, policy: Policy) -> AccessDecision:
    """Decide about making, changing or removing a file."""
    if found := _restricted(path, policy, WRITING, "Edit"):
        return found
    if policy.mode is ApprovalMode.PLAN:
        return AccessDecision(VerdictKind.DENY, f"in plan mode nothing is written: {path}")
    if is_protected(path, policy.directories):
        return AccessDecision(VerdictKind.ASK, f"{path} is protected", is_guarded=True)
    if rule := _permitting(path, policy, ("Edit",)):
        return AccessDecision(VerdictKind.ALLOW, f"{rule.text} allows it", basis=Basis.RULE)
    if not is_inside(path, policy.directories):
        return AccessDecision(VerdictKind.ASK, f"{path} is outside of the working directories")
    if policy.mode is ApprovalMode.ACCEPT_EDITS:
        return AccessDecision(VerdictKind.ALLOW, "", basis=Basis.WRITE)
    return AccessDecision(VerdictKind.ASK, f"it writes {path}")


def is_readable(path: Path, policy: Policy, searched: Path | None = None) -> bool:
    """Return whether a search may show a file: no rule denies reading it or asks about it.

    An ask rule that also covers `searched`, where the search started, has already been answered:
    with ask `Read(secrets/**)`, the user was asked about a search in `secrets`.
    """
    names = names_of(path)
    if restricts(policy.denied(*READING), names):
        return False
    answered = names_of(searched) if searched else ()
    asking = (patterns_of(each, policy.places) for each in policy.ask if each.tool in READING)
    return not any(restricts(each, names) and not restricts(each, answered) for each in asking)


def is_inside(path: Path, folders: Iterable[Path]) -> bool:
    """Return whether a path is in one of the folders under each of its names."""
    roots = [root for folder in folders for root in names_of(folder)]
    return all(any(map(name.is_relative_to, roots)) for name in names_of(path))


def _restricted(
    path: Path, policy: Policy, denying: tuple[str, ...], asking: str = "Read"
) -> AccessDecision | None:
    """Return the decision of the deny and ask rules about a path, if any applies."""
    names = names_of(path)

    def is_about(rule: Rule) -> bool:
        return restricts(patterns_of(rule, policy.places), names)

    if rule := _first(policy.deny, denying, is_about):
        return AccessDecision(VerdictKind.DENY, f"{rule.text} denies {path}", is_firm=True)
    if rule := _first(policy.ask, (asking,), is_about):
        return AccessDecision(VerdictKind.ASK, f"{rule.text} asks for {path}", is_firm=True)
    return None


def _permitting(path: Path, policy: Policy, tools: tuple[str, ...]) -> Rule | None:
    names = names_of(path)

    # As in the client, `Write(src/**)` denies what `Edit(src/**)` would, but allows nothing.
    def is_about(rule: Rule) -> bool:
        pattern = anchored(rule.about or "**", rule.base, policy.root)
        is_all = rule.about is None
        return rule.text.startswith(rule.tool) and (is_all or permits(pattern, names))

    return _first(policy.allow, tools, is_about)


def _first(
    rules: Iterable[Rule], tools: tuple[str, ...], is_about: Callable[[Rule], bool]
) -> Rule | None:
    return next((rule for rule in rules if rule.tool in tools and is_about(rule)), None)
