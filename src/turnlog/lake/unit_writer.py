"""Write units to a lake: data parts first, and the part of `units` last, which is the commit."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from turnlog.lake.lake_names import NameFilter
from turnlog.lake.lake_parts import PartPlace, new_part, table_of_rows
from turnlog.lake.lake_schema import MAJOR, MINOR, TABLE_OF_UNITS
from turnlog.lake.lake_storage import LakeStorage
from turnlog.lake.lake_units import Unit, UnitKey, arrow_table
from turnlog.lake.live_units import UnitRow

SCHEMA = f"{MAJOR}.{MINOR}"


class StagedWrite(NamedTuple):
    """Parts that are to be written, and the rows of `units` that commit them."""

    contents: dict[str, bytes]
    rows: list[UnitRow]


class UnitWriter:
    """Writes units of one machine under one version."""

    def __init__(
        self, storage: LakeStorage, machine: str, version: int, keep: NameFilter | None = None
    ) -> None:
        self.storage = storage
        self.machine = machine
        self.version = version
        self._names = (keep.fingerprint, keep.user, keep.host) if keep else (None, None, None)

    def stage(
        self,
        units: Sequence[Unit],
        retracted: Iterable[UnitKey] = (),
        stores: Mapping[str, str] | None = None,
    ) -> StagedWrite:
        """Encode units and retractions; `stores` has the store of each file."""
        # Random, because a push that is repeated after a crash must not reuse the id of rows that
        # the first attempt left behind, or both would count.
        write_id = os.urandom(8).hex()
        staged = StagedWrite({}, [])
        for (table, day), some in _by_part(units).items():
            rows = arrow_table(table, some, write_id)
            place, content = new_part(table, day, self.machine, rows)
            staged.contents[place.path] = content
            staged.rows.extend(self._row(each, place.digest, write_id, stores) for each in some)
        known = stores or {}
        staged.rows.extend(
            tombstone(key, self.version, write_id, known.get(key.file)) for key in retracted
        )
        return staged

    def commit(self, staged: StagedWrite) -> tuple[str, int]:
        """Write the staged parts; return the path of the part of `units` and the bytes written."""
        rows = table_of_rows(TABLE_OF_UNITS, staged.rows)
        place, content = new_part(TABLE_OF_UNITS, None, self.machine, rows)
        # In this order: an uncommitted part is garbage, but a commit without its part loses rows.
        self.storage.write_all(staged.contents)
        self.storage.write(place.path, content)
        return place.path, len(content) + sum(map(len, staged.contents.values()))

    def _row(
        self, unit: Unit, part: str, write_id: str, stores: Mapping[str, str] | None
    ) -> UnitRow:
        names_key, user, host = self._names
        return UnitRow(
            *unit.key,
            version=self.version,
            level=0,
            write_id=write_id,
            part=part,
            rows=unit.rows,
            sha256=unit.digest(),
            is_retracted=False,
            store=(stores or {}).get(unit.key.file),
            written=time.time(),
            schema=SCHEMA,
            names_key=names_key,
            user=user,
            host=host,
        )


def tombstone(key: UnitKey, version: int, write_id: str, store: str | None = None) -> UnitRow:
    """Return the row that retracts a unit."""
    # Names are left out: a tombstone may be all that is left of a forgotten user.
    return UnitRow(
        *key,
        version=version,
        level=0,
        write_id=write_id,
        part=None,
        rows=0,
        sha256=None,
        is_retracted=True,
        store=store,
        written=time.time(),
        schema=SCHEMA,
        names_key=None,
        user=None,
        host=None,
    )


def write_rows(storage: LakeStorage, machine: str, rows: Sequence[UnitRow]) -> PartPlace:
    """Write a part of `units` with the given rows."""
    table = table_of_rows(TABLE_OF_UNITS, rows)
    place, content = new_part(TABLE_OF_UNITS, None, machine, table)
    storage.write(place.path, content)
    return place


def _by_part(units: Iterable[Unit]) -> dict[tuple[str, str], list[Unit]]:
    """Group units by table and day: each group is a part."""
    found: dict[tuple[str, str], list[Unit]] = {}
    for unit in units:
        found.setdefault((unit.key.table, unit.key.day), []).append(unit)
    return found
