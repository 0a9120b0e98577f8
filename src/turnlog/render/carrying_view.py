"""Build the JSON that `turnlog cost --carrying` prints: the carrying cost of a session."""

from msgspec import Struct

from turnlog.conversation.carrying import Carrying, carrying_of
from turnlog.conversation.carrying_groups import GROUPINGS, CarriedGroup, group_items
from turnlog.conversation.session import Session
from turnlog.errors import UsageError
from turnlog.secrets import mask
from turnlog.secrets.masking import mask_start

LONGEST = 200
"""Maximum characters of a name."""


class CarryingRow(Struct):
    """The cost of a part of a session; all costs are estimates, their sum is exact."""

    name: str
    """Tool and title of a call, a tool, a file, or the number of a turn with its prompt."""
    kind: str | None
    """`call`, `prompt`, `answer`, `thinking`, `attachment`, `note`, `summary` or `system`.

    null if grouped by anything but `call`, like the five fields that follow.
    """
    tool: str | None
    file: str | None
    """The file that was read or changed; also set if grouped by file."""
    line: int | None
    """Line of the call or prompt in its file."""
    agent_id: str | None
    """Sub-agent whose file has the line."""
    turn_cost_usd: float | None
    """Cost of everything that came up in the same turn."""
    turn: int | None
    """Number of the turn on its branch; also set if grouped by turn."""
    turn_line: int | None
    """Line at which the turn starts."""
    items: int
    """Calls, prompts, answers … in this row."""
    bytes: int
    sent: int
    """Requests that carried it, added up over the items."""
    carried_usd: float
    """Cost of sending it."""
    output_usd: float
    """Cost of the output tokens that the model wrote it with, and of its searches and advisors."""
    cost_usd: float
    """Sum of the two."""


class CarryingView(Struct):
    """The cost of a session, distributed over what its requests carried."""

    by: str
    rows: list[CarryingRow]
    requests: int
    cost_usd: float
    """Total of all rows: the cost of the session."""
    estimated: bool
    """Always true: no file records the tokens of single blocks. The total is exact."""
    unpriced: list[str]
    """Models without a known price, whose messages are excluded."""


def carrying_view(session: Session, by: str = "call", reveal: bool = False) -> CarryingView:
    """Return the cost of each call, tool, file or turn of a session, the most expensive first."""
    if by not in GROUPINGS:
        known = ", ".join(GROUPINGS)
        raise UsageError(f"cannot group by {by}: choose from {known}", "turnlog cost --help")
    found = carrying_of(session)
    turns = _turn_costs(found)
    rows = [_row(group, by, turns, reveal) for group in group_items(found.items, by)]
    return CarryingView(
        by, rows, found.requests, found.cost, estimated=True, unpriced=found.unpriced
    )


def _turn_costs(found: Carrying) -> dict[int, float]:
    """Return the cost of each turn, by its line."""
    groups = [each for each in group_items(found.items, "turn") if each.first.kind != "system"]
    return {group.first.turn.line: group.cost for group in groups if group.first.turn}


def _row(group: CarriedGroup, by: str, turns: dict[int, float], reveal: bool) -> CarryingRow:
    first = group.first
    is_system = first.kind == "system"
    is_item = by == "call" and not is_system
    turn = first.turn if by in ("call", "turn") and not is_system else None
    file = first.file if by in ("call", "file") else None
    return CarryingRow(
        name=group.name[:LONGEST] if reveal else mask_start(group.name, LONGEST),
        kind=first.kind if by == "call" else None,
        tool=first.tool if is_item else None,
        file=file if reveal or file is None else mask(file),
        line=first.line if is_item else None,
        agent_id=first.agent if is_item else None,
        turn_cost_usd=turns.get(turn.line) if turn else None,
        turn=turn.n if turn else None,
        turn_line=turn.line if turn else None,
        items=group.items,
        bytes=group.bytes,
        sent=group.sent,
        carried_usd=group.carried,
        output_usd=group.own,
        cost_usd=group.cost,
    )
