"""When work began and ended, by the lines alone: what no line tells is not made up."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from turnlog.conversation.nodes import AssistantNode, ChainNode, UserNode
from turnlog.conversation.prompts import PromptKind
from turnlog.format.fields import given
from turnlog.format.system import TurnDuration
from turnlog.format.timestamps import parse_timestamp
from turnlog.trace.work import Work

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LIMIT = 1 << 63
"""Backends keep nanoseconds in a signed number of 64 bits."""
DURATION = "system/turn_duration"


def nanoseconds(timestamp: str | None) -> int | None:
    """A timestamp as nanoseconds since 1970.

    >>> nanoseconds("1970-01-01T00:00:01.500Z"), nanoseconds("soon")
    (1500000000, None)
    """
    moment = parse_timestamp(timestamp)
    if moment is None:
        return None
    found = (moment - EPOCH) // timedelta(microseconds=1) * 1000
    return found if 0 < found < LIMIT else None


def latest(nodes: Iterable[ChainNode | None]) -> int | None:
    """The latest time of some lines: they need not be in the order of their times."""
    return max(filter(None, (nanoseconds(node.time) for node in nodes if node)), default=None)


def nearest_time(work: Work) -> int | None:
    """The first time that any line of some work tells."""
    return next(filter(None, (nanoseconds(node.time) for node in work.nodes)), None)


def generation_starts(work: Work) -> dict[int, int | None]:
    """When the model began each message, by the index of the message's first line.

    That is when the last thing before it happened: the prompt, the end of the message before it,
    the last of the results that it answers.
    """
    firsts = {message.nodes[0].index for message in work.messages}
    starts: dict[int, int | None] = {}
    before: int | None = None
    for node in work.nodes:
        time = nanoseconds(node.time)
        if node.index in firsts:
            known = [each for each in (before, time) if each is not None]
            starts[node.index] = min(known, default=None)
        if time is not None and isinstance(node, AssistantNode | UserNode):
            before = max(before or 0, time)
    return starts


def end_of(work: Work) -> int | None:
    """When a turn ended: as the client measured it, or at the last line of what was done.

    Where a turn went on after the client had measured it, the later lines count.
    """
    start = nanoseconds(work.first.time)
    measures = [node for node in work.nodes if node.kind == DURATION]
    measured = work.session.entry(measures[-1]) if measures else None
    lasted = given(measured.duration_ms) if isinstance(measured, TurnDuration) else None
    if start is None or lasted is None:
        return latest(filter(_is_work, work.nodes))
    after = latest(n for n in work.nodes if _is_work(n) and n.index > measures[-1].index)
    return max(start + int(lasted * 1_000_000), after or 0)


def _is_work(node: ChainNode) -> bool:
    if isinstance(node, UserNode):
        return bool(node.results) or node.prompt is PromptKind.INTERRUPTION
    return isinstance(node, AssistantNode)
