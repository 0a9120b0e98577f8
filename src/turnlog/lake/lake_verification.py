"""Verify that a lake is complete, and that it matches the sessions of this machine."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnlog.errors import Damaged
from turnlog.format.regular_files import watch_skipped
from turnlog.index.sync_policy import SILENT, Feedback, synced_index
from turnlog.lake.lake_names import NameFilter
from turnlog.lake.lake_parts import ForeignFile, decode_part, parse_place, require_version
from turnlog.lake.lake_push import SourceRow, batches_of, file_id, listed_stores, source_rows
from turnlog.lake.lake_schema import ROOT
from turnlog.lake.lake_settings import LakeMachine, LakeSettings, names_for, this_machine
from turnlog.lake.lake_storage import LakeStorage, PartGone, open_existing, require_dest
from turnlog.lake.lake_texts import all_rows
from turnlog.lake.lake_units import UnitKey, read_units, units_of
from turnlog.lake.live_units import (
    UnitRow,
    has_own_name,
    list_unit_parts,
    live_parts,
    sound_units,
    unit_rows,
    winners_of,
)
from turnlog.store.stores import AnyStores


@dataclass(frozen=True)
class LakeFinding:
    """Something that is wrong with a lake."""

    kind: str
    """damaged, missing, differs, unpushed, extra or foreign."""
    path: str
    """A part, or a session file of this machine."""
    message: str

    @property
    def is_serious(self) -> bool:
        """False for findings that do not affect reports."""
        return self.kind not in ("foreign", "unpushed")


@dataclass
class VerifiedLake:
    """The result of a verification."""

    dest: str
    parts: int = 0
    rows: int = 0
    machines: int = 0
    sessions: int = 0
    """Session files of this machine that were compared with their rows."""
    findings: list[LakeFinding] = field(default_factory=list[LakeFinding])

    @property
    def is_sound(self) -> bool:
        return not any(finding.is_serious for finding in self.findings)


Count = Callable[[int, int], None]
"""Called with the number of parts read so far, and the total."""


def verify(
    stores: AnyStores,
    dest: str,
    settings: LakeSettings,
    count: Count = lambda done, total: None,
    feedback: Feedback = SILENT,
) -> VerifiedLake:
    """Read every live part, check digests, and compare with the sessions of this machine."""
    require_dest(dest)
    # Sync the index first: that may fork, which pyarrow's threads would not survive.
    with synced_index(stores, feedback=feedback):
        pass
    storage = open_existing(dest)
    require_version(storage)
    done, winners = _check_lake(storage, count)
    if any(finding.kind == "missing" for finding in done.findings):
        # A compaction may have replaced a part since it was listed.
        done, winners = _check_lake(storage, count)
    machine = this_machine()
    own = {key: row for key, row in winners.items() if key.machine == machine.id}
    if own:
        keep = NameFilter(names_for(settings, machine))
        _compare_sources(stores, machine, keep, own, (done, feedback))
    return done


def _check_lake(storage: LakeStorage, count: Count) -> tuple[VerifiedLake, dict[UnitKey, UnitRow]]:
    """Check all parts of a lake; return the result and the winning units."""
    done = VerifiedLake(storage.dest)
    winners = winners_of(_checked_units(storage, done))
    done.machines = len({row.machine for row in winners.values() if not row.is_retracted})
    _check_parts(storage, winners, done, count)
    _find_foreign(storage, done)
    return done, winners


def _checked_units(storage: LakeStorage, done: VerifiedLake) -> list[UnitRow]:
    found: list[UnitRow] = []
    for path in list_unit_parts(storage):
        if (table := _read_part(storage, path, done)) is None:
            continue
        found += unit_rows(sound_units(path, table))
    return found


def _read_part(storage: LakeStorage, path: str, done: VerifiedLake) -> Any:
    """Return a part as an Arrow table; if it cannot be read, add a finding and return None."""
    try:
        content = storage.read(path)
    except PartGone as error:
        done.findings.append(LakeFinding("missing", path, error.message))
        return None
    # Other errors, such as a lost connection, propagate: they say nothing about the part.
    try:
        table = decode_part(storage, path, content)
    except (Damaged, ForeignFile) as error:
        is_ignored = isinstance(error, ForeignFile) and has_own_name(path, content)
        kind = "foreign" if is_ignored else "damaged"
        done.findings.append(LakeFinding(kind, path, error.message))
        return None
    done.parts += 1
    return table


def _check_parts(
    storage: LakeStorage,
    winners: Mapping[UnitKey, UnitRow],
    done: VerifiedLake,
    count: Count,
) -> None:
    parts = {
        path: units
        for tables in live_parts(winners.values()).values()
        for path, units in tables.items()
    }
    for number, (path, units) in enumerate(sorted(parts.items()), 1):
        if (table := _read_part(storage, path, done)) is None:
            continue
        found = {
            (key, write_id): (rows, digest)
            for key, write_id, rows, digest in read_units(units[0].table, table)
        }
        for unit in units:
            done.rows += unit.rows
            if found.get((unit.key, unit.write_id)) != (unit.rows, unit.sha256):
                message = f"its rows of file {unit.file} are not those that were committed"
                done.findings.append(LakeFinding("damaged", path, message))
        count(number, len(parts))


def _find_foreign(storage: LakeStorage, done: VerifiedLake) -> None:
    for file in storage.walk(ROOT):
        if not parse_place(file.path) and not file.path.rpartition("/")[2].startswith("."):
            message = "turnlog did not write this file; it is ignored"
            done.findings.append(LakeFinding("foreign", file.path, message))


def _compare_sources(
    stores: AnyStores,
    machine: LakeMachine,
    keep: NameFilter,
    own: Mapping[UnitKey, UnitRow],
    report: tuple[VerifiedLake, Feedback],
) -> None:
    """Recompute all units from the session files, and compare them with the lake's."""
    done, feedback = report
    left = {key: row for key, row in own.items() if not row.is_retracted}
    forgotten = {key.file for key, row in own.items() if row.is_forgotten}
    with watch_skipped() as skipped, synced_index(stores, feedback=feedback) as index:
        there = listed_stores(stores, skipped)
        sources = [
            each
            for each in source_rows(index.db, machine.secret, keep)
            if each.file not in forgotten
        ]
        paths = dict(index.db.execute("SELECT id, path FROM files"))
        for batch in batches_of(sources):
            by_number = {source.number: source for source in batch}
            differing = {
                number
                for found in all_rows(index.db, list(by_number), keep)
                for unit in units_of(
                    machine.id, found.table, by_number[found.number].file, found.rows
                )
                if not _is_pushed(left.pop(unit.key, None), unit.digest())
                for number in (found.number,)
            }
            done.sessions += len(batch)
            pushed = {key.file for key in own}
            done.findings += _differences(differing, by_number, paths, pushed)
    _report_extra(left.values(), sources, machine, there, done)


def _is_pushed(row: UnitRow | None, digest: str) -> bool:
    return row is not None and row.sha256 == digest


def _differences(
    numbers: Iterable[int],
    sources: Mapping[int, SourceRow],
    paths: Mapping[int, str],
    pushed: set[str],
) -> list[LakeFinding]:
    found: list[LakeFinding] = []
    for number in sorted(numbers):
        is_known = sources[number].file in pushed
        kind = "differs" if is_known else "unpushed"
        message = "the lake has different rows of it" if is_known else "it was never pushed"
        found.append(LakeFinding(kind, paths[number], message))
    return found


def _report_extra(
    left: Iterable[UnitRow],
    sources: Sequence[SourceRow],
    machine: LakeMachine,
    there: Sequence[str],
    done: VerifiedLake,
) -> None:
    """Report units of sessions that no longer exist."""
    stores = {file_id(machine.secret, each) for each in there}
    files = {source.file for source in sources}
    for row in left:
        # Sessions of an unmounted store are out of reach, not deleted.
        if row.store in stores or row.file in files:
            message = f"the lake has {row.table} of {row.day} that no session of this machine has"
            done.findings.append(LakeFinding("extra", row.path or row.file, message))
