"""Build a plan from the options of a command."""

from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from shlex import quote
from typing import NamedTuple

from turnlog.conversation.session import Session
from turnlog.edit.check.checks import concerns_old_clients
from turnlog.edit.check.findings import Finding
from turnlog.edit.compress import compress
from turnlog.edit.effect import Tally
from turnlog.edit.plan import Plan, carry_out, close_gaps
from turnlog.edit.removal_marks import mark_removals
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
"""The transform that is applied before all others, as a change of its own."""
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
"""Transforms in the order in which they are applied."""


@dataclass(frozen=True)
class EditOptions:
    """The edits that a user requested."""

    transforms: list[str] = field(default_factory=list[str])
    choice: TransformOptions = field(default_factory=TransformOptions)
    until: str | None = None
    """The last turn to keep, by number, or the last entry, by uuid."""
    branch: str | None = None
    """The leaf of the only branch to keep."""
    keeps_tree: bool = False
    """Never straighten, even if the client that will resume the session needs it."""


class Prepared(NamedTuple):
    """A plan that is ready to be applied."""

    plan: Plan
    tally: Tally
    """Counts the changes that a repair already made; applying the plan adds to them."""
    mended: list[Finding]
    """Findings that were repaired, including those repaired for older clients when straightening.
    """
    left: list[Finding]
    """Findings that could not be repaired."""


@contextmanager
def prepared(session: Session, options: EditOptions) -> Generator[Prepared]:
    """Yield the plan for an edit; after a repair, it refers to a temporary copy."""
    tally = Tally(session)
    if REPAIR in options.transforms:
        with repaired(session, tally) as result:
            plan = build_plan(result.session, options)
            yield Prepared(plan, tally, result.mended, result.left)
    elif STRAIGHTEN in options.transforms:
        # Straightening is for older clients, and does not help if they fail on a single line.
        with repaired(session, tally, concerns_old_clients) as result:
            yield Prepared(build_plan(result.session, options), tally, result.mended, [])
    else:
        yield Prepared(build_plan(session, options), tally, [], [])


def build_plan(session: Session, options: EditOptions) -> Plan:
    """Return the plan for an edit."""
    plan = Plan(session)
    # Cut first: straightening and compression work on the branch up to `plan.tip`.
    leaf = _last_to_keep(session, options)
    if leaf is not None:
        plan.leaf = leaf
        keep_branch(session, plan, leaf)
    for name, transform in TRANSFORMS.items():
        if name in options.transforms:
            transform(session, plan, options.choice)
    close_gaps(plan)
    mark_removals(plan)
    return plan


def changes_anything(plan: Plan) -> bool:
    """Return whether applying a plan would change the file, which is read only if necessary."""
    if plan.added or plan.dropped:
        return True
    tally = Tally(plan.log)
    deque(carry_out(plan, tally), maxlen=0)
    return tally.effect().is_change


def _last_to_keep(session: Session, options: EditOptions) -> int | None:
    leaf = session.tree.rank_of(session.node(options.branch).uuid) if options.branch else None
    if options.until is None:
        return leaf
    if not options.until.isdigit():
        return session.tree.rank_of(session.node(options.until).uuid)
    turns = session.turns if leaf is None else session.turns_to(leaf)
    number = int(options.until)
    if not 1 <= number <= len(turns):
        raise NotFound(
            f"{session.path.name} has {len(turns)} turns, no turn {number}",
            f"turnlog turns {quote(session.id)}",
        )
    return session.tree.rank_of(turns[number - 1].nodes[-1].uuid)
