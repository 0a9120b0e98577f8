"""What the checks look at: an opened session, what of it would be sent, what its lines hold."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from turnlog.conversation.branch import since_compaction
from turnlog.conversation.node_log import is_sidechain
from turnlog.conversation.nodes import AssistantNode, ChainNode, TipNode, UserNode
from turnlog.conversation.prompts import PromptKind
from turnlog.conversation.session import Session
from turnlog.conversation.tree import is_compaction
from turnlog.edit.image_size import Pixels

ASIDE = frozenset(
    {PromptKind.TOOL_RESULT, PromptKind.META, PromptKind.COMMAND, PromptKind.COMMAND_OUTPUT}
)
"""User lines that may follow on an answer that still waits for results."""


class Fault(NamedTuple):
    """A fault at a place: the name of its rule, and the facts that its message tells."""

    rule: str
    line: int | None = None
    facts: Mapping[str, Any] = MappingProxyType({})
    node: ChainNode | None = None
    """The entry that has the fault, where it is that of an entry."""
    onto: ChainNode | None = None
    """The entry that it is to follow on, where it follows on the wrong one."""


class SentImage(NamedTuple):
    """An image that would be sent."""

    node: ChainNode
    size: int
    """Of its base64, which is what the API's limit counts."""
    pixels: Pixels | None


@dataclass
class LineFacts:
    """What one reading of the lines gathers; it grows with the faults, not with the contents."""

    marks: list[Fault] = field(default_factory=list[Fault])
    images: list[SentImage] = field(default_factory=list[SentImage])
    thinking: dict[str | int, list[AssistantNode]] = field(
        default_factory=dict[str | int, list[AssistantNode]]
    )
    """The entries of each message that think, by its id."""
    unsigned: list[AssistantNode] = field(default_factory=list[AssistantNode])
    speaking: set[str | int] = field(default_factory=set[str | int])
    """Messages that say or do something."""
    twins: dict[str, dict[int, int]] = field(default_factory=dict[str, dict[int, int]])
    """For each uuid that stands twice, what each entry with it holds, hashed."""
    nameless: list[ChainNode] = field(default_factory=list[ChainNode])
    """Entries without a uuid."""
    parentless: list[ChainNode] = field(default_factory=list[ChainNode])
    """Entries without the field for a parent, sent or not."""
    is_odd_line: bool = False
    """Whether a strict parser refuses the line that is being read."""
    directories: set[str] = field(default_factory=set[str])
    entrypoint: str | None = None
    other_id: tuple[int, str] | None = None
    """The first line with the id of another session, and that id."""


@dataclass
class Case:
    """A session under examination."""

    session: Session
    place: Path
    """Where the session lies, of which this may be a copy."""
    facts: LineFacts = field(default_factory=LineFacts)

    @property
    def is_subagent(self) -> bool:
        return self.place.name.startswith("agent-")

    @cached_property
    def sent(self) -> list[ChainNode]:
        """The nodes that the newest client would send, in their order."""
        leaf = self.session.tree.active_leaf
        return [] if leaf is None else since_compaction(self.session.tree, leaf)

    @cached_property
    def sent_indexes(self) -> set[int]:
        return {node.index for node in self.sent}

    @cached_property
    def path(self) -> list[int]:
        """The ranks from the active leaf up, as the client walks, to the last compaction."""
        tree = self.session.tree
        ranks: list[int] = []
        for rank in tree.resumed_path(tree.active_leaf) if tree.active_leaf is not None else []:
            ranks.append(rank)
            if is_compaction(tree.chain[rank]):
                break
        return ranks

    @cached_property
    def path_indexes(self) -> set[int]:
        return {self.session.tree.chain[rank].index for rank in self.path}

    @cached_property
    def unanswered(self) -> dict[str, AssistantNode]:
        """Calls that would be sent if they had results."""
        answered = {r.call_id for n in self.sent if isinstance(n, UserNode) for r in n.results}
        return {
            call.id: node
            for node in self.sent
            if isinstance(node, AssistantNode)
            for call in node.calls
            if call.id not in answered
        }

    @cached_property
    def open_calls(self) -> set[str]:
        """Those of them that everything ends with: the client closes them itself."""
        for node in reversed(self.sent):
            if isinstance(node, AssistantNode):
                key = message_key(node)
                return {name for name, use in self.unanswered.items() if message_key(use) == key}
            if isinstance(node, UserNode) and node.prompt not in ASIDE:
                break
        return set()

    @cached_property
    def dropped_calls(self) -> set[str]:
        """Those of them that the client leaves out."""
        return self.unanswered.keys() - self.open_calls

    @cached_property
    def last_said(self) -> ChainNode | None:
        """The last line of the user or the model that would be sent."""
        return next((node for node in reversed(self.sent) if is_talk(node)), None)

    @cached_property
    def repeated(self) -> set[str]:
        """Uuids that stand more than once."""
        counts = Counter(
            node.uuid
            for node in self.session.nodes
            if isinstance(node, ChainNode) and node.uuid and self.is_main(node)
        )
        return {uuid for uuid, count in counts.items() if count > 1}

    @cached_property
    def last_rewind(self) -> int:
        """The last place where the user left a branch on purpose, which the client notes."""
        notes = (n.index for n in self.session.nodes if isinstance(n, TipNode) and n.is_explicit)
        return max(notes, default=-1)

    def is_main(self, node: ChainNode) -> bool:
        """Whether a node is of the main conversation, and not of a sub-agent inside the file."""
        return self.is_subagent or not is_sidechain(node)


Check = Callable[[Case], Iterator[Fault]]


def mark_at(rule: str, node: ChainNode, onto: ChainNode | None = None, **facts: Any) -> Fault:
    """The mark of a fault that is one entry's."""
    return Fault(rule, node.line, facts, node, onto)


def is_talk(node: object) -> bool:
    """Whether a node is a line of the user or of the model."""
    return isinstance(node, UserNode | AssistantNode)


def message_key(node: AssistantNode) -> str | int:
    """What tells one message from another: its id, or its line where it has none."""
    return node.message_id or node.index


def some(count: int, noun: str) -> str:
    """A number of things, in words.

    >>> some(1, "line"), some(3, "line")
    ('1 line', '3 lines')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"
