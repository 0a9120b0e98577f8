"""A session, opened: the object that everything starts from."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from turnlog.conversation.branch import whole_branch
from turnlog.conversation.calls import Call, Detail, Orphan, pair_calls, read_call
from turnlog.conversation.context import context_at, messages_of
from turnlog.conversation.links import Links, links_of
from turnlog.conversation.log import WHOLE, Extent, Log, is_sidechain
from turnlog.conversation.messages import Message, join_messages
from turnlog.conversation.nodes import ChainNode, Node
from turnlog.conversation.subagents import SubAgent, subagents_in_files, subagents_inside
from turnlog.conversation.tree import Tree, grow_tree
from turnlog.conversation.turns import Turn, split_turns
from turnlog.format.values import Fields


class Session(Log):
    """One conversation, with all that can be told of it."""

    _derived = ("tree", "messages", "_paired", "turns", "subagents", "_sidechains")

    @cached_property
    def messages(self) -> list[Message]:
        """Every message in the file, of all branches."""
        return join_messages(self.nodes)

    @property
    def calls(self) -> list[Call]:
        """Every call in the file, of all branches."""
        return self._paired[0]

    @property
    def orphans(self) -> list[Orphan]:
        """Results whose calls are not in the file."""
        return self._paired[1]

    @cached_property
    def turns(self) -> list[Turn]:
        """The turns of the active branch."""
        return self.turns_to(self.tree.active_leaf)

    @cached_property
    def subagents(self) -> list[SubAgent]:
        """The sub-agents that its calls started, and the client's own helpers."""
        inside = subagents_inside(self, self._sidechains, self.calls)
        return inside + subagents_in_files(self.path, self.calls)

    def open_subagent(self, agent: SubAgent) -> "Session":
        """A sub-agent as a session of its own."""
        if agent.root is None:
            return open_session(agent.path)
        return _Sidechain(self, self._sidechains.below(agent.root))

    @property
    def links(self) -> Links:
        """The sessions that this one goes on with, and those that go on with it."""
        return links_of(self.path)

    def branch_to(self, leaf: int | None) -> list[ChainNode]:
        """The nodes of the branch that ends at a leaf, by its rank in the tree."""
        return [] if leaf is None else whole_branch(self.tree, leaf)

    def turns_to(self, leaf: int | None) -> list[Turn]:
        """The turns of the branch that ends at a leaf."""
        return split_turns(self.branch_to(leaf), self.messages, self.calls)

    def context(self, leaf: int | None = None) -> list[Fields]:
        """The messages that the client would send at a leaf; at the active one by default."""
        return context_at(self, leaf)

    def history(self, leaf: int | None = None) -> list[Fields]:
        """All messages up to a leaf, as if nothing had been compacted, summaries in their place."""
        branch = self.branch_to(self.tree.active_leaf if leaf is None else leaf)
        return messages_of(self.values(branch))

    def detail(self, call: Call) -> Detail:
        """What is in the lines of a call."""
        return read_call(self, call)

    @cached_property
    def _sidechains(self) -> Tree:
        """Sub-agents inside this file, one for each root; a sub-agent's own file has none."""
        side = [node for node in self.nodes if is_sidechain(node)]
        return grow_tree(side if any(not node.is_sidechain for node in self.tree.chain) else [])

    @cached_property
    def _paired(self) -> tuple[list[Call], list[Orphan]]:
        return pair_calls(self.nodes)


class _Sidechain(Session):
    """The part of a file that belongs to a sub-agent."""

    def __init__(self, session: Session, nodes: Sequence[Node]) -> None:
        self.path = session.path
        self.nodes = list(nodes)
        self.problems = []
        self.state = session.state

    @property
    def subagents(self) -> list[SubAgent]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return []


def open_session(path: Path, start: Extent = WHOLE) -> Session:
    """Open a session file, or that of a sub-agent; of a long one perhaps only its end."""
    return Session(path, start)
