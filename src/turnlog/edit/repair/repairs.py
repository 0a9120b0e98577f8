"""Takes away all faults of a session that can be taken away.

One fault hides another, and what mends one changes where others are. So a repair goes in rounds:
each takes away the faults of one group, writes a copy, and looks at it anew.
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
from turnlog.edit.repair import call_repairs, line_repairs, request_repairs, tree_repairs
from turnlog.edit.repair.repair_types import Repair

TRIES = 4
"""Rounds that a group may have: what it cannot take away with them, it leaves."""


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
"""In the order in which they have their rounds: what is read first comes first."""
IsWanted = Callable[[Case, Fault], bool]
"""Whether a fault is to be mended."""


class Repaired(NamedTuple):
    """A session without its faults."""

    session: Session
    """A copy that lasts as long as the repair; the session itself if nothing was to be done."""
    mended: list[Finding]
    """Findings that are no more. Those that others hid at first have no line."""
    left: list[Finding]
    """Findings that are still there."""


@contextmanager
def repaired(
    session: Session, tally: Tally, is_wanted: IsWanted = lambda case, mark: True
) -> Generator[Repaired]:
    """Make a copy of a session without its faults, or without some; count what is changed."""
    with TemporaryDirectory(prefix="turnlog-") as folder:
        place, tries = session.path, Counter[int]()
        case = examine(session, place)
        seen = {_key(finding): finding for finding in findings_of(case)}
        hopeless = set[str]()
        while (group := _next_group(case, tries, hopeless, is_wanted)) is not None:
            tries[group] += 1
            before = _counted(case, group)
            copy = Path(folder, str(tries.total()), place.name)
            _write(copy, carry_out(_planned(case, GROUPS[group], is_wanted), tally))
            if case.session.path != place:
                case.session.path.unlink()
            del case  # what is known of a large session is let go before its copy is read
            case = examine(open_session(copy), place)
            if _counted(case, group) == before:
                # What a round leaves as it was must not take the turns of faults found later.
                hopeless |= before.keys()
            for finding in findings_of(case):
                seen.setdefault(_key(finding), replace(finding, line=None))
        left = findings_of(case)
        kinds = {_key(finding) for finding in left}
        yield Repaired(case.session, [each for key, each in seen.items() if key not in kinds], left)


def _counted(case: Case, group: int) -> Counter[str]:
    """Count the faults that a group is for."""
    return Counter(mark.rule for mark in case.facts.marks if mark.rule in GROUPS[group])


def _next_group(
    case: Case, tries: Counter[int], hopeless: set[str], is_wanted: IsWanted
) -> int | None:
    """Return the first group that has something to do, and has not done it in vain."""
    rules = {mark.rule for mark in case.facts.marks if is_wanted(case, mark)} - hopeless
    for number, group in enumerate(GROUPS):
        if tries[number] < TRIES and rules & group.keys():
            return number
    return None


def _planned(case: Case, group: dict[str, Repair], is_wanted: IsWanted) -> Plan:
    plan = Plan(case.session)
    wanted = [mark for mark in case.facts.marks if is_wanted(case, mark)]
    for repair in dict.fromkeys(group.values()):
        marks = [mark for mark in wanted if group.get(mark.rule) is repair]
        if marks:
            repair(case, marks, plan)
    close_gaps(plan)
    return plan


def _write(copy: Path, lines: Iterable[bytes]) -> None:
    """Write a copy under the session's name: part of what is checked is what it is called."""
    copy.parent.mkdir(mode=0o700)
    with copy.open("wb") as file:
        file.writelines(lines)


def _key(finding: Finding) -> tuple[str, str]:
    return finding.kind, finding.severity
