"""Merge the small parts of a lake, and delete parts that no reader needs any more.

Rows are copied under a new write_id and committed at the next level of the same version, so a push
that happens meanwhile wins, and two compactions at the same time only repeat each other's work.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from turnlog.errors import Damaged
from turnlog.lake.lake_parts import (
    ForeignFile,
    complete,
    decode_part,
    new_part,
    parse_place,
    require_version,
)
from turnlog.lake.lake_schema import ROOT, TABLE_OF_UNITS, arrow_schema, pyarrow
from turnlog.lake.lake_storage import (
    TEMPORARY,
    LakeStorage,
    PartGone,
    StoredFile,
    open_existing,
)
from turnlog.lake.lake_units import UnitKey
from turnlog.lake.live_units import UnitRow, live_parts, read_all_units, winners_of
from turnlog.lake.unit_writer import write_rows

LARGE = 64 << 20
"""Parts of at least this many bytes are not merged again."""
GRACE = 3600.0
"""Seconds that readers have to finish reading replaced parts."""
ORPHAN_GRACE = 86400.0
"""Seconds after which an uncommitted part cannot belong to a running push."""


@dataclass(frozen=True)
class CompactOptions:
    """Options of a compaction."""

    grace: float = GRACE
    is_dry_run: bool = False
    large: int = LARGE


@dataclass
class Compacted:
    """The result of a compaction."""

    dest: str
    merged: int = 0
    """Parts whose live rows were copied."""
    written: int = 0
    """Parts that these rows were copied to, not counting parts of `units`."""
    deleted: int = 0
    freed_bytes: int = 0
    waiting: int = 0
    """Parts that a later run will delete, because readers may still use them."""
    damaged: list[str] = field(default_factory=list[str])
    """Parts that cannot be read; their groups stay as they are."""


class _Group(NamedTuple):
    """Parts of one table, day and machine that are merged into one."""

    table: str
    day: str
    machine: str
    parts: dict[str, list[UnitRow]]


class _Mention(NamedTuple):
    """A row about a unit in a part of `units`."""

    at: float
    """The time at which the part was written."""
    rank: tuple[int, int, str]
    path: str


def compact(dest: str, options: CompactOptions | None = None) -> Compacted:
    """Merge small parts, drop dead rows, and delete replaced parts after a grace period."""
    options = options or CompactOptions()
    storage = open_existing(dest)
    require_version(storage)
    done = Compacted(dest)
    _merge(storage, options, done)
    _collect_garbage(storage, options, done)
    return done


def _merge(storage: LakeStorage, options: CompactOptions, done: Compacted) -> None:
    units = read_all_units(storage)
    sizes = {each.path: each.size for each in storage.walk(ROOT)}
    for machine, parts in _by_machine(units).items():
        rows = [row for some in parts.values() for row in some]
        winners = winners_of(rows)
        groups = list(_groups(rows, winners, sizes, options.large))
        done.merged += sum(len(group.parts) for group in groups)
        if options.is_dry_run:
            continue
        changed: list[UnitRow] = []
        for group in groups:
            changed += rewrite_group(storage, group.table, group.day, machine, group.parts, done)
        left = _without_needless(rows, winners | {row.key: row for row in changed})
        # A single part of units without superseded rows stays as it is.
        if changed or len(parts) > 1 or len(left) < len(rows):
            write_rows(storage, machine, left)


def _by_machine(units: Mapping[str, list[UnitRow]]) -> dict[str, dict[str, list[UnitRow]]]:
    found: dict[str, dict[str, list[UnitRow]]] = {}
    for path, rows in units.items():
        place = parse_place(path)
        assert place
        # A machine writes only its own units, so ignore rows that name another machine.
        own = [row for row in rows if row.machine == place.machine]
        found.setdefault(place.machine, {})[path] = own
    return found


def _groups(
    rows: Iterable[UnitRow],
    winners: Mapping[UnitKey, UnitRow],
    sizes: Mapping[str, int],
    large: int,
) -> Iterator[_Group]:
    """Yield groups of parts that are worth merging: several small ones, or one with dead rows."""
    committed: dict[str, int] = {}
    # Two parts of units may commit the same rows: after a merge, the old and the new part exist
    # side by side for a while.
    for row in {(row.key, row.path): row for row in rows}.values():
        if row.path:
            committed[row.path] = committed.get(row.path, 0) + row.rows
    found: dict[tuple[str, str, str], list[dict[str, list[UnitRow]]]] = {}
    for parts in live_parts(winners.values()).values():
        for path, live in sorted(parts.items()):
            size = sizes.get(path)
            is_whole = sum(row.rows for row in live) == committed[path]
            # Deleted by another compaction, or already full-sized.
            if size is None or (size >= large and is_whole):
                continue
            first = live[0]
            groups = found.setdefault((first.table, first.day, first.machine), [{}])
            if sum(sizes[each] for each in groups[-1]) + size > large and groups[-1]:
                groups.append({})
            groups[-1][path] = live
    for key, groups in found.items():
        for parts in groups:
            has_dead = any(
                sum(row.rows for row in live) < committed[path] for path, live in parts.items()
            )
            if len(parts) > 1 or has_dead:
                yield _Group(*key, parts)


def rewrite_group(
    storage: LakeStorage,
    table: str,
    day: str,
    machine: str,
    parts: Mapping[str, Sequence[UnitRow]],
    done: Compacted,
) -> list[UnitRow]:
    """Copy the live rows of some parts to a new part; return the rows of `units` that commit it."""
    write_id, now = os.urandom(8).hex(), time.time()
    tables: list[Any] = []
    moved: list[UnitRow] = []
    try:
        for path, content in storage.read_all(parts):
            found = decode_part(storage, path, content)
            tables.append(live_rows_of(table, found, parts[path]))
            moved += parts[path]
    except PartGone:
        return []  # another compaction was faster
    except (Damaged, ForeignFile) as error:
        done.damaged.append(error.message)
        return []
    pa = pyarrow()
    rows = pa.concat_tables(tables)
    # Committing fewer rows than the units have would make the loss permanent.
    if rows.num_rows != sum(row.rows for row in moved):
        done.damaged.append(f"{storage.dest}: {', '.join(parts)} lacks rows")
        return []
    place = rows.schema.get_field_index("write_id")
    ids = pa.repeat(pa.scalar(write_id, pa.string()), rows.num_rows)
    rows = rows.set_column(place, rows.schema.field(place), ids).combine_chunks()
    target, content = new_part(table, day, machine, rows.cast(arrow_schema(table)))
    storage.write(target.path, content)
    done.written += 1
    return [
        # The version stays: a push of the same file meanwhile has a higher one and wins.
        row._replace(level=row.level + 1, write_id=write_id, part=target.digest, written=now)
        for row in moved
    ]


def live_rows_of(table: str, found: Any, live: Sequence[UnitRow]) -> Any:
    """Return the rows of a part that belong to the given units, in the part's order."""
    writes = {(row.file, row.day): row.write_id for row in live}
    keys = zip(
        *(found.column(name).to_pylist() for name in ("file", "day", "write_id")), strict=True
    )
    mask = [writes.get((file, day)) == write_id for file, day, write_id in keys]
    return complete(table, found.filter(pyarrow().array(mask, pyarrow().bool_())))


def _without_needless(rows: Iterable[UnitRow], winners: Mapping[UnitKey, UnitRow]) -> list[UnitRow]:
    """Return the winners, except tombstones of units that no other row mentions."""
    # If an older part of units still has a row of the unit, that row would win without the
    # tombstone. A forgotten unit keeps its tombstone, which blocks the next push.
    mentioned = {row.key for row in rows if not row.is_retracted}
    return [
        row
        for row in winners.values()
        if not row.is_retracted or row.is_forgotten or row.key in mentioned
    ]


def _collect_garbage(storage: LakeStorage, options: CompactOptions, done: Compacted) -> None:
    """Delete parts that have no live rows and have had none for the grace period."""
    now = time.time()
    units = read_all_units(storage)
    files = {each.path: each for each in storage.walk(ROOT)}
    # Another compaction may have deleted some of them meanwhile.
    units = {path: some for path, some in units.items() if path in files}
    rows = [row for some in units.values() for row in some]
    winners = winners_of(rows)
    live = {path for parts in live_parts(winners.values()).values() for path in parts}
    died = {
        path: now - since
        for parts in _by_machine(units).values()
        for path, since in _superseded_units(parts, files).items()
    }
    for row in rows:
        if row.path and row.path not in live:
            dead_for = now - winners[row.key].written
            # A part dies with the last of its units.
            died[row.path] = min(died.get(row.path, dead_for), dead_for)
    for path, file in files.items():
        if path in live:
            continue
        if path in died:
            _delete(storage, file, died[path] >= options.grace, options, done)
        elif _is_leftover(storage, file, now):
            _delete(storage, file, is_due=True, options=options, done=done)


def _superseded_units(
    parts: Mapping[str, list[UnitRow]], files: Mapping[str, StoredFile]
) -> dict[str, float]:
    """Return a machine's superseded parts of `units`, each with the time it was superseded."""
    found: dict[str, float] = {}
    mentions: dict[UnitKey, list[_Mention]] = {}
    for path, rows in parts.items():
        for row in rows:
            mention = _Mention(files[path].mtime, row.rank, path)
            mentions.setdefault(row.key, []).append(mention)
    # Oldest first: of two parts with the same rows, the newer one stays.
    for path in sorted(parts, key=lambda each: (files[each].mtime, -len(parts[each]))):
        since = [_superseded_since(row, path, mentions[row.key]) for row in parts[path]]
        if None not in since:
            found[path] = max((moment for moment in since if moment is not None), default=0.0)
            for row in parts[path]:
                left = [each for each in mentions[row.key] if each.path != path]
                mentions[row.key] = left
    return found


def _superseded_since(row: UnitRow, path: str, mentions: Sequence[_Mention]) -> float | None:
    """Return when another part superseded a row; None if the row is still needed."""
    if row.is_retracted and not row.is_forgotten and len(mentions) == 1:
        return row.written
    others = (each for each in mentions if each.path != path and each.rank >= row.rank)
    return min((each.at for each in others), default=None)


def _is_leftover(storage: LakeStorage, file: StoredFile, now: float) -> bool:
    """Return whether a file was left behind by a push that was killed."""
    if now - file.mtime < ORPHAN_GRACE:
        return False  # it may belong to a push that has not committed yet
    if TEMPORARY.fullmatch(file.path.rpartition("/")[2]):
        return True
    place = parse_place(file.path)
    if place is None or place.table == TABLE_OF_UNITS:
        return False
    try:
        decode_part(storage, file.path, storage.read(file.path))
    except ForeignFile:
        return False  # never delete what turnlog did not write
    except (Damaged, PartGone):
        return True
    return True


def _delete(
    storage: LakeStorage, file: StoredFile, is_due: bool, options: CompactOptions, done: Compacted
) -> None:
    if not is_due:
        done.waiting += 1
        return
    done.deleted += 1
    done.freed_bytes += file.size
    if not options.is_dry_run:
        storage.delete(file.path)
