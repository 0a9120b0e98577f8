"""Scales: axis ticks, labels that do not overlap, shades, and the largest series."""

from collections.abc import Iterable, Sequence
from math import ceil, floor, log10

from turnlog.render.charts.svg import SERIES, Value

OTHER = "other"
"""Name of the merged series, for all series beyond the available colours."""
SHADES = 4
LEAST = 1e-12
"""Smaller values are drawn as zero: powers of ten become imprecise there."""


def ticks(largest: float, count: int = 4) -> list[float]:
    """Return round numbers from 0 to at least the largest value.

    >>> ticks(7.3), ticks(0.9, 2)
    ([0.0, 2.0, 4.0, 6.0, 8.0], [0.0, 0.5, 1.0])
    """
    if largest < LEAST:
        return [0.0, 1.0]
    power = 10.0 ** floor(log10(largest / count))
    step = next(size * power for size in (1, 2, 5, 10) if size * power * count >= largest * 0.999)
    # Multiply instead of adding: 0.1 + 0.1 + 0.1 is not 0.3.
    return [float(f"{index * step:.12g}") for index in range(ceil(largest / step - 1e-9) + 1)]


def every_nth(count: int, most: int) -> range:
    """Return the positions of at most `most` labels among `count`, at equal distances.

    >>> list(every_nth(10, 4))
    [0, 3, 6, 9]
    """
    return range(0, count, max(1, ceil(count / most)))


def shade(value: float, largest: float) -> int:
    """Return the shade of a value: 0 for zero, up to 4 for the largest.

    >>> [shade(value, 100) for value in (0, 1, 26, 60, 100)]
    [0, 1, 2, 3, 4]
    """
    if value <= 0 or largest <= 0:
        return 0
    return min(SHADES, 1 + int(value / largest * SHADES - 1e-9))


def top_series(
    rows: Iterable[tuple[str, str, Value]], most: int = SERIES
) -> tuple[list[str], list[tuple[str, str, Value]]]:
    """Return the names of series, the largest first, and rows with the smallest series merged.

    >>> top_series([("Mon", "a", 1), ("Mon", "b", 5), ("Mon", "c", 2)], 2)
    (['b', 'other'], [('Mon', 'other', 3), ('Mon', 'b', 5)])
    """
    given = list(rows)
    sums: dict[str, float] = {}
    for _, name, value in given:
        sums[name] = sums.get(name, 0) + (value or 0)
    names = sorted(sums, key=lambda name: (-sums[name], name))
    if len(names) <= most:
        return names, given
    names = names[: most - 1]
    merged: dict[tuple[str, str], Value] = {}
    for key, name, value in given:
        place = (key, name if name in names else OTHER)
        before = merged.get(place)
        merged[place] = value if before is None else before + (value or 0)
    return [*names, OTHER], [(key, name, value) for (key, name), value in merged.items()]


def known(values: Iterable[Value]) -> list[float]:
    """Return all values except None."""
    return [value for value in values if value is not None]


def largest_of(values: Sequence[Value]) -> float:
    """Return the largest known value; 0 if there is none."""
    return max(known(values), default=0)
