"""An opened session: the starting point of everything else."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from turnlog.conversation.branch import whole_branch
from turnlog.conversation.calls import Call, Detail, Orphan, pair_calls, read_call
from turnlog.conversation.context import context_at, messages_of
from turnlog.conversation.continuations import Links, links_of
from turnlog.conversation.messages import Message, join_messages, repeated_messages
from turnlog.conversation.milestones import Milestones, TreeMilestones
from turnlog.conversation.node_log import WHOLE, NodeLog, ReadExtent, is_sidechain
from turnlog.conversation.nodes import AssistantNode, ChainNode, Node, UserNode
from turnlog.conversation.subagents import SubAgent, subagents_in_files, subagents_inside
from turnlog.conversation.tree import Tree, grow_tree
from turnlog.conversation.turn_blocks import NEEDED, TurnBlock, blocks_of
from turnlog.conversation.turn_figures import FIGURES, Outline, models_of, outline_of
from turnlog.conversation.turns import Turn, split_turns
from turnlog.format.json_values import Fields

AGENT_PROGRESS = "progress/agent_progress"
VERSION = re.compile(r"\d+(\.\d+){1,3}")
"""A client version such as 2.1.45; other programs may write anything."""


class Session(NodeLog):
    """One conversation with its messages, calls, turns and sub-agents, computed on demand."""

    _derived = (
        "tree",
        "messages",
        "_paired",
        "_calls_by_id",
        "turns",
        "subagents",
        "_sidechains",
        "milestones",
        "_turns_by_line",
    )

    @cached_property
    def messages(self) -> list[Message]:
        """Every message in the file, of all branches."""
        return join_messages(self.nodes)

    @property
    def repeated_messages(self) -> list[Message]:
        """Messages of sub-agents that the client repeated in this file while they ran."""
        nodes = [node for node in self.nodes if node.kind == AGENT_PROGRESS]
        return repeated_messages(zip(nodes, self.entries(nodes), strict=True))

    @property
    def calls(self) -> list[Call]:
        """Every call in the file, of all branches."""
        return self._paired[0]

    @property
    def orphans(self) -> list[Orphan]:
        """Results whose calls are not in the file."""
        return self._paired[1]

    def find_call(self, call_id: str | None) -> Call | None:
        """Return the call with an id, the last one if there are several; None if there is none."""
        return self._calls_by_id.get(call_id)

    @property
    def agent_calls(self) -> list[Call]:
        """The calls whose results name the sub-agents that they started."""
        return [call for call in self.calls if call.agent_id]

    @cached_property
    def turns(self) -> Sequence[Turn]:
        """The turns of the active branch."""
        return self.turns_to(self.tree.active_leaf)

    @cached_property
    def subagents(self) -> list[SubAgent]:
        """The sub-agents that its calls started, and the client's own helpers."""
        inside = subagents_inside(self, self._sidechains, self.calls)
        return inside + subagents_in_files(self.path, self.agent_calls, self.find_call)

    def open_subagent(self, agent: SubAgent) -> "Session":
        """Return a sub-agent as a session of its own."""
        if agent.root is None:
            return open_session(agent.path)
        return _Sidechain(self, self._sidechains.below(agent.root))

    def outline(
        self, first: int = 0, last: int | None = None, names: Sequence[str] = FIGURES
    ) -> Outline:
        """Return figures of some turns of the active branch, as columns."""
        return outline_of(self.turns[first:last], names)

    @property
    def turn_blocks(self) -> list[TurnBlock]:
        """Figures of the active branch, summed over blocks of turns."""
        return blocks_of(self.outline(names=NEEDED))

    def prompts(self, first: int = 0, last: int | None = None) -> list[UserNode | None]:
        """Return the prompts of some turns of the active branch; None for a turn without one."""
        return [turn.prompt for turn in self.turns[first:last]]

    @property
    def models(self) -> list[str]:
        """The models that answered on the active branch, sorted."""
        return models_of(self.turns)

    @property
    def last_line(self) -> int:
        """The number of the last line with an entry; 0 if there is none."""
        return self.nodes[-1].line if self.nodes else 0

    @property
    def nodes_in_memory(self) -> int:
        """The number of nodes held in memory."""
        return len(self.nodes)

    @property
    def active_leaf(self) -> ChainNode | None:
        """The entry at which the client resumes."""
        leaf = self.tree.active_leaf
        return None if leaf is None else self.tree.chain[leaf]

    def node_at(self, line: int) -> Node | None:
        """Return the first node of a line; None if the line has none."""
        place = bisect_left(self.nodes, line, key=lambda node: node.line)
        is_there = place < len(self.nodes) and self.nodes[place].line == line
        return self.nodes[place] if is_there else None

    def turn_at(self, line: int) -> int | None:
        """Return the turn of the active branch that contains a line; None if there is none."""
        return self._turns_by_line.get(line)

    @cached_property
    def _turns_by_line(self) -> dict[int, int]:
        return {node.line: turn.n for turn in self.turns for node in turn.nodes}

    @cached_property
    def milestones(self) -> Milestones:
        """The prompts and compactions of all branches."""
        return TreeMilestones(self.tree)

    @property
    def links(self) -> Links:
        """The sessions that this one continues, and those that continue it."""
        return links_of(self.path)

    @property
    def client_version(self) -> str | None:
        """The version of the client that wrote the last answer, if recorded."""
        return version_of(self.tree.chain)

    def branch_to(self, leaf: int | None) -> list[ChainNode]:
        """Return the nodes of the branch that ends at a leaf, given by its rank in the tree."""
        return [] if leaf is None else whole_branch(self.tree, leaf)

    def turns_to(self, leaf: int | None) -> Sequence[Turn]:
        """Return the turns of the branch that ends at a leaf."""
        return split_turns(self.branch_to(leaf), self.messages, self.calls, self._cuts)

    def context(self, leaf: int | None = None) -> list[Fields]:
        """Return the messages that the client would send at a leaf, or the active leaf."""
        return context_at(self, leaf)

    def late_start(self, leaf: int | None = None) -> ChainNode | None:
        """Return the orphan that the client starts reading at; None if it reads from a root."""
        tree = self.tree
        leaf = tree.active_leaf if leaf is None else leaf
        path = [] if leaf is None else tree.resumed_path(leaf)
        return tree.chain[path[-1]] if tree.starts_late(path) else None

    def history(self, leaf: int | None = None) -> list[Fields]:
        """Return all messages up to a leaf, even those before compactions and missing parents."""
        branch = self.branch_to(self.tree.active_leaf if leaf is None else leaf)
        return messages_of(self.values(branch))

    def detail(self, call: Call) -> Detail:
        """Return the contents of a call's lines."""
        if self.recall is None:
            return read_call(self, call)
        key = call.use.index, call.id
        detail = self.recall.get(key)
        if detail is None:
            detail = read_call(self, call)
            self.recall.keep(key, detail, call.result.size if call.result else 0)
        return detail

    @cached_property
    def _sidechains(self) -> Tree:
        """Sub-agents inside this file, one per root; empty for a sub-agent's own file."""
        # In a sub-agent's own file every line is marked as a sidechain: there it is the main
        # conversation, already in `tree`, and must not count as a sub-agent of itself.
        side = [node for node in self.nodes if is_sidechain(node)]
        return grow_tree(side if any(not node.is_sidechain for node in self.tree.chain) else [])

    @cached_property
    def _calls_by_id(self) -> dict[str | None, Call]:
        return {call.id: call for call in self.calls}

    @property
    def _cuts(self) -> set[int]:
        """The indexes of orphans that the client starts reading at."""
        return {self.tree.chain[rank].index for rank in self.tree.cuts}

    @cached_property
    def _paired(self) -> tuple[list[Call], list[Orphan]]:
        return pair_calls(self.nodes)


class SessionStart(Session):
    """The first lines of a session, opened as a session that can be extended to the whole file."""

    def __init__(self, path: Path, end: int) -> None:
        self._end = end
        super().__init__(path)

    @property
    def read_bytes(self) -> int:
        """Bytes that were read; equal to the file's size at the end."""
        return self.extent.offset

    @property
    def is_whole(self) -> bool:
        """True once nothing is left to read."""
        return self._end is None

    def extend(self, step: int) -> None:
        """Read about `step` more bytes."""
        end = (self._end or 0) + step
        self._end = end if end < self.state.size else None
        self._read_on()


class PartialSession(Session):
    """Some nodes of a file as a session of their own."""

    def __init__(self, session: Session, nodes: Sequence[Node]) -> None:
        self.path = session.path
        self.nodes = list(nodes)
        self.problems = []
        self.state = session.state


class _Sidechain(PartialSession):
    """The part of a file that belongs to a sub-agent."""

    @property
    def subagents(self) -> list[SubAgent]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return []


def version_of(nodes: Sequence[Node]) -> str | None:
    """Return the client version in the last answer that names one."""
    # The last answer, not the first: one session may be resumed by several client versions.
    answers = (node for node in reversed(nodes) if isinstance(node, AssistantNode))
    versions = (node.version for node in answers if node.version)
    return next(filter(VERSION.fullmatch, versions), None)


def open_session(path: Path, start: ReadExtent = WHOLE) -> Session:
    """Open the file of a session or sub-agent, optionally only from a given extent on."""
    return Session(path, start)
