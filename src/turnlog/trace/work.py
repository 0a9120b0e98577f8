"""Who did what: each prompt of a session with all that it led to, and each sub-agent.

Turns are those of all branches, as what was rewound was done and paid for all the same. They are
numbered in the order of their prompts in the file, which no later line changes.
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
"""How the text of a result names the sub-agent (observed: 2.0.x; in the background 2.1.x)."""
PAIRED = re.compile(r"<task-id>([^<]+)</task-id>\s*<tool-use-id>([^<]+)</tool-use-id>")
STARTING = ("Task", "Agent")
NOTIFYING = ("queue-operation", "attachment/queued_command")
NOT_A_PROMPT = frozenset({PromptKind.TOOL_RESULT, PromptKind.META, PromptKind.INTERRUPTION})


@dataclass(frozen=True)
class Past:
    """What stands before the part of a file that was read."""

    turns: int = 0
    agents: frozenset[Path] = frozenset()
    """The files of the sub-agents that belong to those turns."""


NOTHING = Past()


@dataclass(frozen=True, slots=True)
class Work:
    """What a prompt led to, on whichever branches; or all that a sub-agent did."""

    session: Session
    n: int
    """The number of the turn; 0 for what stands before the first prompt."""
    prompt: UserNode | None
    nodes: list[ChainNode]
    """In the order of the file."""
    messages: list[Message] = field(default_factory=list[Message])
    calls: list[Call] = field(default_factory=list[Call])
    agent: SubAgent | None = None
    is_continued: bool = False
    """Whether it is what a fork added to a turn of another session."""

    @property
    def said(self) -> list[Message]:
        """What the model said: not what the client put in its place."""
        return [message for message in self.messages if not message.is_synthetic]

    @property
    def is_answered(self) -> bool:
        """Whether the model answered, or the client put an error in the answer's place."""
        return any(not m.is_synthetic or m.nodes[-1].is_error for m in self.messages)

    @property
    def first(self) -> ChainNode:
        return self.prompt if self.prompt and not self.is_continued else self.nodes[0]


@dataclass
class Crew:
    """The sub-agents of a session."""

    session: Session
    started: dict[str, list[Work]] = field(default_factory=dict[str, list[Work]])
    """By the call that started them, wherever that call is."""
    loose: list[Work] = field(default_factory=list[Work])
    """Those that no call started: the client's own helpers."""

    @cached_property
    def notified(self) -> set[str]:
        """The ids of sub-agents, and of their calls, that the client told were done."""
        texts = _notifications(self.session)
        return {name for text in texts for name in NOTIFIED.findall(text)}


def turns_of(session: Session, past: Past = NOTHING) -> list[Work]:
    """Every turn of a session, of all branches, in the order of their prompts."""
    tree = session.tree
    groups: dict[int, list[ChainNode]] = {}
    current = -1
    for node, owner in zip(tree.chain, _owners(tree), strict=True):
        # Some exporters write no parents: a line that hangs on nothing goes with those before it.
        current = current if owner == -1 else owner
        groups.setdefault(current, []).append(node)
    before = groups.pop(-1, [])
    places = first_places(session)
    ranks = sorted(groups, key=lambda rank: places[tree.chain[rank].uuid or rank])
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


def crew_of(session: Session, turns: Iterable[Work], past: Past = NOTHING) -> Crew:
    """The sub-agents of a session, those that sub-agents started included."""
    works: list[Work] = []
    seen = {node.uuid for node in session.tree.chain if node.uuid}
    said = {message.id for turn in turns for message in turn.messages if message.id}
    for agent in session.subagents:
        if agent.path in past.agents:
            continue
        if work := _agent_work(session, agent, seen, said):
            works.append(work)
            seen |= {node.uuid for node in work.nodes if node.uuid}
            said |= {message.id for message in work.messages if message.id}
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
    """Link sub-agents by what texts tell: their id in a result or a notification, their prompt.

    An id counts before a prompt: two calls may have asked for the same.
    """
    free = [
        (call, work.session.detail(call))
        for work in works
        for call in work.calls
        if call.name in STARTING and call.id not in crew.started
    ]
    told = {
        name: call for text in _notifications(crew.session) for name, call in PAIRED.findall(text)
    }
    for call, detail in free:
        found = (name or task for name, task in NAMED.findall(detail.result or ""))
        told |= dict.fromkeys(found, call.id)
    ids = {call.id for call, _ in free}
    asking: dict[str, list[str]] = {}
    left: list[Work] = []
    for work in unlinked:
        call = told.get(work.agent.id) if work.agent else None
        if call in ids:
            crew.started.setdefault(call or "", []).append(work)
        else:
            left.append(work)
    for call, detail in free:
        prompt = detail.input.get("prompt") if is_object(detail.input) else None
        if isinstance(prompt, str) and call.id not in crew.started:
            asking.setdefault(prompt.strip(), []).append(call.id)
    for work in left:
        calls = asking.get(_prompt_of(work))
        if calls:
            crew.started.setdefault(calls.pop(0), []).append(work)
        else:
            crew.loose.append(work)


def _prompt_of(work: Work) -> str:
    entry = work.session.entry(work.prompt) if work.prompt else None
    return full_text(entry).strip() if isinstance(entry, User) else ""


def _notifications(session: Session) -> list[str]:
    nodes = [node for node in session.nodes if _is_notifying(node)]
    # As text, so that line breaks in it are those of the notification.
    return [str(value).replace("\\n", "\n") for value in session.values(nodes)]


def first_places(session: Session) -> dict[str | int, int]:
    """Where each uuid stands first: a prompt that is written again later keeps its number."""
    places: dict[str | int, int] = {rank: n.index for rank, n in enumerate(session.tree.chain)}
    for node in session.nodes:
        if isinstance(node, ChainNode) and node.uuid:
            places.setdefault(node.uuid, node.index)
    return places


def _is_notifying(node: Node) -> bool:
    if isinstance(node, UserNode):
        return node.prompt is PromptKind.TASK_NOTIFICATION
    return node.kind.startswith(NOTIFYING)


def _owners(tree: Tree) -> list[int]:
    """For each node the rank of the prompt that it follows on; -1 where there is none."""
    asks = {
        rank
        for rank, node in enumerate(tree.chain)
        if isinstance(node, UserNode) and node.prompt in ASKING | LOCAL
    }
    nearest = _nearest(tree, asks)
    answered = {
        nearest[rank] for rank, node in enumerate(tree.chain) if isinstance(node, AssistantNode)
    }
    starts = {rank for rank in asks if _asks(tree.chain[rank]) or rank in answered}
    return _nearest(tree, starts)


def _asks(node: ChainNode) -> bool:
    return isinstance(node, UserNode) and node.prompt in ASKING


def _nearest(tree: Tree, wanted: set[int]) -> list[int]:
    """For each node the nearest wanted one on the way back, itself included; -1 if none."""
    found: dict[int, int] = {-1: -1}
    for start in range(len(tree.chain)):
        passed: list[int] = []
        rank = start
        while rank not in found and rank not in wanted:
            passed.append(rank)
            found[rank] = -1  # should the way back run in a circle
            rank = tree.step_back(rank)
        end = rank if rank in wanted else found[rank]
        found.update(dict.fromkeys(passed, end))
        if rank in wanted:
            found[rank] = rank
    return [found[rank] for rank in range(len(tree.chain))]


def _agent_work(session: Session, agent: SubAgent, seen: set[str], said: set[str]) -> Work | None:
    """What a sub-agent did; what it began with as a copy of another's context is not its own."""
    try:
        inner = session.open_subagent(agent)
    except OSError:  # gone since it was listed
        return None
    nodes = [node for node in inner.tree.chain if not node.uuid or node.uuid not in seen]
    asked = (n for n in nodes if isinstance(n, UserNode) and n.prompt not in NOT_A_PROMPT)
    work = Work(inner, 0, next(asked, None), nodes, agent=agent)
    _share_out([work], inner)
    work.messages[:] = [m for m in work.messages if not m.id or m.id not in said]
    own = {node.index for message in work.messages for node in message.nodes}
    work.calls[:] = [call for call in work.calls if call.use.index in own]
    return work if work.is_answered else None


def _share_out(works: Sequence[Work], session: Session) -> None:
    """Give each message and call to the work that holds its lines; of a line written twice, one."""
    owners = {node.index: work for work in works for node in work.nodes}
    for message in session.messages:
        held = tuple(node for node in message.nodes if node.index in owners)
        if held:
            owners[held[0].index].messages.append(replace(message, nodes=held))
    for call in session.calls:
        if owner := owners.get(call.use.index):
            owner.calls.append(call)
