"""A session's tree as a picture in text: prompts, branches, compactions, sub-agents."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from turnlog.conversation.nodes import BoundaryNode, ChainNode, UserNode
from turnlog.conversation.prompts import ASKING, PromptKind, prompt_label
from turnlog.conversation.session import Session
from turnlog.conversation.subagents import SubAgent
from turnlog.format.entries import User
from turnlog.secrets import mask

MILESTONES = ASKING | {PromptKind.COMMAND}


@dataclass(frozen=True)
class Milestone:
    """A prompt or a compaction, with what follows on it."""

    node: ChainNode
    is_active: bool
    agents: list[SubAgent] = field(default_factory=list[SubAgent])
    next: list[int] = field(default_factory=list[int])
    """The ranks of the milestones that follow; several where the conversation branches."""


def draw_tree(session: Session, reveal: bool = False) -> Iterator[str]:
    """The lines of the picture; the branch that the client would go on with is marked."""
    stones, firsts = milestones(session)
    waiting = [(rank, "", "") for rank in reversed(firsts)]
    while waiting:
        rank, lead, indent = waiting.pop()
        stone = stones[rank]
        yield f"{lead}{'●' if stone.is_active else '○'} {_label(session, stone.node, reveal)}"
        last = not stone.next
        for agent in stone.agents:
            told = f"{agent.description} (agent {agent.id})"
            yield f"{indent}{' ' if last else '│'}  ↳ {told if reveal else mask(told)}"
        waiting += reversed(list(_following(stone.next, indent)))


def milestones(session: Session) -> tuple[dict[int, Milestone], list[int]]:
    """The milestones of a session by rank, and those that nothing comes before."""
    tree = session.tree
    active = set(tree.path_to(tree.active_leaf)) if tree.active_leaf is not None else set[int]()
    stones = {r: Milestone(n, r in active) for r, n in enumerate(tree.chain) if _is_milestone(n)}
    nearest = _Nearest(session, stones)
    firsts: list[int] = []
    for rank in stones:
        before = nearest.above(rank)
        (stones[before].next if before is not None else firsts).append(rank)
    _hang_agents(session, stones, nearest)
    return stones, firsts


class _Nearest:
    """Finds the milestone above a node, remembering what it has found."""

    def __init__(self, session: Session, stones: dict[int, Milestone]) -> None:
        self.tree = session.tree
        self.stones = stones
        self.known: dict[int, int | None] = {}

    def above(self, rank: int) -> int | None:
        """The nearest milestone before a node."""
        passed: list[int] = []
        at: int | None = self._before(rank)
        while at is not None and at not in self.stones and at not in self.known:
            passed.append(at)
            at = self._before(at)
        found = self.known.get(at, at) if at is not None else None
        self.known.update(dict.fromkeys(passed, found))
        return found

    def _before(self, rank: int) -> int | None:
        steps = self.tree.step_back(rank)
        return steps if steps >= 0 else None


def _following(ranks: list[int], indent: str) -> Iterator[tuple[int, str, str]]:
    """What follows goes straight on; branches are drawn beside each other, the last one last."""
    if len(ranks) == 1:
        yield ranks[0], indent, indent
        return
    for rank in ranks:
        is_last = rank == ranks[-1]
        yield rank, f"{indent}{'└─' if is_last else '├─'}", f"{indent}{'  ' if is_last else '│ '}"


def _hang_agents(session: Session, stones: dict[int, Milestone], nearest: _Nearest) -> None:
    places = {call.id: call.use.uuid for call in session.calls}
    for agent in session.subagents:
        rank = session.tree.rank_of(places.get(agent.call_id or ""))
        owner = nearest.above(rank) if rank is not None else None
        if owner is not None:
            stones[owner].agents.append(agent)


def _is_milestone(node: ChainNode) -> bool:
    is_prompt = isinstance(node, UserNode) and node.prompt in MILESTONES
    return is_prompt or isinstance(node, BoundaryNode)


def compaction_text(node: BoundaryNode) -> str:
    """Say what started a compaction, and how many tokens the context had before."""
    tokens = f"{node.pre_tokens:,} tokens before" if node.pre_tokens is not None else ""
    return ", ".join(filter(None, (mask(node.trigger or ""), tokens)))


def _label(session: Session, node: ChainNode, reveal: bool) -> str:
    if isinstance(node, BoundaryNode):
        told = compaction_text(node)
        return f"── compacted{f' ({told})' if told else ''} ──"
    entry = session.entry(node)
    text = " ".join(prompt_label(entry).split()) if isinstance(entry, User) else ""
    shown = text if reveal else mask(text)
    return f"{shown[:100]}{'…' if len(shown) > 100 else ''}  [{(node.uuid or '')[:8]}]"
