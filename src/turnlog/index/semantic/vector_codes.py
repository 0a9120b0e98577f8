"""Compact vectors, compared without numpy: importing it takes longer than a whole query.

A vector is a row of int8 and a code with one bit per dimension, its sign. Vectors that point in
about the same direction have codes that differ in few bits, so codes select the candidates, and
rows decide among them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import sqrt
from operator import mul
from typing import NamedTuple

LARGEST = 127
WIDEST = 31
"""Maximum bytes of a code whose differing bits can be counted in a byte: 31 x 8 < 256."""
_SIGNS = b"1" * 128 + b"0" * 128
"""Translates the bytes of a row to the digits of its code: 128 and up are negative numbers."""


class StoredVector(NamedTuple):
    """A vector as it is stored."""

    row: bytes
    """A signed byte per dimension."""
    code: bytes


def quantize(values: Sequence[float]) -> StoredVector | None:
    """Quantize a vector to bytes; return None if all its values are 0.

    >>> quantize([2.0, -1.0, 0.0, 1.0])
    StoredVector(row=b'\\x7f\\xc1\\x00?', code=b'\\x0b')
    """
    most = max(map(abs, values), default=0)
    if not most:
        return None
    scale = LARGEST / most
    row = bytes([int(value * scale) & 255 for value in values])
    return StoredVector(row, int(row.translate(_SIGNS), 2).to_bytes((len(row) + 7) // 8, "little"))


def values_of(row: bytes) -> list[int]:
    """Return the numbers of a row."""
    return memoryview(row).cast("b").tolist()


def cosines(wanted: Sequence[int], rows: Iterable[bytes]) -> list[float]:
    """Return the cosine of the angle between a vector and each row; 0 if one has no direction.

    >>> cosines([3, 4], [b"\\x03\\x04", b"\\xfd\\xfc", b"\\x04\\xfd", b""])
    [1.0, -1.0, 0.0, 0.0]
    """
    length, found = sum(map(mul, wanted, wanted)), list[float]()
    for row in rows:
        values = values_of(row)
        lengths = sqrt(length * sum(map(mul, values, values)))
        found.append(sum(map(mul, wanted, values)) / lengths if lengths else 0.0)
    return found


def mean_of(rows: Iterable[bytes]) -> list[float]:
    """Return the mean direction of vectors, all with the same weight."""
    total: list[float] = []
    for row in rows:
        values = values_of(row)
        length = sqrt(sum(map(mul, values, values))) or 1.0
        total = [a + b / length for a, b in zip(total or [0.0] * len(values), values, strict=True)]
    return total


def distances(code: bytes, codes: bytes) -> list[int]:
    """Return the number of bits in which each of `codes` differs from `code`.

    >>> distances(b"\\x0f", b"\\x0f\\x0e\\xf0")
    [0, 1, 8]
    """
    size = len(code)
    parts = [
        _differing_bits(code[start : start + WIDEST], [codes[n::size] for n in columns])
        for start in range(0, size, WIDEST)
        if (columns := range(start, min(start + WIDEST, size)))
    ]
    return [*map(sum, zip(*parts, strict=True))] if len(parts) > 1 else [*parts[0]]


def _differing_bits(code: bytes, columns: list[bytes]) -> bytes:
    """Return the sums of differing bits, a byte per code; a column has one byte of each code.

    Translating a column counts its bits, and columns are added as large integers: 43,000 codes take
    3 ms, where comparing code by code takes 7.
    """
    total = 0
    for wanted, column in zip(code, columns, strict=True):
        counts = bytes((value ^ wanted).bit_count() for value in range(256))
        total += int.from_bytes(column.translate(counts), "little")
    return total.to_bytes(len(columns[0]), "little")


def nearest_places(found: Sequence[int], start: int, end: int) -> list[int]:
    """Return the positions of the numbers ranked `start` to `end`, smallest first; ties in order.

    >>> nearest_places([5, 2, 9, 2, 5], 1, 4)
    [3, 0, 4]
    """
    counted = Counter(found)
    reached = accumulate(counted[number] for number in sorted(counted))
    enough = (
        number for number, count in zip(sorted(counted), reached, strict=True) if count >= end
    )
    most = next(enough, max(counted, default=0))
    # Only these are sorted: an index may have a million texts, of which a few hundred are wanted.
    near = [place for place, number in enumerate(found) if number <= most]
    return sorted(near, key=found.__getitem__)[start:end]
