"""Draw a session's tree as text: prompts, branches, compactions and sub-agents."""

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
    """A prompt or a compaction, with the milestones that follow it."""

    node: ChainNode
    is_active: bool
    agents: list[SubAgent] = field(default_factory=list[SubAgent])
    next: list[int] = field(default_factory=list[int])
    """Ranks of the next milestones; several where the conversation branches."""


def draw_tree(session: Session, reveal: bool = False) -> Iterator[str]:
    """Yield the lines of the drawing; the branch that the client would resume is marked."""
    stones, firsts = milestones(session)
    # A stack instead of recursion: a session may have thousands of prompts in a row.
    stack = [(rank, "", "") for rank in reversed(firsts)]
    while stack:
        rank, lead, indent = stack.pop()
        stone = stones[rank]
        yield f"{lead}{'●' if stone.is_active else '○'} {_label(session, stone.node, reveal)}"
        last = not stone.next
        for agent in stone.agents:
            label = f"{agent.description} (agent {agent.id})"
            yield f"{indent}{' ' if last else '│'}  ↳ {label if reveal else mask(label)}"
        stack += reversed(list(_following(stone.next, indent)))


def milestones(session: Session) -> tuple[dict[int, Milestone], list[int]]:
    """Return the milestones of a session by rank, and the ranks of those without a predecessor."""
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
    """Finds the milestone above a node and caches it for all nodes on the way."""

    def __init__(self, session: Session, stones: dict[int, Milestone]) -> None:
        self.tree = session.tree
        self.stones = stones
        self.known: dict[int, int | None] = {}

    def above(self, rank: int) -> int | None:
        """Return the nearest milestone before a node."""
        # Remember the result for every node passed: a branch with thousands of entries between two
        # prompts is walked once, not once per sub-agent.
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
    """Yield the next milestones: a single one continues the line, several become branches."""
    if len(ranks) == 1:
        yield ranks[0], indent, indent
        return
    for rank in ranks:
        is_last = rank == ranks[-1]
        yield rank, f"{indent}{'└─' if is_last else '├─'}", f"{indent}{'  ' if is_last else '│ '}"


def _hang_agents(session: Session, stones: dict[int, Milestone], nearest: _Nearest) -> None:
    for agent in session.subagents:
        call = session.find_call(agent.call_id or "")
        rank = session.tree.rank_of(call.use.uuid if call else None)
        owner = nearest.above(rank) if rank is not None else None
        if owner is not None:
            stones[owner].agents.append(agent)


def _is_milestone(node: ChainNode) -> bool:
    is_prompt = isinstance(node, UserNode) and node.prompt in MILESTONES
    return is_prompt or isinstance(node, BoundaryNode)


def compaction_text(node: BoundaryNode) -> str:
    """Return the trigger of a compaction, and the tokens of the context before it."""
    tokens = f"{node.pre_tokens:,} tokens before" if node.pre_tokens is not None else ""
    return ", ".join(filter(None, (mask(node.trigger or ""), tokens)))


def _label(session: Session, node: ChainNode, reveal: bool) -> str:
    if isinstance(node, BoundaryNode):
        cause = compaction_text(node)
        return f"── compacted{f' ({cause})' if cause else ''} ──"
    entry = session.entry(node)
    text = " ".join(prompt_label(entry).split()) if isinstance(entry, User) else ""
    shown = text if reveal else mask(text)
    return f"{shown[:100]}{'…' if len(shown) > 100 else ''}  [{(node.uuid or '')[:8]}]"
