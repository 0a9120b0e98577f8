"""Compacting, forgetting, verifying and copying a lake."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.lake_machines import PushingMachine, lake_totals, live_rows, numbered_turn
from turnlog.errors import NotFound, UsageError
from turnlog.index.reports.reports import ReportRequest
from turnlog.lake.lake_compaction import CompactOptions, compact
from turnlog.lake.lake_forgetting import ForgetRequest, forget
from turnlog.lake.lake_parts import new_part, parse_place
from turnlog.lake.lake_reports import LakeSource, lake_report
from turnlog.lake.lake_schema import DATA_TABLES, SCHEMA_KEY, TABLE_KEY, pyarrow
from turnlog.lake.lake_status import lake_status, pull
from turnlog.lake.lake_storage import LakeStorage, open_storage
from turnlog.lake.lake_units import UnitKey
from turnlog.lake.lake_verification import VerifiedLake, verify
from turnlog.lake.live_units import UnitRow, all_winners, read_unit_parts, unit_rows
from turnlog.lake.unit_writer import tombstone, write_rows
from turnlog.store.deletion_consent import agreed

A = "5e551011-0000-4000-8000-00000000000a"
B = "5e551011-0000-4000-8000-00000000000b"
AT_ONCE = CompactOptions(grace=0)


@pytest.fixture
def machine(tmp_path: Path, dest: str) -> PushingMachine:
    """A machine that pushed five times."""
    found = PushingMachine(tmp_path / "ada", dest)
    for number in range(4):
        found.write(numbered_turn(number), A if number % 2 else B)
        found.push()
        found.append(numbered_turn(number + 10), A)
        found.push()
    return found


def rows_without_writes(dest: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for table in DATA_TABLES:
        rows = [row | {"write_id": None} for row in live_rows(dest, table)]
        found[table] = sorted(map(repr, rows))
    return found


def parts(dest: str) -> list[str]:
    return sorted(each.path for each in open_storage(dest).walk("v1"))


def verified(machine: PushingMachine) -> VerifiedLake:
    with machine.environment():
        return verify(machine.store, machine.dest, machine.settings)


def test_compaction_keeps_the_live_rows(machine: PushingMachine, dest: str) -> None:
    before, totals = rows_without_writes(dest), lake_totals(dest)
    many = len(parts(dest))
    done = compact(dest, AT_ONCE)
    assert done.merged > done.written > 0
    assert rows_without_writes(dest) == before
    assert lake_totals(dest) == totals
    assert len(parts(dest)) < many / 3
    assert verified(machine).findings == []
    assert machine.push().parts == 0


def test_compacted_lake_has_one_part_per_table_and_day(machine: PushingMachine, dest: str) -> None:
    compact(dest, AT_ONCE)
    left = parts(dest)
    assert len({path.rpartition("/")[0] for path in left}) == len(left)
    assert compact(dest, AT_ONCE).merged == 0
    assert parts(dest) == left


def test_grace_keeps_replaced_parts_for_readers(machine: PushingMachine, dest: str) -> None:
    before = parts(dest)
    totals = lake_totals(dest)
    done = compact(dest)
    assert done.deleted == 0
    assert done.waiting > 0
    assert set(before) <= set(parts(dest))
    assert lake_totals(dest) == totals
    assert compact(dest, AT_ONCE).deleted == done.waiting
    assert lake_totals(dest) == totals


def test_dry_run_changes_nothing(machine: PushingMachine, dest: str) -> None:
    before = parts(dest)
    done = compact(dest, CompactOptions(grace=0, is_dry_run=True))
    assert done.merged > 0
    assert parts(dest) == before


def test_two_compactions_at_once_count_nothing_twice(
    machine: PushingMachine, dest: str, tmp_path: Path
) -> None:
    # Both start from the same state: the second one runs on a copy, whose parts are added then.
    totals = lake_totals(dest)
    twin = tmp_path / "twin"
    pull(dest, str(twin))
    compact(str(twin))
    compact(dest)
    for path in parts(str(twin)):
        open_storage(dest).write(path, open_storage(str(twin)).read(path))
    assert lake_totals(dest) == totals
    compact(dest, AT_ONCE)
    assert lake_totals(dest) == totals
    assert verified(machine).findings == []


def test_push_during_a_compaction_wins(machine: PushingMachine, dest: str, tmp_path: Path) -> None:
    twin = tmp_path / "twin"
    pull(dest, str(twin))
    compact(str(twin))
    machine.write(numbered_turn(77), A)
    machine.push()
    totals = lake_totals(dest)
    for path in parts(str(twin)):
        open_storage(dest).write(path, open_storage(str(twin)).read(path))
    assert lake_totals(dest) == totals
    compact(dest, AT_ONCE)
    assert lake_totals(dest) == totals


def test_retraction_survives_compaction(machine: PushingMachine, dest: str) -> None:
    machine.path(A).unlink()
    machine.push()
    compact(dest)
    assert len(live_rows(dest, "sessions")) == 1
    compact(dest, AT_ONCE)
    compact(dest, AT_ONCE)
    assert len(live_rows(dest, "sessions")) == 1
    assert not any(row.is_retracted for row in all_winners(open_storage(dest)).values())
    assert machine.push().parts == 0


def test_compaction_removes_parts_of_killed_pushes(machine: PushingMachine, dest: str) -> None:
    storage = open_storage(dest)
    machine.write(numbered_turn(88), A)
    machine.push()
    lost = [path for path in parts(dest) if "/units/" not in path]
    winner = max(all_winners(storage).values(), key=lambda row: row.rank)
    (commit,) = (
        path for path in parts(dest) if "/units/" in path and _has(dest, path, winner.rank)
    )
    storage.delete(commit)  # as if the push had been killed before
    assert compact(dest, AT_ONCE).deleted > 0
    recent = set(lost) & set(parts(dest))
    for path in recent:
        os.utime(Path(dest, path), (1, 1))
    compact(dest, AT_ONCE)
    live = {row.path for row in all_winners(storage).values()}
    assert {path for path in parts(dest) if "/units/" not in path} <= live


def _has(dest: str, path: str, rank: tuple[int, int, str]) -> bool:
    ((_, table),) = read_unit_parts(open_storage(dest), [path])
    return any(row.rank == rank for row in unit_rows(table))


def count_ranks(dest: str, pushes: int) -> int:
    """Return how often rows of `units` are compared when a machine that pushed often compacts."""
    storage, counted = open_storage(dest), 0
    for version in range(1, pushes + 1):
        row = tombstone(UnitKey("ab", "calls", f"{version:04}", "none"), version, "w")
        write_rows(storage, "ab", [row._replace(is_retracted=False, rows=1)])

    def rank(row: UnitRow) -> tuple[int, int, str]:
        nonlocal counted
        counted += 1
        return row.version, row.level, row.write_id

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UnitRow, "rank", property(rank))
        compact(dest, AT_ONCE)
    return counted


def test_compaction_of_twice_as_many_pushes_compares_twice_as_much(tmp_path: Path) -> None:
    few, many = (count_ranks(str(tmp_path / f"lake-{n}"), n) for n in (40, 80))
    assert many <= 2.2 * few


def test_compaction_leaves_foreign_files_alone(machine: PushingMachine, dest: str) -> None:
    digest = "0" * 64
    names = ["v1/messages/notes.parquet", f"v1/calls/day=none/machine=x/part-{digest}.parquet"]
    sink = pyarrow().BufferOutputStream()
    pyarrow("parquet").write_table(pyarrow().table({"file": ["mine"]}), sink)
    for name in names:
        path = Path(dest, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(sink.getvalue().to_pybytes())
        os.utime(path, (1, 1))
    compact(dest, AT_ONCE)
    assert set(names) <= set(parts(dest))
    assert lake_status(dest).foreign == [names[0]]


def test_forgotten_session_leaves_no_byte(machine: PushingMachine, dest: str) -> None:
    with machine.environment():
        done = forget(dest, machine.settings, ForgetRequest(session=A, consent=agreed))
    assert (done.files, done.problems) == (1, [])
    for path in parts(dest):
        assert A not in repr(live_rows(dest, "sessions"))
        assert A.encode() not in Path(dest, path).read_bytes()
    assert len(live_rows(dest, "sessions")) == 1
    found = verified(machine)
    assert found.findings == []


def test_forgotten_session_is_not_pushed_again(machine: PushingMachine, dest: str) -> None:
    with machine.environment():
        forget(dest, machine.settings, ForgetRequest(session=A, consent=agreed))
    machine.append(numbered_turn(99), A)
    done = machine.push()
    assert (done.forgotten, done.parts) == (1, 0)
    compact(dest, AT_ONCE)
    compact(dest, AT_ONCE)
    assert machine.push().forgotten == 1
    assert len(live_rows(dest, "sessions")) == 1


@pytest.mark.parametrize("is_hashed", [False, True])
def test_forgotten_user_leaves_no_byte(tmp_path: Path, dest: str, is_hashed: bool) -> None:
    ada = PushingMachine(tmp_path / "ada", dest, is_hashed=is_hashed, user="ada-lovelace")
    bob = PushingMachine(tmp_path / "bob", dest, is_hashed=is_hashed)
    for number, each in enumerate((ada, bob)):
        each.write(numbered_turn(number), A)
        each.push()
        each.append(numbered_turn(number + 5), A)
        each.push()
    with bob.environment():
        done = forget(dest, bob.settings, ForgetRequest(user="ada-lovelace", consent=agreed))
    assert (done.machines, done.files) == (1, 1)
    assert len(live_rows(dest, "sessions")) == 1
    users = {row.user for row in all_winners(open_storage(dest)).values()}
    assert len(users - {None}) == 1
    assert all(b"ada-lovelace" not in Path(dest, path).read_bytes() for path in parts(dest))


def test_forget_needs_consent_and_a_match(machine: PushingMachine, dest: str) -> None:
    before = parts(dest)
    with machine.environment():
        with pytest.raises(UsageError, match="permanently"):
            forget(dest, machine.settings, ForgetRequest(user="ada"))
        with pytest.raises(NotFound, match="nothing of eve"):
            forget(dest, machine.settings, ForgetRequest(user="eve", consent=agreed))
        with pytest.raises(UsageError, match="either"):
            forget(dest, machine.settings, ForgetRequest(consent=agreed))
        assert forget(dest, machine.settings, ForgetRequest(user="ada", is_dry_run=True)).files == 2
    assert parts(dest) == before


class _Killed(BaseException):
    """Ends a process at once; nothing catches it."""


@contextmanager
def killed_at(number: int) -> Generator[None]:
    """Let the nth write or deletion of a lake be the last thing that happens."""
    left = number

    def counted(action: Callable[..., None]) -> Callable[..., None]:
        def act(*arguments: Any) -> None:
            nonlocal left
            if left == 0:
                raise _Killed
            left -= 1
            action(*arguments)

        return act

    with pytest.MonkeyPatch.context() as patch:
        for name in ("write", "delete"):
            patch.setattr(LakeStorage, name, counted(getattr(LakeStorage, name)))
        with suppress(_Killed):
            yield


def test_killed_compaction_changes_nothing(machine: PushingMachine, dest: str) -> None:
    totals = lake_totals(dest)
    for number in range(40):
        with killed_at(number):
            compact(dest, AT_ONCE)
        assert lake_totals(dest) == totals, number
    assert verified(machine).findings == []
    assert machine.push().parts == 0


@pytest.mark.parametrize("number", [0, 1, 2, 5, 9, 14])
def test_killed_forget_is_completed_by_another(
    machine: PushingMachine, dest: str, number: int
) -> None:
    request = ForgetRequest(session=A, consent=agreed)
    with machine.environment():
        with killed_at(number):
            forget(dest, machine.settings, request)
        expected = 2 if number == 0 else 1
        assert len(live_rows(dest, "sessions")) == expected
        with suppress(NotFound):  # the first attempt was complete
            assert forget(dest, machine.settings, request).problems == []
    assert len(live_rows(dest, "sessions")) == 1
    assert all(A.encode() not in Path(dest, path).read_bytes() for path in parts(dest))
    gone = {row.file for row in all_winners(open_storage(dest)).values() if row.is_forgotten}
    for path in parts(dest):
        if "/units/" not in path:
            table = pyarrow("parquet").read_table(Path(dest, path))
            assert not gone & set(table["file"].to_pylist()), path
    assert verified(machine).findings == []


def test_verify_finds_nothing_in_a_sound_lake(machine: PushingMachine) -> None:
    found = verified(machine)
    assert (found.findings, found.sessions, found.machines) == ([], 2, 1)
    assert found.rows > 0


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 255
    path.write_bytes(content)


@pytest.mark.parametrize("harm", [_truncate, _flip, Path.unlink])
@pytest.mark.parametrize("table", ["messages", "units"])
def test_verify_finds_damage_and_a_push_heals_it(
    machine: PushingMachine, dest: str, harm: Callable[[Path], None], table: str
) -> None:
    totals = lake_totals(dest)
    live = [row.path for row in all_winners(open_storage(dest)).values() if row.path]
    newest = max(row.rank for row in all_winners(open_storage(dest)).values())
    units = [path for path in parts(dest) if "/units/" in path and _has(dest, path, newest)]
    chosen = [path for path in live if f"/{table}/" in path] or units
    harm(Path(dest, sorted(chosen)[-1]))
    found = verified(machine)
    assert not found.is_sound
    machine.push(again=True)
    assert verified(machine).findings == []
    assert lake_totals(dest) == totals


def test_verify_names_sessions_that_changed(machine: PushingMachine) -> None:
    machine.append(numbered_turn(50), A)
    machine.write(numbered_turn(51), A.replace("a", "c"))
    kinds = sorted((each.kind, Path(each.path).stem) for each in verified(machine).findings)
    assert kinds == [("differs", A), ("unpushed", A.replace("a", "c"))]
    machine.push()
    assert verified(machine).findings == []
    machine.path(A).unlink()
    assert {each.kind for each in verified(machine).findings} == {"extra"}


def test_status_counts_machines_and_dead_parts(machine: PushingMachine, dest: str) -> None:
    with machine.environment():
        found = lake_status(dest)
    (only,) = found.machines
    assert (only.user, only.files, only.is_this) == ("ada", 2, True)
    assert found.dead_parts > 0
    assert [table.table for table in found.tables] == ["calls", "messages", "sessions", "turns"]
    assert (found.foreign, found.missing, len(found.keys)) == ([], [], 1)


def test_different_keys_are_reported(machine: PushingMachine, tmp_path: Path, dest: str) -> None:
    bob = PushingMachine(tmp_path / "bob", dest)
    bob.write(numbered_turn(1), A)
    bob.push(replace(bob.settings, key=None))
    with machine.environment():
        assert len(lake_status(dest).keys) == 2


def test_pull_makes_a_copy_that_follows(machine: PushingMachine, dest: str, tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    pull(dest, copy)
    assert lake_totals(copy) == lake_totals(dest)
    assert pull(dest, copy).parts == 0
    machine.write(numbered_turn(60), A)
    machine.push()
    compact(dest, AT_ONCE)
    assert pull(dest, copy).deleted > 0
    assert lake_totals(copy) == lake_totals(dest)
    assert set(parts(copy)) <= set(parts(dest))


def test_pull_never_replaces_another_lake(
    machine: PushingMachine, dest: str, tmp_path: Path
) -> None:
    other = PushingMachine(tmp_path / "bob", str(tmp_path / "other"))
    other.write(numbered_turn(1), A)
    other.push()
    with pytest.raises(UsageError, match="not a copy"):
        pull(dest, other.dest)
    pull(dest, str(tmp_path / "copy"))
    machine.dest = str(tmp_path / "copy")
    with pytest.raises(UsageError, match="is a copy of"):
        machine.push()


@pytest.mark.parametrize(
    "change",
    [
        {"day": "../../../../outside"},
        {"table": "../outside"},
        {"part": "../../../../../outside"},
        {"machine": "another"},
    ],
)
def test_hostile_units_reach_nothing_outside(
    machine: PushingMachine, dest: str, tmp_path: Path, change: dict[str, str]
) -> None:
    totals, before = lake_totals(dest), figures_of(dest)
    rows = list(all_winners(open_storage(dest)).values())
    own = rows[0].machine
    hostile = [row._replace(version=99, **change) for row in rows if row.table == "messages"]
    write_rows(open_storage(dest), own, hostile)
    for path in {row.path for row in hostile if row.path}:
        target = Path(dest, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"mine")
    planted = sorted(tmp_path.rglob("outside*"))
    assert lake_totals(dest) == totals
    assert figures_of(dest) == before
    pull(dest, str(tmp_path / "deep" / "er" / "copy"))
    with machine.environment():
        forget(dest, machine.settings, ForgetRequest(user="ada", consent=agreed))
    assert sorted(tmp_path.rglob("outside*")) == planted


@pytest.mark.parametrize(
    "change",
    [
        {"written": float("nan")},
        {"written": 1e300},
        {"rows": None},
        {"version": None},
        {"schema": None},
        {"is_retracted": None},
        {"part": "no digest"},
    ],
)
def test_units_that_no_turnlog_writes_change_nothing(
    dest: str, machine: PushingMachine, change: dict[str, Any]
) -> None:
    rows = list(all_winners(open_storage(dest)).values())
    before = figures_of(dest)
    changed = [row._replace(version=99, is_retracted=True)._replace(**change) for row in rows]
    write_rows(open_storage(dest), rows[0].machine, changed)
    assert figures_of(dest) == before
    assert lake_status(dest).machines[0].rows == sum(row.rows for row in rows)


@pytest.mark.parametrize("table", ["units", "messages"])
@pytest.mark.parametrize("has_name", [True, False])
def test_a_part_with_other_columns_is_foreign(
    dest: str, machine: PushingMachine, table: str, has_name: bool
) -> None:
    """One that anyone may put there must not end a report, a compaction or a removal."""
    pa = pyarrow()
    before = figures_of(dest)
    metadata = {SCHEMA_KEY: b"1.0"}
    metadata |= {TABLE_KEY: table.encode()} if has_name else {}
    columns = {"machine": pa.array([1]), "version": pa.array(["x"])}
    rows = pa.table(columns).replace_schema_metadata(metadata)
    day = None if table == "units" else "2026-01-02"
    place, content = new_part(table, day, "evil", rows)
    open_storage(dest).write(place.path, content)
    assert figures_of(dest) == before
    compact(dest, CompactOptions(grace=0))
    with machine.environment():
        forget(dest, machine.settings, ForgetRequest(user="ada", consent=agreed))


def figures_of(dest: str) -> list[dict[str, Any]]:
    """The rows of a report that DuckDB computes."""
    return lake_report(LakeSource(dest), ReportRequest("model")).rows


def test_places_are_parsed_as_they_are_written(machine: PushingMachine, dest: str) -> None:
    assert all((place := parse_place(path)) and place.path == path for path in parts(dest))
