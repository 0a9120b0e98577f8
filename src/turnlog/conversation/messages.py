"""Messages of the model: assistant lines joined by message id.

Each message's usage counts once, however many lines repeat it.
"""

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
    """One answer of the model, joined from all its lines, which need not be consecutive."""

    nodes: tuple[AssistantNode, ...]
    """Its lines in file order, which is the order they were streamed in."""
    usage: Usage
    """The maximum of each count: lines repeat the usage, and only the last may be complete."""

    @property
    def id(self) -> str | None:
        return self.nodes[0].message_id

    @property
    def model(self) -> str | None:
        return self.nodes[0].model

    @property
    def stop_reason(self) -> str | None:
        """The last stop reason recorded, if any."""
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
        """True if the client wrote this in place of an answer of the model."""
        return self.nodes[0].model == SYNTHETIC or self.has_error

    @property
    def has_error(self) -> bool:
        """True if a line of it is an API error that the client recorded."""
        return any([node.is_error for node in self.nodes])  # noqa: C419 (a list is faster here)


def join_messages(nodes: Iterable[Node]) -> list[Message]:
    """Return the messages of a file, in the order of their first lines.

    Consecutive lines without an id form one message.
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
    return list(map(join_group, groups.values()))


def join_group(nodes: list[AssistantNode]) -> Message:
    """Return the message that some lines form."""
    return Message(tuple(nodes), _merged_usage(nodes))


def repeated_messages(repeating: Iterable[tuple[Node, Entry]]) -> list[Message]:
    """Return the sub-agent messages that a session repeats in `agent_progress` lines.

    Clients 2.1.12 to 2.1.81 wrote such lines; the sub-agent's own file may be gone.
    """
    return join_messages(
        repeated for node, entry in repeating if (repeated := _repeated(node, entry))
    )


def _repeated(node: Node, entry: Entry) -> AssistantNode | None:
    data = given(entry.data) if isinstance(entry, Progress) else None
    message = given(data.message) if isinstance(data, AgentProgress) else None
    if not isinstance(entry, Progress) or not message or message.get("type") != "assistant":
        return None
    inner = fit(Assistant, message, [])
    if inner is None or inner.body is None or not given(inner.body.id):
        return None
    # The repeated message has neither a version nor a line of its own: use those of the progress
    # entry around it, so that reports can point to a place in this file.
    inner.version = entry.version
    line = Line(b"", node.offset, node.line)
    found = node_of(node.index, line, node.position, inner)
    if not isinstance(found, AssistantNode):
        return None
    found.time = found.time or node.time
    return found


def _merged_usage(nodes: list[AssistantNode]) -> Usage:
    # Lines of one message repeat its usage while it grows: output_tokens may read 1, 1, 250. Adding
    # them up would count the message three times, so take the maximum of each count.
    usages = [node.usage for node in nodes if node.usage]
    joint = usages[0] if usages else Usage()
    for usage in usages[1:]:
        if usage != joint:
            joint = larger_usage(joint, usage)
    return joint


def larger_usage(first: Usage, second: Usage) -> Usage:
    """Return a usage with the larger value of each count."""
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


def sum_tokens(usage: Usage) -> int:
    """Return the sum of the four billed token counts."""
    cached = (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
    return (usage.input_tokens or 0) + (usage.output_tokens or 0) + cached


def add_usage(usages: Iterable[Usage]) -> dict[str, int]:
    """Return the sums of the four billed token counts."""
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
