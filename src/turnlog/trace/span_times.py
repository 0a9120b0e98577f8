"""Compute the start and end of work from timestamps of lines; unknown times stay None."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from turnlog.conversation.nodes import AssistantNode, ChainNode, DurationNode, UserNode
from turnlog.conversation.turns import elapsed_ms, is_work, working_ms
from turnlog.format.timestamps import parse_timestamp
from turnlog.trace.work import Work

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LIMIT = 1 << 63
"""Backends store nanoseconds as signed 64-bit numbers."""


@lru_cache(4096)  # the time of a line is needed for its turn, its message and its span
def nanoseconds(timestamp: str | None) -> int | None:
    """Convert a timestamp to nanoseconds since 1970; return None if it is invalid.

    >>> nanoseconds("1970-01-01T00:00:01.500Z"), nanoseconds("soon")
    (1500000000, None)
    """
    moment = parse_timestamp(timestamp)
    if moment is None:
        return None
    found = (moment - EPOCH) // timedelta(microseconds=1) * 1000
    return found if 0 < found < LIMIT else None


def seconds(nanoseconds: int) -> float:
    """Convert nanoseconds since 1970 to seconds.

    >>> seconds(1_794_980_000_002_000_000)
    1794980000.002
    """
    # Dividing two integers rounds once. Dividing by 1e9 would round twice, and a line might then
    # seem to precede a switch of the same millisecond.
    return nanoseconds / 1_000_000_000


def latest(nodes: Iterable[ChainNode | None]) -> int | None:
    """Return the latest time of some lines, which need not be in chronological order."""
    return max(filter(None, (nanoseconds(node.time) for node in nodes if node)), default=None)


def earliest(nodes: Iterable[ChainNode]) -> int | None:
    """Return the earliest time of some lines."""
    return min(filter(None, (nanoseconds(node.time) for node in nodes)), default=None)


def nearest_time(work: Work) -> int | None:
    """Return the first known time of some work."""
    return next(filter(None, (nanoseconds(node.time) for node in work.nodes)), None)


def generation_starts(work: Work) -> dict[int, int | None]:
    """Return when the model started each message, by the index of the message's first line.

    The start is the time of the latest line before the message: the prompt, the end of the previous
    message, or the last of the results that it responds to.
    """
    firsts = {message.nodes[0].index for message in work.messages}
    starts: dict[int, int | None] = {}
    before: int | None = None
    for node in work.nodes:
        time = nanoseconds(node.time)
        if node.index in firsts:
            known = [moment for moment in (before, time) if moment is not None]
            starts[node.index] = min(known, default=None)
        # Other lines, such as notes of the client, may be written at any time and do not count.
        if time is not None and isinstance(node, AssistantNode | UserNode):
            before = max(before or 0, time)
    return starts


def end_of(work: Work) -> int | None:
    """Return when a turn ended: at its last answer or result, or as the client measured.

    The client's measurement (`turn_duration`) counts only if it is later: it excludes the time
    spent waiting for the user, for example at a permission prompt.
    """
    start = nanoseconds(work.first.time)
    lasted = measured_time(work)
    last = latest(filter(is_work, work.nodes))
    if start is None or lasted is None:
        return last
    return max(start + lasted, last or 0)


def measured_time(work: Work) -> int | None:
    """Return the working time that the client measured for a turn, in nanoseconds."""
    measures = [node.milliseconds for node in work.nodes if isinstance(node, DurationNode)]
    return int(sum(measures) * 1_000_000) if measures else None


def turn_times(work: Work) -> tuple[int | None, int | None]:
    """Return the working time and the elapsed time of a turn, in milliseconds."""
    started = work.first.time
    return working_ms(started, work.nodes), elapsed_ms(started, work.nodes)


def latest_child(work: Work, near: int) -> int | None:
    """Return the latest start or end of a generation or tool call of some work.

    A child without a start is sent with the nearest known time, which therefore counts as well.
    """
    starts = generation_starts(work)
    found: list[int | None] = [starts[message.nodes[0].index] for message in work.model_messages]
    found += [latest(message.nodes) for message in work.model_messages]
    found += [nanoseconds(call.use.time) for call in work.calls]
    found += [latest([call.result]) for call in work.calls]
    known = [time for time in found if time is not None]
    if known and len(known) < len(found):
        known.append(near)
    return max(known, default=None)
