"""From what a user asks for to a plan."""

from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from turnlog.conversation.session import Session
from turnlog.edit.check.checks import concerns_old_clients
from turnlog.edit.check.findings import Finding
from turnlog.edit.compress import compress
from turnlog.edit.effect import Tally
from turnlog.edit.plan import Plan, carry_out, close_gaps
from turnlog.edit.repair.repairs import repaired
from turnlog.edit.transforms import (
    TransformOptions,
    keep_branch,
    straighten,
    strip_images,
    strip_progress,
    strip_thinking,
    strip_tools,
    stub_results,
)
from turnlog.errors import NotFound

Transform = Callable[[Session, Plan, TransformOptions], None]

COMPRESS = "compress"
REPAIR = "repair"
"""The transform that comes before all others, as a change of its own."""
STRAIGHTEN = "straighten"
TRANSFORMS: dict[str, Transform] = {
    "strip_tools": strip_tools,
    "stub_results": stub_results,
    "strip_thinking": strip_thinking,
    "strip_images": strip_images,
    "strip_progress": strip_progress,
    STRAIGHTEN: straighten,
    COMPRESS: compress,
}
"""In the order in which they are applied."""


@dataclass(frozen=True)
class EditOptions:
    """What a user asks for."""

    transforms: list[str] = field(default_factory=list[str])
    choice: TransformOptions = field(default_factory=TransformOptions)
    until: str | None = None
    """The number of the last turn to keep, or the uuid of the last entry."""
    branch: str | None = None
    """The uuid of the leaf of the only branch to keep."""
    keeps_tree: bool = False
    """Never straighten, even if the client that will resume the session needs it."""


class Prepared(NamedTuple):
    """What a user asks for, ready to be carried out."""

    plan: Plan
    tally: Tally
    """What a repair has changed already, and where to count the rest."""
    mended: list[Finding]
    """What a repair took away, or what older clients stumble over, to straighten a session."""
    left: list[Finding]
    """What a repair could not take away."""


@contextmanager
def prepared(session: Session, wanted: EditOptions) -> Generator[Prepared]:
    """The plan for what a user asks for; after a repair it is one for a copy that lasts as long."""
    tally = Tally(session)
    if REPAIR in wanted.transforms:
        with repaired(session, tally) as result:
            plan = build_plan(result.session, wanted)
            yield Prepared(plan, tally, result.mended, result.left)
    elif STRAIGHTEN in wanted.transforms:
        # A straight chain alone does not help a client that fails on one of its lines.
        with repaired(session, tally, concerns_old_clients) as result:
            yield Prepared(build_plan(result.session, wanted), tally, result.mended, [])
    else:
        yield Prepared(build_plan(session, wanted), tally, [], [])


def build_plan(session: Session, wanted: EditOptions) -> Plan:
    """The plan for what a user asks for."""
    plan = Plan(session)
    leaf = _last_to_keep(session, wanted)
    if leaf is not None:
        plan.leaf = leaf
        keep_branch(session, plan, leaf)
    for name, transform in TRANSFORMS.items():
        if name in wanted.transforms:
            transform(session, plan, wanted.choice)
    close_gaps(plan)
    return plan


def changes_anything(plan: Plan) -> bool:
    """Return whether carrying out a plan would change the file; reads it only if it might not."""
    if plan.added or plan.dropped:
        return True
    tally = Tally(plan.log)
    deque(carry_out(plan, tally), maxlen=0)
    return tally.effect().is_change


def _last_to_keep(session: Session, wanted: EditOptions) -> int | None:
    leaf = session.tree.rank_of(session.node(wanted.branch).uuid) if wanted.branch else None
    if wanted.until is None:
        return leaf
    if not wanted.until.isdigit():
        return session.tree.rank_of(session.node(wanted.until).uuid)
    turns = session.turns if leaf is None else session.turns_to(leaf)
    number = int(wanted.until)
    if not 1 <= number <= len(turns):
        raise NotFound(
            f"{session.path.name} has {len(turns)} turns, no turn {number}",
            f"turnlog turns {session.id}",
        )
    return session.tree.rank_of(turns[number - 1].nodes[-1].uuid)
