r"""Find wrapped base64 and hexadecimal behind any prefix: `k8s/tls.b64:QUtJ…`, `10:00:00Z QUtJ…`.

What is before the data differs from program to program, so no prefix is known here. Lines belong
together if they are consecutive, and what looks like base64 has the same length on each.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

RUN = re.compile(rb"[A-Za-z0-9+/_-]{16,}+={0,2}")
LINE_END = re.compile(rb'\n|"(?=\s{0,9}[,:}\]])')
"""The end of a line, or of a string in a list of lines."""
LAST_LINE = re.compile(
    rb'[^\n"]{0,9}\\{0,16}(?:\n|",)[^\n]{0,300}?([A-Za-z0-9+/_-]{2,15}={0,2})'
    rb'(?![\w+/=-])[^\w+/\n"-]{0,9}(?=\n|"|\Z)'
)
"""The rest of wrapped base64, which may be short."""
FARTHEST = 300
"""Maximum characters between what is encoded on one line and on the next."""
SHORTEST = 8
"""Minimum length of a piece that is replaced: a shorter one may be in any text."""
HEX = b"0123456789abcdef"
ENCODING = re.compile(rb"[A-Za-z0-9+/_-]")


class EncodedColumn(NamedTuple):
    """Pieces of encoded data on consecutive lines, which belong together."""

    pieces: tuple[bytes, ...]

    @property
    def joined(self) -> bytes:
        """The encoded data, as if it were on one line."""
        return b"".join(self.pieces)

    def replaced(self) -> Iterator[bytes]:
        """Yield the pieces that are long enough to be replaced wherever they occur."""
        return (piece for piece in self.pieces if len(piece) >= SHORTEST)


@lru_cache(1)  # a bundle looks for known values first, then for others
def columns(lines: bytes) -> tuple[EncodedColumn, ...]:
    """Return the possible columns of encoded data in a text with real line breaks.

    >>> lines = b"a.txt-" + b"QUtJ" * 6 + b"\\na.txt-" + b"RnVu" * 6 + b"\\na.txt-Zg=="
    >>> [len(column.joined) for column in columns(lines)]
    [64, 52]
    """
    return tuple(_columns(lines))


def _columns(lines: bytes) -> Iterator[EncodedColumn]:
    seen: set[tuple[bytes, ...]] = set()  # the client writes most tool output twice
    for chain in _chains(lines):
        # `-` and `_` are digits in URLs only; otherwise, they end a prefix: `a.txt-12-QUtJ…`.
        cut = [re.split(rb"[-_]", run)[-1] for run in chain]
        for runs in (chain, cut) if cut != chain else (chain,):
            for group in _groups(runs):
                bare = _without_common_start(group)
                for pieces in (group, bare):
                    if pieces not in seen and _may_encode(b"".join(pieces)):
                        seen.add(pieces)
                        yield EncodedColumn(pieces)


def _may_encode(joined: bytes) -> bool:
    """Return whether this is no list of paths or names: base64 has capital letters."""
    return not joined.islower() or not joined.strip(HEX)


def _chains(lines: bytes) -> Iterator[list[bytes]]:
    """Yield the last run of base64 on each of some consecutive lines, at least two."""
    chain: list[bytes] = []
    end = 0
    for found in RUN.finditer(lines):
        start = found.start()
        breaks = _breaks(lines, end, start) if chain else -1
        if breaks == 0:
            chain[-1] = found[0]
        elif breaks > 0:
            chain.append(found[0])
        else:
            yield from _complete(chain, lines, end)
            chain = [found[0]]
        end = found.end()
    yield from _complete(chain, lines, end)


def _complete(chain: list[bytes], lines: bytes, end: int) -> Iterator[list[bytes]]:
    last = LAST_LINE.match(lines, end) if chain else None
    if last:
        yield [*chain, last[1]]
    elif len(chain) > 1:
        yield chain


def _breaks(lines: bytes, end: int, start: int) -> int:
    """Return the number of line breaks between two runs; -1 if there is a line without a run."""
    if start - end > FARTHEST:
        return -1
    parts = LINE_END.split(lines[end:start])
    # The line between may be a quote: `"QUtJ…\n"` is a line with an escaped line break.
    return -1 if any(map(ENCODING.search, parts[1:-1])) else len(parts) - 1


def _groups(runs: list[bytes]) -> Iterator[tuple[bytes, ...]]:
    """Yield runs of the same length, with a shorter last one, and a first one of any length."""
    start = 0
    while start < len(runs):
        stop = start + 1
        while stop < len(runs) and len(runs[stop]) == len(runs[start]):
            stop += 1
        has_last = stop < len(runs) and len(runs[stop]) < len(runs[start])
        has_first = start > 0 and stop - start + has_last > 1
        if stop - start + has_last > 1:
            yield tuple(runs[start : stop + has_last])
            if has_first:
                yield tuple(runs[start - 1 : stop + has_last])
        start = stop


def _without_common_start(group: tuple[bytes, ...]) -> tuple[bytes, ...]:
    first, last = min(group), max(group)  # whatever these have in common, all have
    pairs = enumerate(zip(first, last, strict=False))
    common = next((at for at, (a, b) in pairs if a != b), len(first))
    return tuple(run[common:] for run in group)
