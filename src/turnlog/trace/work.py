"""Group the lines of a session into work: one per turn and one per sub-agent.

All branches count: work that the user rewound was still done and paid for. Turns are numbered in
the order of their prompts in the file, so appending lines never changes a number.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from turnlog.conversation.calls import Call
from turnlog.conversation.messages import Message
from turnlog.conversation.nodes import AssistantNode, ChainNode, Node, UserNode
from turnlog.conversation.prompts import ASKING, LOCAL, PromptKind, full_text
from turnlog.conversation.session import Session
from turnlog.conversation.subagents import SubAgent
from turnlog.conversation.tree import Tree
from turnlog.format.entries import User
from turnlog.format.json_values import is_object

NOTIFIED = re.compile(r"<(?:task-id|tool-use-id)>([^<]+)</")
NAMED = re.compile(r"agentId:\s*([\w-]+)|<task-id>\s*([^<\s]+)\s*</task-id>")
"""The sub-agent's id in the text of a result (observed: 2.0.x; background agents of 2.1.x)."""
PAIRED = re.compile(r"<task-id>([^<]+)</task-id>\s*<tool-use-id>([^<]+)</tool-use-id>")
STARTING = ("Task", "Agent")
NOTIFYING = ("queue-operation", "attachment/queued_command")
NOT_A_PROMPT = frozenset({PromptKind.TOOL_RESULT, PromptKind.META, PromptKind.INTERRUPTION})


@dataclass(frozen=True)
class Past:
    """The turns and sub-agents before the part of a file that was read."""

    turns: int = 0
    agents: frozenset[Path] = frozenset()
    """Files of sub-agents that belong to earlier turns."""


NOTHING = Past()


@dataclass(frozen=True, slots=True)
class Work:
    """The lines that descend from a prompt, on all branches, or the lines of a sub-agent."""

    session: Session
    n: int
    """The number of the turn; 0 for lines before the first prompt."""
    prompt: UserNode | None
    nodes: list[ChainNode]
    """In the order of the file."""
    messages: list[Message] = field(default_factory=list[Message])
    calls: list[Call] = field(default_factory=list[Call])
    agent: SubAgent | None = None
    is_continued: bool = False
    """True if this is the part of a turn that a fork added after the copied part."""

    @property
    def model_messages(self) -> list[Message]:
        """The model's messages, without synthetic ones written by the client."""
        return [message for message in self.messages if not message.is_synthetic]

    @property
    def is_answered(self) -> bool:
        """True if the model answered, or the client recorded an error instead."""
        return any(not m.is_synthetic or m.nodes[-1].is_error for m in self.messages)

    @property
    def first(self) -> ChainNode:
        """The prompt, or the first line if the work has no prompt of its own."""
        return self.prompt if self.prompt and not self.is_continued else self.nodes[0]


@dataclass
class Crew:
    """The sub-agents of a session."""

    session: Session
    started: dict[str, list[Work]] = field(default_factory=dict[str, list[Work]])
    """Sub-agents by the id of the call that started them, in whichever file."""
    loose: list[Work] = field(default_factory=list[Work])
    """Sub-agents that no call started: the client's own helpers."""

    @cached_property
    def notified(self) -> set[str]:
        """Ids of sub-agents, and of their calls, whose end the client announced."""
        texts = _notifications(self.session)
        return {name for text in texts for name in NOTIFIED.findall(text)}


def turns_of(session: Session, past: Past = NOTHING) -> list[Work]:
    """Return the turns of all branches of a session, in the order of their prompts."""
    tree = session.tree
    groups: dict[int, list[ChainNode]] = {}
    current = -1
    for node, owner in zip(tree.chain, _owners(tree), strict=True):
        # Some exporters write no parents: a line without one belongs to the turn of the line
        # before.
        current = current if owner == -1 else owner
        groups.setdefault(current, []).append(node)
    before = groups.pop(-1, [])
    positions = first_positions(session)
    ranks = sorted(groups, key=lambda rank: positions[tree.chain[rank].uuid or rank])
    # Lines before the first prompt, such as hook output at the start, belong to the first turn.
    # Only if they contain an answer, as after a truncated start, are they work of their own.
    if ranks and not any(isinstance(node, AssistantNode) for node in before):
        groups[ranks[0]] = before + groups[ranks[0]]
        before = []
    prompts = [tree.chain[rank] for rank in ranks]
    turns = [Work(session, 0, None, before)] if before else []
    for n, (rank, prompt) in enumerate(zip(ranks, prompts, strict=True), past.turns + 1):
        assert isinstance(prompt, UserNode), "turns start at prompts"
        turns.append(Work(session, n, prompt, groups[rank]))
    _share_out(turns, session)
    return turns


def all_subagents(session: Session, turns: Iterable[Work], past: Past = NOTHING) -> Crew:
    """Return the sub-agents of a session, including nested ones."""
    works: list[Work] = []
    known_uuids = {node.uuid for node in session.tree.chain if node.uuid}
    known_messages = {message.id for turn in turns for message in turn.messages if message.id}
    # A sub-agent may start with a copy of the context of its caller, under the same uuids and
    # message ids: lines that another `Work` already contains are not counted again.
    for agent in session.subagents:
        if agent.path in past.agents:
            continue
        if work := _agent_work(session, agent, known_uuids, known_messages):
            works.append(work)
            known_uuids |= {node.uuid for node in work.nodes if node.uuid}
            known_messages |= {message.id for message in work.messages if message.id}
    calls = [call for work in (*turns, *works) for call in work.calls]
    known = {call.id for call in calls}
    named = {call.agent_id: call.id for call in calls if call.agent_id}
    crew = Crew(session)
    unlinked: list[Work] = []
    for work in works:
        assert work.agent, "made for a sub-agent"
        call = work.agent.call_id or named.get(work.agent.id)
        if call in known:
            crew.started.setdefault(call or "", []).append(work)
        else:
            unlinked.append(work)
    if unlinked:
        _link_by_text(crew, unlinked, (*turns, *works))
    return crew


def _link_by_text(crew: Crew, unlinked: Iterable[Work], works: Iterable[Work]) -> None:
    """Link sub-agents to calls by text: their id in a result or notification, or else their prompt.

    Ids take precedence over prompts: two calls may have the same prompt.
    """
    free = [
        (call, work.session.detail(call))
        for work in works
        for call in work.calls
        if call.name in STARTING and call.id not in crew.started
    ]
    call_by_agent = {
        name: call for text in _notifications(crew.session) for name, call in PAIRED.findall(text)
    }
    for call, detail in free:
        found = (name or task for name, task in NAMED.findall(detail.result or ""))
        call_by_agent |= dict.fromkeys(found, call.id)
    ids = {call.id for call, _ in free}
    asking: dict[str, list[str]] = {}
    remaining: list[Work] = []
    for work in unlinked:
        call = call_by_agent.get(work.agent.id) if work.agent else None
        if call in ids:
            crew.started.setdefault(call or "", []).append(work)
        else:
            remaining.append(work)
    for call, detail in free:
        prompt = detail.input.get("prompt") if is_object(detail.input) else None
        if isinstance(prompt, str) and call.id not in crew.started:
            asking.setdefault(prompt.strip(), []).append(call.id)
    for work in remaining:
        calls = asking.get(_prompt_of(work))
        if calls:
            # Several calls with the same prompt: the sub-agents are taken in the order of the
            # calls.
            crew.started.setdefault(calls.pop(0), []).append(work)
        else:
            crew.loose.append(work)


def _prompt_of(work: Work) -> str:
    entry = work.session.entry(work.prompt) if work.prompt else None
    return full_text(entry).strip() if isinstance(entry, User) else ""


def _notifications(session: Session) -> list[str]:
    nodes = [node for node in session.nodes if _is_notifying(node)]
    # `str` escapes the line breaks in a value; undo that, because the patterns match real ones.
    return [str(value).replace("\\n", "\n") for value in session.values(nodes)]


def first_positions(session: Session) -> dict[str | int, int]:
    """Return the first position of each uuid: a prompt that is written again keeps its number."""
    positions: dict[str | int, int] = {rank: n.index for rank, n in enumerate(session.tree.chain)}
    for node in session.nodes:
        if isinstance(node, ChainNode) and node.uuid:
            positions.setdefault(node.uuid, node.index)
    return positions


def _is_notifying(node: Node) -> bool:
    if isinstance(node, UserNode):
        return node.prompt is PromptKind.TASK_NOTIFICATION
    return node.kind.startswith(NOTIFYING)


def _owners(tree: Tree) -> list[int]:
    """Return for each node the rank of the prompt that it descends from; -1 if there is none."""
    asks = {
        rank
        for rank, node in enumerate(tree.chain)
        if isinstance(node, UserNode) and node.prompt in ASKING | LOCAL
    }
    nearest = _nearest(tree, asks)
    answered = {
        nearest[rank] for rank, node in enumerate(tree.chain) if isinstance(node, AssistantNode)
    }
    # A local command such as /usage starts a turn only if the model answered it.
    starts = {rank for rank in asks if _asks(tree.chain[rank]) or rank in answered}
    return _nearest(tree, starts)


def _asks(node: ChainNode) -> bool:
    return isinstance(node, UserNode) and node.prompt in ASKING


def _nearest(tree: Tree, targets: set[int]) -> list[int]:
    """Return for each node the nearest target among itself and its ancestors; -1 if none."""
    found: dict[int, int] = {-1: -1}
    for start in range(len(tree.chain)):
        passed: list[int] = []
        rank = start
        while rank not in found and rank not in targets:
            passed.append(rank)
            # Cuts cycles of parents in damaged files, such as A → B → A: the second visit of A
            # finds -1 and stops. Without a cycle, the value is overwritten below.
            found[rank] = -1
            rank = tree.step_back(rank)
        end = rank if rank in targets else found[rank]
        found.update(dict.fromkeys(passed, end))
        if rank in targets:
            found[rank] = rank
    return [found[rank] for rank in range(len(tree.chain))]


def _agent_work(
    session: Session, agent: SubAgent, known_uuids: set[str], known_messages: set[str]
) -> Work | None:
    """Return the work of a sub-agent, without lines copied from the context it was started with."""
    try:
        inner = session.open_subagent(agent)
    except OSError:  # deleted since it was listed
        return None
    nodes = [node for node in inner.tree.chain if not node.uuid or node.uuid not in known_uuids]
    prompts = (n for n in nodes if isinstance(n, UserNode) and n.prompt not in NOT_A_PROMPT)
    work = Work(inner, 0, next(prompts, None), nodes, agent=agent)
    _share_out([work], inner)
    work.messages[:] = [m for m in work.messages if not m.id or m.id not in known_messages]
    own = {node.index for message in work.messages for node in message.nodes}
    work.calls[:] = [call for call in work.calls if call.use.index in own]
    return work if work.is_answered else None


def _share_out(works: Sequence[Work], session: Session) -> None:
    """Assign each message and call to the work that contains its lines."""
    owners = {node.index: work for work in works for node in work.nodes}
    for message in session.messages:
        nodes = tuple(node for node in message.nodes if node.index in owners)
        if nodes:
            owners[nodes[0].index].messages.append(replace(message, nodes=nodes))
    for call in session.calls:
        if owner := owners.get(call.use.index):
            owner.calls.append(call)
