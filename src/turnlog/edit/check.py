"""Everything a session must satisfy to be resumed in full, and what of it does not hold.

Pure: it reads the session and changes nothing. Linear in the size of the file, of which it holds
one line at a time.
"""

from collections.abc import Iterable

from turnlog.conversation.session import Session
from turnlog.edit import check_request, check_tree
from turnlog.edit.check_case import Case, Mark
from turnlog.edit.check_lines import read_facts
from turnlog.edit.check_rules import RULES
from turnlog.edit.findings import Finding, by_weight

CHECKS = (*check_tree.CHECKS, *check_request.CHECKS)


def check_session(session: Session) -> list[Finding]:
    """Say what is wrong with a session, the worst first: one finding for each kind of fault."""
    case = Case(session)
    read_facts(case)
    marks = [*case.facts.marks, *(mark for check in CHECKS for mark in check(case))]
    return sorted(_findings(marks), key=by_weight)


def _findings(marks: Iterable[Mark]) -> list[Finding]:
    groups: dict[str, list[Mark]] = {}
    for mark in marks:
        groups.setdefault(mark.rule, []).append(mark)
    return [_finding(name, group) for name, group in groups.items()]


def _finding(name: str, marks: list[Mark]) -> Finding:
    rule = RULES[name]
    first = min(marks, key=lambda mark: mark.line or 0)
    message = rule.message.format(**first.facts)
    if len(marks) > 1:
        message += f" ({len(marks)} times)"
    return Finding(rule.kind, rule.severity, first.line, message, rule.fix, len(marks))
