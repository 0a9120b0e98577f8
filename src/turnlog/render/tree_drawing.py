"""Draw a session's tree as text: prompts, branches, compactions and sub-agents."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from turnlog.conversation.nodes import BoundaryNode, ChainNode
from turnlog.conversation.prompts import prompt_label
from turnlog.conversation.session import Session
from turnlog.conversation.subagents import SubAgent
from turnlog.format.entries import User
from turnlog.secrets import mask


@dataclass(frozen=True)
class Milestone:
    """A prompt or a compaction, with the milestones that follow it."""

    node: ChainNode
    is_active: bool
    agents: list[SubAgent] = field(default_factory=list[SubAgent])
    next: list[int] = field(default_factory=list[int])
    """Numbers of the next milestones; several where the conversation branches."""


def draw_tree(session: Session, reveal: bool = False) -> Iterator[str]:
    """Yield the lines of the drawing; the branch that the client would resume is marked."""
    stones, agents = session.milestones, _agents_by_milestone(session)
    # A stack instead of recursion: a session may have thousands of prompts in a row.
    stack = [(number, "", "") for number in reversed(stones.firsts)]
    while stack:
        number, lead, indent = stack.pop()
        following = stones.following(number)
        mark = "●" if stones.is_active(number) else "○"
        yield f"{lead}{mark} {_label(session, stones.node(number), reveal)}"
        for agent in agents.get(number, []):
            label = f"{agent.description} (agent {agent.id})"
            yield f"{indent}{'│' if following else ' '}  ↳ {label if reveal else mask(label)}"
        stack += reversed(list(_following(following, indent)))


def milestones(session: Session) -> tuple[dict[int, Milestone], list[int]]:
    """Return the milestones of a session by number, and those without a predecessor."""
    stones, agents = session.milestones, _agents_by_milestone(session)
    found = {
        number: Milestone(
            stones.node(number),
            stones.is_active(number),
            agents.get(number, []),
            list(stones.following(number)),
        )
        for number in range(len(stones))
    }
    return found, list(stones.firsts)


def _agents_by_milestone(session: Session) -> dict[int, list[SubAgent]]:
    found: dict[int, list[SubAgent]] = {}
    for agent in session.subagents:
        call = session.find_call(agent.call_id or "")
        number = session.milestones.above(call.use) if call else None
        if number is not None:
            found.setdefault(number, []).append(agent)
    return found


def _following(ranks: Sequence[int], indent: str) -> Iterator[tuple[int, str, str]]:
    """Yield the next milestones: a single one continues the line, several become branches."""
    if len(ranks) == 1:
        yield ranks[0], indent, indent
        return
    for rank in ranks:
        is_last = rank == ranks[-1]
        yield rank, f"{indent}{'└─' if is_last else '├─'}", f"{indent}{'  ' if is_last else '│ '}"


def compaction_text(node: BoundaryNode) -> str:
    """Return the trigger of a compaction, and the tokens of the context before it."""
    tokens = f"{node.pre_tokens:,} tokens before" if node.pre_tokens is not None else ""
    return ", ".join(filter(None, (mask(node.trigger or ""), tokens)))


def _label(session: Session, node: ChainNode, reveal: bool) -> str:
    if isinstance(node, BoundaryNode):
        cause = compaction_text(node)
        return f"── compacted{f' ({cause})' if cause else ''} ──"
    entry = session.entry(node)
    text = prompt_label(entry) if isinstance(entry, User) else ""
    shown = " ".join((text if reveal else mask(text)).split())
    return f"{shown[:100]}{'…' if len(shown) > 100 else ''}  [{(node.uuid or '')[:8]}]"
