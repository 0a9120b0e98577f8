"""Repair all faults of a session that can be repaired.

Faults hide one another, and fixing one moves others. A repair therefore runs in rounds: each fixes
one group of faults, writes a copy and checks it again.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from msgspec.structs import replace

from turnlog.conversation.session import Session, open_session
from turnlog.edit.check.checked_session import Case, Fault
from turnlog.edit.check.checks import examine, findings_of
from turnlog.edit.check.findings import Finding
from turnlog.edit.effect import Tally
from turnlog.edit.plan import Plan, carry_out, close_gaps
from turnlog.edit.removal_marks import mark_removals
from turnlog.edit.repair import call_repairs, line_repairs, request_repairs, tree_repairs
from turnlog.edit.repair.repair_types import Repair

TRIES = 4
"""Maximum number of rounds per group; faults that remain then are reported as left."""


GROUPS: tuple[dict[str, Repair], ...] = (
    line_repairs.REPAIRS,
    tree_repairs.NAMES,
    tree_repairs.TWINS,
    tree_repairs.PARENTS,
    tree_repairs.ENDS,
    call_repairs.CALL_IDS,
    call_repairs.CALLS,
    request_repairs.FORMS,
    request_repairs.BLOCKS,
    request_repairs.NUMBER,
    tree_repairs.STRAIGHT,
)
"""Groups in the order in which they run: lines, links, calls, content; straightening comes last."""
IsRepairable = Callable[[Case, Fault], bool]
"""Decides whether a fault is to be repaired."""


class Repaired(NamedTuple):
    """A repaired session."""

    session: Session
    """A temporary copy, or the session itself if nothing had to be done."""
    mended: list[Finding]
    """Findings that were fixed; those that other faults hid at first have no line number."""
    left: list[Finding]
    """Findings that remain."""


@contextmanager
def repaired(
    session: Session, tally: Tally, is_repairable: IsRepairable = lambda case, mark: True
) -> Generator[Repaired]:
    """Yield a copy of a session with its faults, or some of them, fixed; count the changes."""
    with TemporaryDirectory(prefix="turnlog-") as folder:
        original, tries = session.path, Counter[int]()
        case = examine(session, original)
        findings = {_key(finding): finding for finding in findings_of(case)}
        hopeless = set[str]()
        while (group := _next_group(case, tries, hopeless, is_repairable)) is not None:
            tries[group] += 1
            before = _counted(case, group)
            copy = Path(folder, str(tries.total()), original.name)
            _write(copy, carry_out(_planned(case, GROUPS[group], is_repairable), tally))
            if case.session.path != original:
                case.session.path.unlink()
            del case  # free the memory of a large session before opening its copy
            case = examine(open_session(copy), original)
            if _counted(case, group) == before:
                # A group that cannot fix anything must not use up the rounds of faults that other
                # repairs uncover later.
                hopeless |= before.keys()
            # Line numbers of the copy would be misleading for the user's file.
            for finding in findings_of(case):
                findings.setdefault(_key(finding), replace(finding, line=None))
        left = findings_of(case)
        remaining = {_key(finding) for finding in left}
        mended = [finding for key, finding in findings.items() if key not in remaining]
        yield Repaired(case.session, mended, left)


def _counted(case: Case, group: int) -> Counter[str]:
    """Count the faults of a group."""
    return Counter(mark.rule for mark in case.facts.marks if mark.rule in GROUPS[group])


def _next_group(
    case: Case, tries: Counter[int], hopeless: set[str], is_repairable: IsRepairable
) -> int | None:
    """Return the first group with faults that it may still be able to fix."""
    rules = {mark.rule for mark in case.facts.marks if is_repairable(case, mark)} - hopeless
    for number, group in enumerate(GROUPS):
        if tries[number] < TRIES and rules & group.keys():
            return number
    return None


def _planned(case: Case, group: dict[str, Repair], is_repairable: IsRepairable) -> Plan:
    plan = Plan(case.session)
    faults = [mark for mark in case.facts.marks if is_repairable(case, mark)]
    for repair in dict.fromkeys(group.values()):
        marks = [mark for mark in faults if group.get(mark.rule) is repair]
        if marks:
            repair(case, marks, plan)
    close_gaps(plan)
    mark_removals(plan)
    return plan


def _write(copy: Path, lines: Iterable[bytes]) -> None:
    """Write a copy under the session's name, because checks also look at the name."""
    copy.parent.mkdir(mode=0o700)
    with copy.open("wb") as file:
        file.writelines(lines)


def _key(finding: Finding) -> tuple[str, str]:
    return finding.kind, finding.severity
