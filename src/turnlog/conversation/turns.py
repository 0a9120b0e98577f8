"""Turns: a prompt and everything up to the next one.

The turns of a branch contain each of its nodes exactly once.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from turnlog.conversation.calls import Call
from turnlog.conversation.messages import Message
from turnlog.conversation.nodes import (
    SYNTHETIC,
    AssistantNode,
    ChainNode,
    DurationNode,
    UserNode,
)
from turnlog.conversation.prompts import ASKING, LOCAL, WORK, PromptKind, Round, round_of
from turnlog.format.timestamps import parse_timestamp

MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Turn:
    """A prompt and everything that followed it."""

    n: int
    prompt: UserNode | None
    """None for a branch that begins without one: a sub-agent's, or after a missing parent."""
    nodes: list[ChainNode]
    messages: list[Message] = field(default_factory=list[Message])
    calls: list[Call] = field(default_factory=list[Call])
    idle_ms: int | None = None
    """Silence before the turn; None for the first turn, and if times are unknown."""

    @property
    def round(self) -> Round:
        """How it follows the turn before, by the default threshold."""
        return round_of(self.kind, self.n, self.idle_ms)

    @property
    def kind(self) -> PromptKind | None:
        return self.prompt.prompt if self.prompt else None

    @property
    def is_complete(self) -> bool:
        """True if the model has answered."""
        return any(not message.is_synthetic for message in self.messages)

    @property
    def started(self) -> str | None:
        return self.prompt.time if self.prompt else self.nodes[0].time

    @property
    def ended(self) -> str | None:
        """The time of its last answer, result or interruption.

        Entries need not be ordered by time, and notes such as `/usage` may follow hours later.
        """
        return _ended(self.started, self.nodes)

    @property
    def last_time(self) -> str | None:
        """The latest time of any of its entries."""
        return max([node.time for node in self.nodes if node.time], default=None)

    @property
    def elapsed_ms(self) -> int | None:
        """Time from the prompt to the last answer, result or interruption."""
        return elapsed_ms(self.started, self.nodes)

    @property
    def working_ms(self) -> int | None:
        """Time the client measured, excluding waits for the user; otherwise the elapsed time."""
        return working_ms(self.started, self.nodes)


class EarlierTurns(NamedTuple):
    """The turns before the first one of a partial branch."""

    number: int = 0
    last_time: str | None = None
    """The latest time of any entry in the last of these turns."""


NO_TURNS = EarlierTurns()


def elapsed_ms(started: str | None, nodes: Iterable[ChainNode]) -> int | None:
    """Return the time from a start to the last answer, result or interruption of some nodes."""
    return _milliseconds_between(started, _ended(started, nodes))


def working_ms(started: str | None, nodes: Sequence[ChainNode]) -> int | None:
    """Return the working time that the client measured; otherwise the elapsed time."""
    measured = measured_ms(nodes)
    return elapsed_ms(started, nodes) if measured is None else measured


def measured_ms(nodes: Iterable[ChainNode]) -> int | None:
    """Return the working time that the client measured; None if it did not."""
    measured = [node.milliseconds for node in nodes if isinstance(node, DurationNode)]
    return round(sum(measured)) if measured else None


def _milliseconds_between(started: str | None, ended: str | None) -> int | None:
    start, end = parse_timestamp(started), parse_timestamp(ended)
    return max(0, round((end - start) / MILLISECOND)) if start and end else None


def _ended(started: str | None, nodes: Iterable[ChainNode]) -> str | None:
    times = [node.time for node in nodes if node.time and is_work(node)]
    return max(times) if times else started


def is_work(node: ChainNode) -> bool:
    """Return whether a turn was running at an entry: an answer, a result or an interruption.

    The synthetic answer that a client writes when it resumes does not count; an API error does.
    """
    if isinstance(node, AssistantNode):
        return node.is_error or node.model != SYNTHETIC
    return isinstance(node, UserNode) and node.prompt in WORK


def split_turns(
    branch: Sequence[ChainNode],
    messages: Sequence[Message],
    calls: Sequence[Call],
    cuts: Container[int] = frozenset[int](),
    earlier: EarlierTurns = NO_TURNS,
) -> list[Turn]:
    """Return the turns of a branch; entries before the first prompt belong to the first turn.

    An answer after a cut, where the client starts reading because a parent is missing, does not
    complete the prompt before it: it gets a turn of its own.
    """
    starts = _with_cuts(branch, _starts(branch), cuts)
    if branch and not starts:
        starts = [0]
    ends = [*starts[1:], len(branch)][: len(starts)]
    turns: list[Turn] = []
    last = earlier.last_time
    for n, (start, end) in enumerate(zip(starts, ends, strict=True), earlier.number + 1):
        nodes = list(branch[start if n > 1 else 0 : end])
        turns.append(_turn(n, branch[start], nodes, last))
        last = turns[-1].last_time
    _assign_to_turns(turns, messages, calls)
    return turns


def _starts(branch: Sequence[ChainNode]) -> list[int]:
    """Return the ranks at which turns start: prompts, and commands that the model answered."""
    # Whether a command such as `/init` starts a turn depends on what follows: `/clear` never gets
    # an answer. Going backwards, `answered` is known by the time the command is reached.
    asks: list[int] = []
    answered = False
    for rank in reversed(range(len(branch))):
        node = branch[rank]
        if isinstance(node, AssistantNode):
            answered = True
        elif isinstance(node, UserNode):
            if node.prompt in ASKING or (node.prompt in LOCAL and answered):
                asks.append(rank)
            if node.prompt in ASKING | LOCAL:
                answered = False
    return asks[::-1]


def _with_cuts(branch: Sequence[ChainNode], starts: list[int], cuts: Container[int]) -> list[int]:
    """Add cuts as starts of turns if an answer follows them without a prompt in between."""
    added: list[int] = []
    cut = None
    prompts = set(starts)
    for rank, node in enumerate(branch):
        cut = None if rank in prompts else rank if node.index in cuts and rank else cut
        if cut is not None and isinstance(node, AssistantNode):
            added.append(cut)
            cut = None
    return sorted([*starts, *added])


def _turn(n: int, first: ChainNode, nodes: list[ChainNode], last: str | None) -> Turn:
    prompt = first if isinstance(first, UserNode) else None
    return Turn(n, prompt, nodes, idle_ms=_milliseconds_between(last, first.time))


def _assign_to_turns(turns: list[Turn], messages: Sequence[Message], calls: Sequence[Call]) -> None:
    """Assign each message and call to the turn that contains its first line on the branch."""
    # A message spans two turns if a prompt is recorded between its lines. It belongs to the turn
    # where it started, or its usage would count twice.
    owners = {node.index: turn for turn in turns for node in turn.nodes}
    for message in messages:
        candidates = (owners[node.index] for node in message.nodes if node.index in owners)
        if owner := next(candidates, None):
            owner.messages.append(message)
    for call in calls:
        if owner := owners.get(call.use.index):
            owner.calls.append(call)
