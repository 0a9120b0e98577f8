"""From what a user asks for to a plan, and what the plan amounts to."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import Struct

from turnlog.conversation.session import Session
from turnlog.edit.plan import Plan, carry_out, close_gaps
from turnlog.edit.transforms import (
    Choice,
    keep_branch,
    straighten,
    strip_images,
    strip_progress,
    strip_thinking,
    strip_tools,
    stub_results,
)
from turnlog.errors import NotFound

Transform = Callable[[Session, Plan, Choice], None]

TRANSFORMS: dict[str, Transform] = {
    "strip_tools": strip_tools,
    "stub_results": stub_results,
    "strip_thinking": strip_thinking,
    "strip_images": strip_images,
    "strip_progress": strip_progress,
    "straighten": straighten,
}
"""In the order in which they are applied."""


@dataclass(frozen=True)
class Wanted:
    """What a user asks for."""

    transforms: list[str] = field(default_factory=list[str])
    choice: Choice = field(default_factory=Choice)
    until: str | None = None
    """The number of the last turn to keep, or the uuid of the last entry."""
    branch: str | None = None
    """The uuid of the leaf of the only branch to keep."""


class Effect(Struct, frozen=True):
    """What a plan does to a session."""

    entries_before: int
    entries_after: int
    bytes_before: int
    bytes_after: int
    dropped: dict[str, int]
    """How many entries of each kind go."""
    rewritten: dict[str, int]
    """How many entries of each kind are rewritten, ids apart."""


def build_plan(session: Session, wanted: Wanted) -> Plan:
    """The plan for what a user asks for."""
    plan = Plan(session)
    leaf = _last_to_keep(session, wanted)
    if leaf is not None:
        keep_branch(session, plan, leaf)
    for name, transform in TRANSFORMS.items():
        if name in wanted.transforms:
            transform(session, plan, wanted.choice)
    close_gaps(plan)
    return plan


def effect_of(plan: Plan) -> Effect:
    """What a plan amounts to."""
    nodes = plan.log.nodes
    dropped = Counter(node.kind for node in nodes if node.index in plan.dropped)
    kept = [
        node for node in nodes if node.index in plan.rewrites and node.index not in plan.dropped
    ]
    return Effect(
        entries_before=len(nodes),
        entries_after=len(nodes) - dropped.total() + sum(map(len, plan.added.values())),
        bytes_before=plan.log.path.stat().st_size,
        bytes_after=sum(map(len, carry_out(plan))),
        dropped=dict(dropped.most_common()),
        rewritten=dict(Counter(node.kind for node in kept).most_common()),
    )


def _last_to_keep(session: Session, wanted: Wanted) -> int | None:
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
