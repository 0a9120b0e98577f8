"""Group carried items by call, tool, file or turn."""

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from turnlog.conversation.carried_items import CarriedItem, TurnRef

KIND_NAMES = {
    "prompt": "prompts",
    "answer": "answers",
    "thinking": "thinking",
    "attachment": "attachments",
    "note": "notes of the client",
    "summary": "summaries of compactions",
    "system": "system prompt and tool definitions",
}
"""Names for groups of items that are not calls."""
NO_FILE, NO_TURN = "no file", "no turn"


class CarriedGroup(NamedTuple):
    """Items that belong together, and their sums."""

    name: str
    first: CarriedItem
    """The most expensive of them."""
    items: int
    bytes: int
    sent: int
    carried: float
    own: float

    @property
    def cost(self) -> float:
        return self.carried + self.own


def group_items(items: Iterable[CarriedItem], by: str) -> list[CarriedGroup]:
    """Return the items grouped by `call`, `tool`, `file` or `turn`, the most expensive first."""
    key, name = GROUPINGS[by]
    found: dict[Hashable, list[CarriedItem]] = {}
    for item in items:
        found.setdefault("system" if item.kind == "system" else key(item), []).append(item)
    groups = [_group(members, name) for members in found.values()]
    return sorted(groups, key=lambda group: (-group.cost, group.name, group.first.line or 0))


def tool_name(item: CarriedItem) -> str:
    """Return the name of a call's tool, or a name for items of another kind."""
    return KIND_NAMES.get(item.kind) or item.tool or "unknown tool"


def item_name(item: CarriedItem) -> str:
    """Return a name for one item: the tool and title of a call, the text of a prompt."""
    if item.kind == "system":
        return KIND_NAMES["system"]
    head = item.tool or "unknown tool" if item.kind == "call" else item.kind
    title = " ".join(item.title.split())
    return f"{head} {title}" if title else head


def turn_name(turn: TurnRef | None) -> str:
    """Return the number of a turn with its prompt."""
    return f"{turn.n} {' '.join(turn.title.split())}".rstrip() if turn else NO_TURN


def _group(members: list[CarriedItem], name: Callable[[CarriedItem], str]) -> CarriedGroup:
    first = max(members, key=lambda item: item.cost)
    return CarriedGroup(
        KIND_NAMES["system"] if first.kind == "system" else name(first),
        first,
        len(members),
        sum(item.bytes for item in members),
        sum(item.sent for item in members),
        sum(item.carried for item in members),
        sum(item.own for item in members),
    )


GROUPINGS: dict[str, tuple[Callable[[CarriedItem], Hashable], Callable[[CarriedItem], str]]] = {
    "call": (id, item_name),
    "tool": (tool_name, tool_name),
    "file": (lambda item: item.file, lambda item: item.file or NO_FILE),
    "turn": (
        lambda item: item.turn.line if item.turn else None,
        lambda item: turn_name(item.turn),
    ),
}
"""For each grouping: the key of an item, and the name of the group that an item belongs to.

The system prompt, which is paid for in every turn, is always a group of its own.
"""
