"""A session, opened: the object that everything starts from."""

from functools import cached_property
from pathlib import Path

from turnlog.conversation.branch import whole_branch
from turnlog.conversation.calls import Call, Detail, Orphan, pair_calls, read_call
from turnlog.conversation.context import context_at
from turnlog.conversation.drafts import Fields
from turnlog.conversation.log import Log, is_sidechain
from turnlog.conversation.messages import Message, join_messages
from turnlog.conversation.nodes import ChainNode
from turnlog.conversation.subagents import SubAgentFile, subagent_files
from turnlog.conversation.tree import Tree, grow_tree
from turnlog.conversation.turns import Turn, split_turns


class Session(Log):
    """One conversation, with all that can be told of it."""

    _derived = ("tree", "messages", "_paired", "turns", "subagents", "sidechains")

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
    def subagents(self) -> list[SubAgentFile]:
        """The sub-agents that have files of their own."""
        return subagent_files(self.path, self.calls)

    @cached_property
    def sidechains(self) -> Tree:
        """Sub-agents inside this file, as clients before 2.0 kept them: one for each root."""
        return grow_tree(node for node in self.nodes if is_sidechain(node))

    def branch_to(self, leaf: int | None) -> list[ChainNode]:
        """The nodes of the branch that ends at a leaf, by its rank in the tree."""
        return [] if leaf is None else whole_branch(self.tree, leaf)

    def turns_to(self, leaf: int | None) -> list[Turn]:
        """The turns of the branch that ends at a leaf."""
        return split_turns(self.branch_to(leaf), self.messages, self.calls)

    def context(self, leaf: int | None = None) -> list[Fields]:
        """The messages that the client would send at a leaf; at the active one by default."""
        return context_at(self, leaf)

    def detail(self, call: Call) -> Detail:
        """What is in the lines of a call."""
        return read_call(self, call)

    @cached_property
    def _paired(self) -> tuple[list[Call], list[Orphan]]:
        return pair_calls(self.nodes)


def open_session(path: Path) -> Session:
    """Open a session file, or that of a sub-agent."""
    return Session(path)
