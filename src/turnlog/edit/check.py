"""Everything a session must satisfy to be resumed in full, and what of it does not hold.

Pure: it reads the session and changes nothing. Linear in the size of the file, of which it holds
one line at a time.
"""

import shlex
from pathlib import Path

from turnlog.conversation.session import Session
from turnlog.edit import check_request, check_tree
from turnlog.edit.check_case import Case, Mark
from turnlog.edit.check_lines import read_facts
from turnlog.edit.check_request import UUID
from turnlog.edit.check_rules import RULES
from turnlog.edit.findings import Finding, by_weight

CHECKS = (*check_tree.CHECKS, *check_request.CHECKS)
SHORT_ID = 8
"""Characters of a session's id that tell it from others."""


def check_session(session: Session) -> list[Finding]:
    """Say what is wrong with a session, the worst first: one finding for each kind of fault."""
    return findings_of(examine(session))


def examine(session: Session, place: Path | None = None) -> Case:
    """Look for every fault of a session; a copy is examined as if it lay in its place."""
    case = Case(session, place or session.path)
    read_facts(case)
    case.facts.marks += [mark for check in CHECKS for mark in check(case)]
    return case


def findings_of(case: Case) -> list[Finding]:
    """What there is to tell of the faults that were found, the worst first."""
    groups: dict[str, list[Mark]] = {}
    for mark in case.facts.marks:
        groups.setdefault(mark.rule, []).append(mark)
    name = name_of(case.place)
    return sorted((_finding(rule, group, name) for rule, group in groups.items()), key=by_weight)


def name_of(place: Path) -> str:
    """What to call a session in a command: the start of its id, or its path if not in a store."""
    if "projects" not in place.absolute().parts:
        return shlex.quote(str(place))
    return place.stem[:SHORT_ID] if UUID.fullmatch(place.stem) else shlex.quote(place.stem)


def _finding(name: str, marks: list[Mark], session: str) -> Finding:
    rule = RULES[name]
    first = min(marks, key=lambda mark: mark.line or 0)
    message = rule.message.format(**first.facts)
    if len(marks) > 1:
        message += f" ({len(marks)} times)"
    quoted = {key: shlex.quote(str(fact)) for key, fact in first.facts.items()}
    fix = rule.fix and rule.fix.format(session=session, **quoted)
    return Finding(rule.kind, rule.severity, first.line, message, fix, len(marks))
