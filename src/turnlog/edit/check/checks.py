"""Check whether a session can be resumed in full, and find what prevents it.

Checks are pure: they read the session and change nothing. They take time linear in the size of the
file, and hold one line of it at a time.
"""

import shlex
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from turnlog.conversation.context import messages_of
from turnlog.conversation.nodes import ChainNode
from turnlog.conversation.session import Session
from turnlog.edit.check import request_checks, tree_checks
from turnlog.edit.check.check_rules import RULES, cuts_at_gaps, numbers_of
from turnlog.edit.check.checked_session import SKIPPED, Case, Fault
from turnlog.edit.check.findings import Finding, Severity, by_weight
from turnlog.edit.check.line_checks import read_facts
from turnlog.store.resume_command import UUID

CHECKS = (*tree_checks.CHECKS, *request_checks.CHECKS)
SHORT_ID = 8
"""Length of a session id prefix that is usually unique."""
MAX_LINES = 5
"""Lines that a finding names."""

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
    found = {rule: _finding(rule, group, name, version) for rule, group in groups.items()}
    losses = [rule for rule, each in found.items() if each and each.severity is Severity.LOSS]
    counted = _count_losses(case, {rule: groups[rule] for rule in losses}, version)
    findings = (
        each and _with_loss(each, *counted.get(rule, (0, 0))) for rule, each in found.items()
    )
    return sorted(filter(None, findings), key=by_weight)


def _count_losses(
    case: Case, losses: dict[str, list[Fault]], version: str | None
) -> dict[str, tuple[int, int]]:
    """Return the messages lost to each fault, and those that would be sent without all of them."""
    nodes = {rule: _lost_nodes(case, marks, version) for rule, marks in losses.items()}
    # A line that cannot be read counts as one message.
    alone = {
        rule: sum(mark.facts.get("is_entry", True) for mark in losses[rule])
        for rule in losses.keys() & SKIPPED
    }
    counts = {
        rule: _count(case, lost.values()) + alone.get(rule, 0) for rule, lost in nodes.items()
    }
    if not any(counts.values()):
        return {}
    gone = {index: node for lost in nodes.values() for index, node in lost.items()}
    left = _count(case, [node for node in case.read if node.index not in gone])
    total = left + _count(case, gone.values()) + sum(alone.values())
    return {rule: (count, total) for rule, count in counts.items() if count}


def _lost_nodes(case: Case, marks: list[Fault], version: str | None) -> dict[int, ChainNode]:
    """Return the entries that a client omits because of some faults, by their index."""
    starts = {each.index for each in map(case.start_of, marks) if each}
    if not cuts_at_gaps(version):
        starts -= case.bridged
    ends = (place for place, node in enumerate(case.whole) if node.index in starts)
    before = case.whole[: max(ends, default=0)]
    return {node.index: node for node in [*before, *(each for mark in marks for each in mark.lost)]}


def _count(case: Case, nodes: Iterable[ChainNode]) -> int:
    """Return the number of messages that some entries form in a request."""
    parts: list[list[ChainNode]] = [[]]
    for node in sorted(nodes, key=lambda node: node.index):
        # A message is missing here: the two prompts around it are not one.
        if node.index in case.gaps:
            parts.append([])
        parts[-1].append(node)
    return sum(len(messages_of(case.session.values(part), is_open=True)) for part in parts)


def _places(marks: list[Fault]) -> str:
    lines = sorted({mark.line for mark in marks if mark.line})
    more = ", …" if len(lines) > MAX_LINES else ""
    return f": lines {', '.join(map(str, lines[:MAX_LINES]))}{more}" if len(lines) > 1 else ""


def _with_loss(finding: Finding, lost: int, messages: int) -> Finding:
    if not lost:
        return finding
    verb = "is" if lost == 1 else "are"
    message = f"{finding.message}; {lost} of {messages} messages {verb} lost"
    return replace(finding, message=message, lost=lost, messages=messages)


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
        message += f" ({len(marks)} times{_places(marks) if severity is Severity.LOSS else ''})"
    quoted = {key: shlex.quote(str(fact)) for key, fact in first.facts.items()}
    fix = rule.fix and rule.fix.format(session=session, **quoted)
    return Finding(rule.kind, severity, first.line, message, fix, len(marks))
