"""Values of DuckDB and Spark as SQLite returns them."""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any


def plain_rows(rows: Iterable[Iterable[Any]]) -> Iterator[tuple[Any, ...]]:
    """Yield rows without decimals: an exact sum becomes a number only at its end."""
    for row in rows:
        yield tuple(float(each) if isinstance(each, Decimal) else each for each in row)
