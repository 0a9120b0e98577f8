"""The session under examination: its tree, the entries to be sent, facts about its lines."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from turnlog.conversation.branch import since_compaction, with_siblings
from turnlog.conversation.node_log import is_sidechain
from turnlog.conversation.nodes import AssistantNode, ChainNode, TipNode, UserNode
from turnlog.conversation.prompts import PromptKind
from turnlog.conversation.session import PartialSession, Session
from turnlog.conversation.tree import Tree, is_compaction
from turnlog.format.image_size import Pixels

ASIDE = frozenset(
    {PromptKind.TOOL_RESULT, PromptKind.META, PromptKind.COMMAND, PromptKind.COMMAND_OUTPUT}
)
"""User lines that may come between an answer and the results it waits for."""
SKIPPED = frozenset({"unreadable-line", "unreadable-note", "no-type"})
"""Rules of lines that the client does not read."""
CUTTING = frozenset(
    {
        *("dangling-parent", "dangling-parent-old", "unknown-parent", "unknown-parent-old"),
        *("circular-parents", "circular-parents-cut", "progress-parent"),
        *("no-parent", "second-root"),
    }
)
"""Rules of entries before which clients omit the history."""


class Fault(NamedTuple):
    """An occurrence of a fault: the name of its rule, and the facts for its message."""

    rule: str
    line: int | None = None
    facts: Mapping[str, Any] = MappingProxyType({})
    node: ChainNode | None = None
    """The affected entry, if it is a single one."""
    onto: ChainNode | None = None
    """The correct parent, if the entry has a wrong one."""
    lost: Sequence[ChainNode] = ()
    """Entries that clients omit, besides all those before the node of a fault in `CUTTING`."""


class SentImage(NamedTuple):
    """An image that would be sent."""

    node: ChainNode
    size: int
    """Length of its base64, which the API limits."""
    pixels: Pixels | None


@dataclass
class LineFacts:
    """Facts from one pass over the lines; grows with the number of faults, not with the content."""

    marks: list[Fault] = field(default_factory=list[Fault])
    images: list[SentImage] = field(default_factory=list[SentImage])
    thinking: dict[str | int, list[AssistantNode]] = field(
        default_factory=dict[str | int, list[AssistantNode]]
    )
    """Thinking entries, by message."""
    unsigned: list[AssistantNode] = field(default_factory=list[AssistantNode])
    speaking: set[str | int] = field(default_factory=set[str | int])
    """Messages with text or calls."""
    twins: dict[str, dict[int, int]] = field(default_factory=dict[str, dict[int, int]])
    """For each duplicate uuid, a hash of the content of each entry that has it."""
    nameless: list[ChainNode] = field(default_factory=list[ChainNode])
    """Entries without a uuid."""
    parentless: list[ChainNode] = field(default_factory=list[ChainNode])
    """Entries without the field `parentUuid`, sent or not."""
    is_odd_line: bool = False
    """True if a strict parser rejects the current line."""
    directories: set[str] = field(default_factory=set[str])
    entrypoint: str | None = None
    other_id: tuple[int, str] | None = None
    """The first line that names another session, and that session's id."""


@dataclass
class Case:
    """A session under examination."""

    session: Session
    place: Path
    """Path of the session; of the original if the session is a copy."""
    facts: LineFacts = field(default_factory=LineFacts)
    starts: dict[int, ChainNode] = field(default_factory=dict[int, ChainNode])
    """Of lines that the client cannot read, or use as a parent, the first entry after the gap."""
    bridged: set[int] = field(default_factory=set[int])
    """Indexes of entries without their parent that newer clients attach to another entry."""

    @property
    def is_subagent(self) -> bool:
        return self.place.name.startswith("agent-")

    @cached_property
    def sent(self) -> list[ChainNode]:
        """Entries that the newest client would send, in order."""
        leaf = self.session.tree.active_leaf
        return [] if leaf is None else since_compaction(self.session.tree, leaf)

    @cached_property
    def sent_indexes(self) -> set[int]:
        return {node.index for node in self.sent}

    @cached_property
    def tree(self) -> Tree:
        """The entries as the client reads them: known after all lines were checked."""
        skipped = {mark.line for mark in self.facts.marks if mark.rule in SKIPPED}
        several = {mark.line for mark in self.facts.marks if mark.rule == "several-values"}
        if not skipped | several:
            return self.session.tree
        nodes = (node for node in self.session.nodes if node.line not in skipped)
        read = [node for node in nodes if not node.position or node.line not in several]
        return PartialSession(self.session, read).tree

    @cached_property
    def read(self) -> list[ChainNode]:
        """The entries to be sent, without those that only turnlog can read."""
        if self.tree is self.session.tree or self.tree.active_leaf is None:
            return self.sent
        return since_compaction(self.tree, self.tree.active_leaf)

    @cached_property
    def _read_indexes(self) -> set[int]:
        return {node.index for node in self.read}

    @cached_property
    def path(self) -> list[int]:
        """Ranks from the active leaf upwards to the last compaction, as the client walks them."""
        tree = self.tree
        ranks: list[int] = []
        # The client stops here: it sends nothing from before a compaction.
        for rank in tree.resumed_path(tree.active_leaf) if tree.active_leaf is not None else []:
            ranks.append(rank)
            if is_compaction(tree.chain[rank]):
                break
        return ranks

    @cached_property
    def path_indexes(self) -> set[int]:
        return {self.tree.chain[rank].index for rank in self.path}

    @cached_property
    def history(self) -> list[int]:
        """Ranks from the active leaf upwards to the last compaction, as if no link was broken."""
        found = dict.fromkeys(self.path)
        rank = self._rank_before(self.path[-1]) if self.path else -1
        while rank >= 0 and rank not in found:
            found[rank] = None
            rank = self._rank_before(rank)
        return list(found)

    def _rank_before(self, rank: int) -> int:
        node = self.tree.chain[rank]
        if is_compaction(node):
            return -1
        if self.tree.parents[rank] >= 0:
            return self.tree.parents[rank]
        return rank - 1 if self.is_parentless(node) else self.end_before(rank)

    def is_parentless(self, node: ChainNode) -> bool:
        """Return whether a message lacks the field `parentUuid`: the client starts at it."""
        return is_talk(node) and node.index in self._parentless

    @cached_property
    def _parentless(self) -> set[int]:
        return {node.index for node in self.facts.parentless}

    def end_before(self, root: int) -> int:
        """Return the end of the conversation that a root hides; -1 if it hides none.

        Only conversations with an answer count, and only if the user did not rewind after them.
        """
        # Example: lines 1-40 are one conversation, line 41 has no parent and starts another. The
        # client walks up from the tip, stops at line 41, and never sends the first 40 lines.
        start = self.tree.chain[root]
        if start.uuid is None or not self.tree.is_root(root):
            return -1
        for rank in reversed(self.tree.roots):
            first = self.tree.chain[rank]
            if first.index < start.index and first.uuid and not is_compaction(first):
                lost = self.lost_talk([rank])
                if has_answer(lost) and self.last_rewind < lost[-1].index:
                    return self.last_leaf(rank, root)
        return -1

    def last_leaf(self, rank: int, aside: int) -> int:
        """Return the last leaf in the file that descends from a node, but not from `aside`."""
        for leaf in reversed(self.tree.leaves):
            path = self.tree.path_to(leaf)
            if rank in path and aside not in path:
                return leaf
        return rank

    def lost_talk(self, ranks: Iterable[int]) -> list[ChainNode]:
        """Return user and assistant lines at some nodes and below that are not sent."""
        nodes = [node for rank in ranks for node in self.tree.below(rank)]
        lost = [node for node in nodes if is_talk(node) and node.index not in self._read_indexes]
        return sorted(lost, key=lambda node: node.index)

    @cached_property
    def whole(self) -> list[ChainNode]:
        """The entries that would be sent if no link was broken."""
        return with_siblings(self.tree, self.history[::-1])

    @cached_property
    def unanswered(self) -> dict[str, AssistantNode]:
        """Calls without a result among the entries that would be sent."""
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
        """Unanswered calls of the last message, which the client closes itself."""
        for node in reversed(self.sent):
            if isinstance(node, AssistantNode):
                key = message_key(node)
                return {name for name, use in self.unanswered.items() if message_key(use) == key}
            # A prompt after the calls shows that the user continued without their results.
            if isinstance(node, UserNode) and node.prompt not in ASIDE:
                break
        return set()

    @cached_property
    def dropped_calls(self) -> set[str]:
        """Unanswered calls that the client omits."""
        return self.unanswered.keys() - self.open_calls

    @cached_property
    def last_said(self) -> ChainNode | None:
        """Last user or assistant line that would be sent."""
        return next((node for node in reversed(self.sent) if is_talk(node)), None)

    @cached_property
    def repeated(self) -> set[str]:
        """Uuids that occur more than once."""
        counts = Counter(
            node.uuid
            for node in self.session.nodes
            if isinstance(node, ChainNode) and node.uuid and self.is_main(node)
        )
        return {uuid for uuid, count in counts.items() if count > 1}

    @cached_property
    def last_rewind(self) -> int:
        """Index of the last record of a deliberate rewind by the user; -1 if there is none."""
        notes = (n.index for n in self.session.nodes if isinstance(n, TipNode) and n.is_explicit)
        return max(notes, default=-1)

    @cached_property
    def gaps(self) -> set[int]:
        """Indexes of the entries before which part of the history is missing or omitted."""
        return {start.index for start in map(self.start_of, self.facts.marks) if start}

    def start_of(self, fault: Fault) -> ChainNode | None:
        """Return the entry before which clients omit the history because of a fault."""
        return fault.node if fault.rule in CUTTING else self.starts.get(fault.line or 0)

    def is_main(self, node: ChainNode) -> bool:
        """Return whether a node belongs to the main conversation, not to an inline sub-agent."""
        return self.is_subagent or not is_sidechain(node)


Check = Callable[[Case], Iterator[Fault]]


def mark_at(rule: str, node: ChainNode, onto: ChainNode | None = None, **facts: Any) -> Fault:
    """Return a fault of one entry."""
    return Fault(rule, node.line, facts, node, onto)


def is_talk(node: object) -> bool:
    """Return whether a node is a line of the user or the model."""
    return isinstance(node, UserNode | AssistantNode)


def has_answer(nodes: Iterable[ChainNode]) -> bool:
    """Return whether the model answered among some entries."""
    return any(isinstance(node, AssistantNode) and not node.is_error for node in nodes)


def message_key(node: AssistantNode) -> str | int:
    """Return the key of a node's message: its id, or the node's index if it has none."""
    return node.message_id or node.index


def some(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> some(1, "line"), some(3, "line")
    ('1 line', '3 lines')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"
