"""When work began and ended, by the lines alone: what no line tells is not made up."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from turnlog.conversation.nodes import AssistantNode, ChainNode, DurationNode, UserNode
from turnlog.conversation.turns import elapsed_ms, is_work, working_ms
from turnlog.format.timestamps import parse_timestamp
from turnlog.trace.work import Work

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LIMIT = 1 << 63
"""Backends keep nanoseconds in a signed number of 64 bits."""


@lru_cache(4096)  # each line is asked for its time by its turn, its message and its span
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


def earliest(nodes: Iterable[ChainNode]) -> int | None:
    """Return the earliest time of some lines."""
    return min(filter(None, (nanoseconds(node.time) for node in nodes)), default=None)


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
    """Return when a turn ended by its own lines: at the last answer or result, or as measured.

    The client's measure (`turn_duration`) counts only where it is later: it leaves out the time
    spent waiting for the user, so a turn with a permission prompt outlasts it.
    """
    start = nanoseconds(work.first.time)
    lasted = measured_time(work)
    last = latest(filter(is_work, work.nodes))
    if start is None or lasted is None:
        return last
    return max(start + lasted, last or 0)


def measured_time(work: Work) -> int | None:
    """Return how long the client says that a turn took, without waiting for the user."""
    measures = [node.milliseconds for node in work.nodes if isinstance(node, DurationNode)]
    return int(sum(measures) * 1_000_000) if measures else None


def turn_times(work: Work) -> tuple[int | None, int | None]:
    """Return the working time and the elapsed time of a turn, in milliseconds."""
    started = work.first.time
    return working_ms(started, work.nodes), elapsed_ms(started, work.nodes)


def latest_child(work: Work, near: int) -> int | None:
    """Return the latest time at which a generation or a tool of some work begins or ends.

    A child without a start is sent with the nearest time known, which counts as well.
    """
    starts = generation_starts(work)
    found: list[int | None] = [starts[message.nodes[0].index] for message in work.said]
    found += [latest(message.nodes) for message in work.said]
    found += [nanoseconds(call.use.time) for call in work.calls]
    found += [latest([call.result]) for call in work.calls]
    known = [time for time in found if time is not None]
    if known and len(known) < len(found):
        known.append(near)
    return max(known, default=None)
