"""Find the live rows of a lake: those of the winning write of each unit.

Every reader follows this rule, so superseded rows, rows of a killed push, and rows that a
compaction has copied elsewhere are never counted.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from hashlib import sha256
from typing import Any, NamedTuple

from turnlog.errors import Damaged
from turnlog.lake.lake_parts import (
    ForeignFile,
    PartPlace,
    complete,
    decode_part,
    parse_place,
    units_folder,
)
from turnlog.lake.lake_schema import TABLE_OF_UNITS, UNITS, pyarrow
from turnlog.lake.lake_storage import LakeStorage, retried
from turnlog.lake.lake_units import UnitKey

FORGOTTEN = 1 << 62
"""The version of a forgotten unit's tombstone: no push can supersede it."""
NEEDED = ("file", "version", "level", "write_id", "rows", "is_retracted", "schema")
"""Columns of `units` that are never null."""
WORD, DIGEST = r"\A[\w-]+\z", r"\A[0-9a-f]{64}\z"
"""RE2 patterns of the names in a part's path."""
LATEST = 1e11
"""Limit of times in seconds since 1970, within the range of a date."""


class UnitRow(NamedTuple):
    """A row of the table `units`, in the order of its columns."""

    machine: str
    table: str
    file: str
    day: str
    version: int
    level: int
    write_id: str
    part: str | None
    rows: int
    sha256: str | None
    is_retracted: bool
    store: str | None
    written: float
    schema: str
    names_key: str | None
    user: str | None
    host: str | None

    @property
    def key(self) -> UnitKey:
        return UnitKey(self.machine, self.table, self.file, self.day)

    @property
    def rank(self) -> tuple[int, int, str]:
        """Of several rows of a unit, the one with the highest rank wins."""
        return self.version, self.level, self.write_id

    @property
    def is_forgotten(self) -> bool:
        return self.version >= FORGOTTEN

    @property
    def path(self) -> str | None:
        """The path of the part that has the unit's rows."""
        return self.part and PartPlace(self.table, self.day, self.machine, self.part).path


def list_unit_parts(storage: LakeStorage, machine: str | None = None) -> list[str]:
    """Return the parts of `units`, of one machine or of all."""
    found = (each.path for each in storage.walk(units_folder(machine)))
    return sorted(path for path in found if parse_place(path))


def read_unit_parts(
    storage: LakeStorage, paths: Sequence[str], damaged: dict[str, Damaged] | None = None
) -> Iterator[tuple[str, Any]]:
    """Yield the sound rows of parts of `units` as Arrow tables.

    Damaged parts are added to `damaged`; without it, the first one raises.
    """
    for path, content in storage.read_all(paths):
        try:
            table = own_part(storage, path, content)
        except Damaged as error:
            if damaged is None:
                raise
            damaged[path] = error
            continue
        if table is not None:
            yield path, sound_units(path, table)


def own_part(storage: LakeStorage, path: str, content: bytes) -> Any:
    """Return the rows of a part, or None for a file of another program; raise if it is damaged."""
    try:
        return decode_part(storage, path, content)
    except ForeignFile as error:
        # If it has replaced one of turnlog's parts, the rows committed there would silently be
        # missing.
        if not has_own_name(path, content):
            raise Damaged(error.message, error.hint) from error
    return None


def has_own_name(path: str, content: bytes) -> bool:
    """Return whether a file is named by its own digest, and so cannot have replaced a part."""
    place = parse_place(path)
    return place is not None and place.digest == sha256(content).hexdigest()


def sound_units(path: str, found: Any) -> Any:
    """Return the valid rows of a part of `units`: of its own machine, with safe path components.

    Whoever may write to a lake may write anything: the day `../../../home/ada` would let `pull`
    create files there, `forget` delete them and reports read them.
    """
    compute, place = pyarrow("compute"), parse_place(path)
    units = complete(TABLE_OF_UNITS, found)
    name = compute.equal(units["machine"], place.machine if place else "")
    part = compute.match_substring_regex(units["part"], DIGEST)
    written = compute.less(compute.abs(units["written"]), LATEST)
    tests = [name, compute.fill_null(part, fill_value=True), written]
    tests += [compute.match_substring_regex(units[each], WORD) for each in ("table_name", "day")]
    tests += [compute.is_valid(units[each]) for each in NEEDED]
    # Rows for which a test is null are left out as well.
    return units.filter(reduce(compute.and_, tests))


def unit_rows(table: Any) -> Iterator[UnitRow]:
    """Yield the rows of an Arrow table of units."""
    columns = (table.column(column.name).to_pylist() for column in UNITS)
    yield from map(UnitRow._make, zip(*columns, strict=True))


def read_all_units(
    storage: LakeStorage, machine: str | None = None, damaged: dict[str, Damaged] | None = None
) -> dict[str, list[UnitRow]]:
    """Return the rows of all parts of `units`, by part.

    Damaged parts are added to `damaged`; without it, the first one raises. If a compaction replaces
    parts meanwhile, list and read them again.
    """

    def read() -> dict[str, list[UnitRow]]:
        parts = read_unit_parts(storage, list_unit_parts(storage, machine), damaged)
        return {path: list(unit_rows(table)) for path, table in parts}

    return retried(read)


def winners_of(rows: Iterable[UnitRow]) -> dict[UnitKey, UnitRow]:
    """Return the winning row of each unit, retracted ones included."""
    found: dict[UnitKey, UnitRow] = {}
    for row in rows:
        known = found.get(row.key)
        if known is None or row.rank > known.rank:
            found[row.key] = row
    return found


def all_winners(storage: LakeStorage, machine: str | None = None) -> dict[UnitKey, UnitRow]:
    """Return the winning rows of a lake."""
    parts = read_all_units(storage, machine)
    return winners_of(row for rows in parts.values() for row in rows)


def live_parts(winners: Iterable[UnitRow]) -> dict[str, dict[str, list[UnitRow]]]:
    """Return the parts with live rows and their units, by table and path."""
    found: dict[str, dict[str, list[UnitRow]]] = {}
    for row in winners:
        if row.path and not row.is_retracted:
            found.setdefault(row.table, {}).setdefault(row.path, []).append(row)
    return found
