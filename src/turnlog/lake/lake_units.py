"""Units: the rows of one table, file and day of a machine. A unit is always replaced as a whole.

A unit's digest is computed from its values, not from the bytes of a part: the same rows have the
same digest whatever version of pyarrow wrote them.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from turnlog.lake.lake_schema import KEYS, arrow_schema, columns_of, pyarrow

_encode = msgspec.msgpack.Encoder(decimal_format="string").encode
_KEY_NAMES = frozenset(column.name for column in KEYS)


class UnitKey(NamedTuple):
    """The primary key of a unit."""

    machine: str
    table: str
    file: str
    day: str


class Unit(NamedTuple):
    """A unit with its rows, column by column in the order of the table."""

    key: UnitKey
    columns: tuple[Sequence[Any], ...]

    @property
    def rows(self) -> int:
        return len(self.columns[0])

    def digest(self) -> str:
        """Return the SHA-256 of the rows."""
        names = [column.name for column in columns_of(self.key.table)[len(KEYS) :]]
        return digest_columns(zip(names, self.columns, strict=True))


def digest_columns(columns: Iterable[tuple[str, Sequence[Any]]]) -> str:
    """Return the SHA-256 of named columns.

    All-null columns are left out, so that adding a column does not change the digests of older
    rows.
    """
    digest = sha256()
    for name, values in sorted(columns, key=lambda each: each[0]):
        if any(value is not None for value in values):
            # Include the name: if two columns swap their values, the digest changes.
            digest.update(_encode((name, values)))
    return digest.hexdigest()


def units_of(
    machine: str, table: str, file: str, rows: Iterable[tuple[str, tuple[Any, ...]]]
) -> Iterator[Unit]:
    """Split the rows of a file into one unit per day."""
    by_day: dict[str, list[tuple[Any, ...]]] = {}
    for day, row in rows:
        by_day.setdefault(day, []).append(row)
    for day, found in by_day.items():
        yield Unit(UnitKey(machine, table, file, day), tuple(zip(*found, strict=True)))


def arrow_table(table: str, units: Sequence[Unit], write_id: str) -> Any:
    """Return the rows of some units of one table as a pyarrow table."""
    pa = pyarrow()
    schema = arrow_schema(table)
    keys = [*zip(*((*_row_key(unit), unit.rows) for unit in units), strict=True)]
    arrays = [_repeated(pa, values, keys[-1]) for values in keys[:-1]]
    arrays.append(pa.repeat(pa.scalar(write_id, pa.string()), sum(keys[-1])))
    for place, field in enumerate(list(schema)[len(KEYS) :]):
        values = [value for unit in units for value in unit.columns[place]]
        arrays.append(pa.array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _row_key(unit: Unit) -> tuple[str, str, str]:
    return unit.key.machine, unit.key.file, unit.key.day


def _repeated(pa: Any, values: Sequence[str], counts: Sequence[int]) -> Any:
    repeated = (value for value, count in zip(values, counts, strict=True) for _ in range(count))
    return pa.array(repeated, pa.string())


def read_units(table: str, found: Any) -> Iterator[tuple[UnitKey, str, int, str]]:
    """Yield key, write_id, number of rows and digest of each unit in a table read from a part."""
    names = [name for name in found.column_names if name not in _KEY_NAMES]
    keys = zip(
        *(found.column(name).to_pylist() for name in ("machine", "file", "day", "write_id")),
        strict=True,
    )
    places: dict[tuple[str, str, str, str], list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    columns = {name: found.column(name).to_pylist() for name in names}
    for (machine, file, day, write_id), rows in places.items():
        chosen = ((name, [columns[name][row] for row in rows]) for name in names)
        yield UnitKey(machine, table, file, day), write_id, len(rows), digest_columns(chosen)
