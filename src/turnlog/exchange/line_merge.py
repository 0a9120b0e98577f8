"""Merge two versions of a log into one that has all lines of both.

Each line of theirs is inserted after all lines that its writer had at the time; the order of our
lines never changes. Lines are compared byte for byte. Only unique lines serve as anchors, because
the order of repeated lines (`mode`, titles) means nothing.
"""

import hashlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

import msgspec

from turnlog.exchange.machine_manifest import Piece

Ranked = list[tuple[Piece, int]]
"""Pieces of a log with their ranks."""


class Segment(NamedTuple):
    """Consecutive lines of a log."""

    lines: list[bytes]
    piece: Piece | None
    """The piece that consists of exactly these lines, if there is one."""
    rank: int = 0
    """A count that grows with each addition to the log: lines of a higher rank came later."""


class Merged(NamedTuple):
    """The result of a merge."""

    segments: list[Segment]
    added: int
    """Number of lines inserted into ours."""
    contest: "Contest | None" = None
    """Set if the versions have different lines for one uuid; then `segments` is ours, unchanged."""


class Contest(NamedTuple):
    """Two different lines for the same entry, which cannot be in one edition."""

    uuid: str
    ours: bytes
    theirs: bytes

    @property
    def is_ours_first(self) -> bool:
        """True if ours keeps the label; decided by hash, so that both machines agree."""
        return hashlib.sha256(self.ours).digest() <= hashlib.sha256(self.theirs).digest()


class _Identified(msgspec.Struct):
    uuid: str | None = None


Position = tuple[int, int]
"""The index of a segment, and of a line in it."""
START: Position = (-1, 0)
DECODER = msgspec.json.Decoder(_Identified)


def merge(
    ours: list[Segment], theirs: Sequence[Segment], left_out: frozenset[bytes] = frozenset()
) -> Merged:
    """Return ours with the lines of theirs that it lacks, except those in `left_out`."""
    counts = Counter(line for segment in ours for line in segment.lines)
    their_counts = Counter(line for segment in theirs for line in segment.lines)
    if contest := find_contest(counts.keys(), their_counts.keys()):
        return Merged(ours, 0, contest)
    positions = _positions(ours, counts, their_counts)
    found = [
        (anchor, new)
        for anchor, segment in _anchored(theirs, positions)
        for new in _missing(segment, counts, left_out)
    ]
    added = sum(len(segment.lines) for _, segment in found)
    return Merged(_inserted(ours, _reranked(ours, found)) if added else ours, added)


def is_forward(ours: list[Piece], theirs: Ranked) -> bool:
    """Return whether theirs is ours followed by pieces that were added later (fast-forward)."""
    count = len(ours)
    if [piece for piece, _ in theirs[:count]] != ours:
        return False
    # A piece that follows ours but has a lower rank was there before one of ours was inserted. Its
    # lines may belong between ours, which takes a merge.
    had = max((rank for _, rank in theirs[:count]), default=0)
    return all(rank >= had for _, rank in theirs[count:])


def _positions(
    ours: Sequence[Segment], counts: Mapping[bytes, int], their_counts: Mapping[bytes, int]
) -> dict[bytes, Position]:
    """Return the position in ours of each line that occurs exactly once in both versions."""
    return {
        line: (number, index)
        for number, segment in enumerate(ours)
        for index, line in enumerate(segment.lines)
        if counts[line] == 1 == their_counts.get(line, 0)
    }


def _anchored(
    theirs: Iterable[Segment], positions: Mapping[bytes, Position]
) -> Iterator[tuple[Position, Segment]]:
    """Yield runs of their lines, each with its anchor: the position in ours to insert it after.

    Candidates are the common lines that precede the run in theirs and were there when the run was
    added. The furthest position in ours wins, because machines may order common lines differently.
    """
    reached = ReachedPositions()
    highest, furthest = -1, START
    for lines, piece, rank in theirs:
        # Most logs were only appended to, so ranks rise, and no search is needed.
        anchor = furthest
        if rank < highest:
            anchor = reached.by(rank)
        start = 0
        for end, line in enumerate(lines):
            if positions.get(line, START) > anchor:
                if start < end:
                    yield anchor, Segment(lines[start:end], None, rank)
                anchor, start = positions[line], end
        yield anchor, Segment(lines[start:], piece if start == 0 else None, rank)
        reached.note(rank, anchor)
        highest, furthest = max(highest, rank), max(furthest, anchor)


class ReachedPositions:
    """The furthest position reached up to each rank.

    Both lists are strictly increasing, so that they can be bisected: a manifest may name a million
    pieces with falling ranks.
    """

    def __init__(self) -> None:
        self._ranks: list[int] = []
        self._positions: list[Position] = []

    def by(self, rank: int) -> Position:
        """Return the furthest position among all ranks up to this one."""
        count = bisect_right(self._ranks, rank)
        return self._positions[count - 1] if count else START

    def note(self, rank: int, position: Position) -> None:
        if position <= self.by(rank):
            return
        start = bisect_left(self._ranks, rank)
        end = bisect_right(self._positions, position, start)
        self._ranks[start:end] = [rank]
        self._positions[start:end] = [position]


def _missing(segment: Segment, counts: Mapping[bytes, int], left_out: Set[bytes]) -> list[Segment]:
    lines = [line for line in segment.lines if line not in counts and line not in left_out]
    if len(lines) == len(segment.lines):
        return [segment] if lines else []
    return [Segment(lines, None, segment.rank)] if lines else []


def _reranked(
    ours: Sequence[Segment], found: list[tuple[Position, Segment]]
) -> dict[Position, list[Segment]]:
    """Return new segments by anchor, ranked above all of ours but in the same relative order."""
    highest = max((segment.rank for segment in ours), default=-1)
    order = sorted({segment.rank for _, segment in found})
    ranks = {rank: highest + 1 + at for at, rank in enumerate(order)}
    insertions: dict[Position, list[Segment]] = {}
    for anchor, segment in found:
        new = segment._replace(rank=ranks[segment.rank])
        insertions.setdefault(anchor, []).append(new)
    return insertions


def find_contest(ours: Iterable[bytes], theirs: Iterable[bytes]) -> Contest | None:
    """Return a conflict: an entry of which each version has a line that the other lacks.

    If one version has both lines, there is no conflict: the later line counts.
    """
    our_lines, their_lines = set(ours), set(theirs)
    our_own = _by_uuid(our_lines - their_lines)
    their_own = _by_uuid(their_lines - our_lines) if our_own else {}
    contested = our_own.keys() & their_own.keys()
    if not contested:
        return None
    # Any rule would do, as long as both machines find the same entry.
    uuid = min(contested)
    return Contest(uuid, our_own[uuid], their_own[uuid])


def _by_uuid(lines: Iterable[bytes]) -> dict[str, bytes]:
    """Return one line for each uuid: the smallest, so that all machines choose the same one."""
    found: dict[str, bytes] = {}
    for line in lines:
        if uuid := uuid_of(line):
            found[uuid] = min(line, found.get(uuid, line))
    return found


def uuid_of(line: bytes) -> str | None:
    """Return the uuid of an entry; None if the line has none or is not an entry."""
    # A cheap check that avoids decoding most lines without a uuid.
    if b'"uuid"' not in line:
        return None
    try:
        return DECODER.decode(line).uuid
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def split_lines(raw: bytes) -> list[bytes]:
    r"""Return the lines of a piece, each with its newline.

    >>> split_lines(b"a\r\nb\n")
    [b'a\r\n', b'b\n']
    """
    parts = raw.split(b"\n")
    last = parts.pop()
    return [part + b"\n" for part in parts] + ([last] if last else [])


def _inserted(ours: list[Segment], insertions: dict[Position, list[Segment]]) -> list[Segment]:
    result = [*_joined(insertions.get(START, []))]
    by_segment: dict[int, list[tuple[int, list[Segment]]]] = {}
    for (number, index), segments in sorted(insertions.items(), key=lambda item: item[0]):
        by_segment.setdefault(number, []).append((index, segments))
    for number, segment in enumerate(ours):
        start = 0
        for index, segments in by_segment.get(number, []):
            result += _part(segment, start, index + 1)
            result += _joined(segments)
            start = index + 1
        result += _part(segment, start, len(segment.lines))
    return result


def _part(segment: Segment, start: int, end: int) -> list[Segment]:
    """Return a slice of a segment; only the whole segment keeps its piece."""
    if start == 0 and end == len(segment.lines):
        return [segment]
    return [Segment(segment.lines[start:end], None, segment.rank)] if start < end else []


def _joined(segments: Iterable[Segment]) -> list[Segment]:
    """Join adjacent segments that have no piece yet."""
    result: list[Segment] = []
    for segment in segments:
        last = result[-1] if result else None
        if last and segment.piece is None is last.piece and segment.rank == last.rank:
            last.lines.extend(segment.lines)
        else:
            result.append(segment._replace(lines=list(segment.lines)))
    return result
