"""Check whether a session can be resumed in full, and find what prevents it.

Checks are pure: they read the session and change nothing. They take time linear in the size of the
file, and hold one line of it at a time.
"""

import shlex
from pathlib import Path

from turnlog.conversation.session import Session
from turnlog.edit.check import request_checks, tree_checks
from turnlog.edit.check.check_rules import RULES, numbers_of
from turnlog.edit.check.checked_session import Case, Fault
from turnlog.edit.check.findings import Finding, by_weight
from turnlog.edit.check.line_checks import read_facts
from turnlog.store.resume_command import UUID

CHECKS = (*tree_checks.CHECKS, *request_checks.CHECKS)
SHORT_ID = 8
"""Length of a session id prefix that is usually unique."""


STRAIGHTENED = frozenset(
    {
        "parallel-results",
        "late-time",
        "progress-parent",
        "dangling-parent-old",
        "unknown-parent-old",
    }
)
"""Faults that straightening fixes: older clients lose history because of them."""
FOR_OLD_CLIENTS = frozenset(
    {
        "blank-answer",
        "empty-answer",
        "empty-text",
        "lone-surrogate",
        "no-message-id",
        "no-newline",
        "open-call",
        "orphan-result",
        "text-answer",
        "text-error",
        "thinking-only",
    }
)
"""Faults to repair before straightening; the newest client still sends the same requests."""
DROPPED = frozenset({"orphan-result", "empty-answer", "blank-answer", "thinking-only"})
"""Faults whose repair may drop a whole line."""


def check_session(session: Session, version: str | None = None) -> list[Finding]:
    """Return the findings of a session, the worst first, one per kind.

    With a client version, return those that affect this client, with severity `loss` if it would
    lose something; without one, assume the newest client.
    """
    if version is not None:
        numbers_of(version)  # raises for an invalid version, even if there are no findings
    return findings_of(examine(session), version)


def needs_straightening(session: Session, version: str) -> bool:
    """Return whether a client can resume a session in full only after straightening."""
    numbers_of(version)
    case = examine(session)
    marks = [m for m in case.facts.marks if m.rule in STRAIGHTENED or concerns_old_clients(case, m)]
    rules = {mark.rule for mark in marks}
    return any(RULES[rule].severity_for(version) for rule in rules)


def concerns_old_clients(case: Case, mark: Fault) -> bool:
    """Return whether a fault can be repaired for older clients without affecting the newest.

    A line at the tip must not be dropped: the conversation would continue at a branch that the user
    left. A result cannot follow a call without a uuid; in a log without uuids, it would hide all
    other lines.
    """
    leaf = case.session.tree.active_leaf
    is_tip = leaf is not None and case.session.tree.chain[leaf] is mark.node
    is_unnamed = mark.node is not None and not mark.node.uuid
    is_risky = (is_tip and mark.rule in DROPPED) or (is_unnamed and mark.rule == "open-call")
    return mark.rule in FOR_OLD_CLIENTS and not is_risky


def examine(session: Session, place: Path | None = None) -> Case:
    """Find all faults of a session; `place` is the original path if the session is a copy."""
    case = Case(session, place or session.path)
    read_facts(case)
    case.facts.marks += [mark for check in CHECKS for mark in check(case)]
    return case


def findings_of(case: Case, version: str | None = None) -> list[Finding]:
    """Return one finding per kind of fault, the worst first."""
    groups: dict[str, list[Fault]] = {}
    for mark in case.facts.marks:
        groups.setdefault(mark.rule, []).append(mark)
    name = name_of(case.place)
    found = (_finding(rule, group, name, version) for rule, group in groups.items())
    return sorted(filter(None, found), key=by_weight)


def name_of(place: Path) -> str:
    """Return a session's name for commands: a prefix of its id, or its path outside of a store."""
    if "projects" not in place.absolute().parts:
        return shlex.quote(str(place))
    return place.stem[:SHORT_ID] if UUID.fullmatch(place.stem) else shlex.quote(place.stem)


def _finding(name: str, marks: list[Fault], session: str, version: str | None) -> Finding | None:
    rule = RULES[name]
    severity = rule.severity_for(version)
    if severity is None:
        return None
    first = min(marks, key=lambda mark: mark.line or 0)
    message = rule.message.format(**first.facts)
    if len(marks) > 1:
        message += f" ({len(marks)} times)"
    quoted = {key: shlex.quote(str(fact)) for key, fact in first.facts.items()}
    fix = rule.fix and rule.fix.format(session=session, **quoted)
    return Finding(rule.kind, severity, first.line, message, fix, len(marks))
