"""What the model said: assistant lines joined by their message's id, each usage counted once."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec import UNSET, Struct

from turnlog.conversation.nodes import SYNTHETIC, AssistantNode, Node, node_of
from turnlog.format.blocks import Usage
from turnlog.format.entries import AgentProgress, Assistant, Entry, Progress
from turnlog.format.fields import given
from turnlog.format.fit import fit
from turnlog.format.jsonl import Line

S = TypeVar("S", bound=Struct)


@dataclass(frozen=True, slots=True)
class Message:
    """One answer of the model, from all its lines; they need not stand together."""

    nodes: tuple[AssistantNode, ...]
    """In the order of the file, which is that of the stream."""
    usage: Usage
    """Of each count the largest: lines repeat it, and the last may be the only full one."""

    @property
    def id(self) -> str | None:
        return self.nodes[0].message_id

    @property
    def model(self) -> str | None:
        return self.nodes[0].model

    @property
    def stop_reason(self) -> str | None:
        """The last one known."""
        known = [node.stop_reason for node in self.nodes if node.stop_reason]
        return known[-1] if known else None

    @property
    def started(self) -> str | None:
        return self.nodes[0].time

    @property
    def ended(self) -> str | None:
        return self.nodes[-1].time

    @property
    def is_synthetic(self) -> bool:
        """Written by the client in the place of an answer: not the model's words."""
        return self.model == SYNTHETIC or any(node.is_error for node in self.nodes)


def join_messages(nodes: Iterable[Node]) -> list[Message]:
    """Join the assistant lines of a file, in the order of their first lines.

    Lines without an id are joined only to such lines right before them.
    """
    groups: dict[str | int, list[AssistantNode]] = {}
    previous: AssistantNode | None = None
    for node in nodes:
        if not isinstance(node, AssistantNode):
            previous = None
            continue
        if node.message_id:
            name: str | int = node.message_id
        elif previous and not previous.message_id:
            name = next(reversed(groups))
        else:
            name = node.index
        groups.setdefault(name, []).append(node)
        previous = node
    return [Message(tuple(group), _joint_usage(group)) for group in groups.values()]


def repeated_messages(repeating: Iterable[tuple[Node, Entry]]) -> list[Message]:
    """Join the messages of sub-agents that a session repeats in `agent_progress` lines.

    Clients 2.1.12 to 2.1.81 wrote such lines; the file of the sub-agent may be gone.
    """
    return join_messages(
        repeated for node, entry in repeating if (repeated := _repeated(node, entry))
    )


def _repeated(node: Node, entry: Entry) -> AssistantNode | None:
    held = given(entry.data) if isinstance(entry, Progress) else None
    told = given(held.message) if isinstance(held, AgentProgress) else None
    if not isinstance(entry, Progress) or not told or told.get("type") != "assistant":
        return None
    inner = fit(Assistant, told, [])
    if inner is None or inner.body is None or not given(inner.body.id):
        return None
    inner.version = entry.version
    line = Line(b"", node.offset, node.line)
    found = node_of(node.index, line, node.position, inner)
    if not isinstance(found, AssistantNode):
        return None
    found.time = found.time or node.time
    return found


def _joint_usage(nodes: list[AssistantNode]) -> Usage:
    usages = [node.usage for node in nodes if node.usage]
    joint = usages[0] if usages else Usage()
    for usage in usages[1:]:
        if usage != joint:
            joint = larger_usage(joint, usage)
    return joint


def larger_usage(first: Usage, second: Usage) -> Usage:
    """Of each count the larger one."""
    return _largest(first, second)


def _largest(first: S, second: S) -> S:
    fields = type(first).__struct_fields__
    return type(first)(**{n: _larger(getattr(first, n), getattr(second, n)) for n in fields})


def _larger(first: Any, second: Any) -> Any:
    if second is UNSET or second is None:
        return first
    if isinstance(first, int) and isinstance(second, int):
        return max(first, second)
    if isinstance(first, Struct) and isinstance(second, Struct):
        return _largest(first, second)
    return second


def add_usage(usages: Iterable[Usage]) -> dict[str, int]:
    """The four counts that are billed, summed."""
    names = (
        "input_tokens",
        "output_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
    )
    totals: dict[str, int] = dict.fromkeys(names, 0)
    for usage in usages:
        for name in names:
            totals[name] += getattr(usage, name) or 0
    return totals
