"""Failures of a lake: one clear line each, nothing lost, nothing counted twice."""

import math
import os
import resource
import shutil
import subprocess
import sys
from dataclasses import replace as replaced
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from support.build import assistant, session, text, user
from support.capabilities import without_privileges
from support.lake_machines import PushingMachine, lake_totals, live_rows, numbered_turn
from turnlog.errors import Damaged, NotFound, TurnlogError, Unavailable
from turnlog.index.reports.reports import ReportRequest
from turnlog.lake.lake_compaction import CompactOptions, compact
from turnlog.lake.lake_forgetting import ForgetRequest, forget
from turnlog.lake.lake_parts import encode_part, parse_place
from turnlog.lake.lake_reports import LakeSource, lake_report
from turnlog.lake.lake_schema import SCHEMA_KEY, arrow_schema, pyarrow
from turnlog.lake.lake_status import lake_status
from turnlog.lake.lake_storage import open_storage
from turnlog.lake.lake_verification import verify
from turnlog.lake.live_units import all_winners
from turnlog.store.deletion_consent import agreed

A = "5e551011-0000-4000-8000-00000000000a"


@pytest.fixture
def machine(tmp_path: Path, dest: str) -> PushingMachine:
    found = PushingMachine(tmp_path / "ada", dest)
    found.write(numbered_turn(1), A)
    found.push()
    return found


def unit_part(dest: str) -> Path:
    (found,) = Path(dest, "v1", "units").rglob("*.parquet")
    return found


def verified(machine: PushingMachine) -> set[str]:
    """Return the kinds of what a verification finds."""
    with machine.environment():
        found = verify(machine.store, machine.dest, machine.settings)
    return {each.kind for each in found.findings}


def one_line(error: TurnlogError) -> str:
    assert "\n" not in error.line
    assert error.hint
    return error.line


def test_layout_of_a_newer_version_is_refused(machine: PushingMachine, dest: str) -> None:
    Path(dest, "v2", "units").mkdir(parents=True)
    for action in (machine.push, lambda: compact(dest), lambda: lake_status(dest)):
        with pytest.raises(Unavailable, match="newer turnlog") as raised:
            action()
        assert "pip install --upgrade 'turnlog[lake]'" in one_line(raised.value)


def rewritten(path: Path, schema: str, **columns: Any) -> None:
    """Replace a part by one of another schema version, with further columns."""
    found = pyarrow("parquet").read_table(pyarrow().BufferReader(path.read_bytes()))
    for name, values in columns.items():
        found = found.append_column(name, pyarrow().array(values * found.num_rows))
    metadata: dict[bytes, bytes] = {SCHEMA_KEY: schema.encode()}
    place = parse_place(path.as_posix()[path.as_posix().index("v1/") :])
    assert place
    metadata[b"turnlog.lake.table"] = place.table.encode()
    replace(path, encode_part(found.replace_schema_metadata(metadata)))


def replace(path: Path, content: bytes) -> None:
    """Write another part in the place of one."""
    path.unlink()
    path.with_name(f"part-{sha256(content).hexdigest()}.parquet").write_bytes(content)


def test_part_of_a_newer_version_is_refused(machine: PushingMachine, dest: str) -> None:
    rewritten(unit_part(dest), "2.0")
    for read in (lambda: lake_status(dest), lambda: verified(machine)):
        with pytest.raises(Unavailable, match=r"lake schema 2\.0, not 1\.x") as raised:
            read()
        one_line(raised.value)


def test_columns_of_a_later_minor_version_are_read(machine: PushingMachine, dest: str) -> None:
    rewritten(unit_part(dest), "1.99", colour=["red"])
    assert lake_totals(dest)["messages"] == 2
    compact(dest, CompactOptions(grace=0))
    assert lake_totals(dest)["messages"] == 2


def test_missing_columns_of_an_earlier_version_are_null(machine: PushingMachine, dest: str) -> None:
    path = unit_part(dest)
    found = pyarrow("parquet").read_table(pyarrow().BufferReader(path.read_bytes()))
    metadata = arrow_schema("units").metadata
    replace(path, encode_part(found.drop(["host"]).replace_schema_metadata(metadata)))
    assert {row.host for row in all_winners(open_storage(dest)).values()} == {None}
    assert lake_totals(dest)["messages"] == 2


def test_truncated_units_are_one_clear_line(machine: PushingMachine, dest: str) -> None:
    path = unit_part(dest)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(Damaged, match="truncated or damaged") as raised:
        lake_status(dest)
    assert "turnlog lake verify" in one_line(raised.value)


def test_changed_part_is_one_clear_line(machine: PushingMachine, dest: str) -> None:
    path = unit_part(dest)
    path.rename(path.with_name(f"part-{'a' * 64}.parquet"))
    with pytest.raises(Damaged, match="does not match the hash in its name") as raised:
        lake_status(dest)
    one_line(raised.value)
    machine.push(again=True)
    assert lake_totals(dest)["messages"] == 2


def test_truncated_part_is_neither_merged_nor_deleted(machine: PushingMachine, dest: str) -> None:
    machine.append(numbered_turn(2), A)
    machine.push()
    machine.write(numbered_turn(3), A.replace("a", "b"))
    machine.push()
    live = [row.path for row in all_winners(open_storage(dest)).values()]
    path = next(Path(dest, each) for each in live if each and "/messages/" in each)
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    done = compact(dest, CompactOptions(grace=0))
    assert [str(path.relative_to(dest)) in line for line in done.damaged] == [True]
    assert path.exists()
    path.write_bytes(whole)
    assert lake_totals(dest)["messages"] == 6
    compact(dest, CompactOptions(grace=0))
    assert lake_totals(dest)["messages"] == 6


@pytest.fixture
def two_users(tmp_path: Path, dest: str) -> tuple[PushingMachine, PushingMachine]:
    """Two machines with two pushes each; the first one has a session more."""
    ada, bob = (PushingMachine(tmp_path / name, dest) for name in ("ada-lovelace", "bob"))
    for number, each in enumerate((ada, bob)):
        each.write(numbered_turn(number), A)
        each.push()
        each.append(numbered_turn(number + 5), A)
        each.push()
    ada.write(numbered_turn(20), A.replace("a", "c"))
    ada.push()
    return ada, bob


def cut_off(dest: str, table: str, machine: str) -> tuple[Path, bytes]:
    """Truncate the newest part of a machine's table; return it and what it had."""
    found = Path(dest, "v1", table).rglob(f"machine={machine}/*.parquet")
    path = max(found, key=lambda path: path.stat().st_mtime_ns)
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    return path, whole


def machine_of(dest: str, user: str) -> str:
    rows = all_winners(open_storage(dest)).values()
    return next(row.machine for row in rows if row.user == user)


@pytest.mark.parametrize("table", ["units", "sessions"])
def test_forget_goes_on_after_a_damaged_part_of_another_machine(
    two_users: tuple[PushingMachine, PushingMachine], dest: str, table: str
) -> None:
    ada, bob = two_users
    path, whole = cut_off(dest, table, machine_of(dest, "bob"))
    with ada.environment():
        request = ForgetRequest(user="ada-lovelace", consent=agreed)
        preview = forget(dest, ada.settings, replaced(request, is_dry_run=True))
        done = forget(dest, ada.settings, request)
    assert (done.machines, done.files) == (1, 2) == (preview.machines, preview.files)
    assert done.problems == preview.problems
    (problem,) = done.problems
    assert _below(path, dest) in problem
    assert problem.endswith(f" (try: turnlog lake push {dest} --again)")
    for part in Path(dest).rglob("*.parquet"):
        assert b"ada-lovelace" not in part.read_bytes()
    path.write_bytes(whole)
    assert lake_totals(dest)["sessions"] == 1
    assert verified(bob) == set()


@pytest.mark.parametrize("table", ["units", "sessions", "messages", "turns"])
def test_forget_spares_rows_of_others_next_to_a_damaged_part(
    two_users: tuple[PushingMachine, PushingMachine], dest: str, table: str
) -> None:
    ada, _ = two_users
    compact(dest, CompactOptions(grace=0))
    path, whole = cut_off(dest, table, machine_of(dest, "ada-lovelace"))
    request = ForgetRequest(session=A, consent=agreed)
    with ada.environment():
        done = forget(dest, ada.settings, request)
    assert any(_below(path, dest) in line for line in done.problems)
    path.write_bytes(whole)
    try:
        with ada.environment():
            assert forget(dest, ada.settings, request).problems == []
    except NotFound:
        compact(dest, CompactOptions(grace=0))  # all of it is forgotten, and the part is dead
    (left,) = live_rows(dest, "sessions")
    assert left["session"] == A.replace("a", "c")
    assert lake_totals(dest)["messages"] == 2
    assert verified(ada) == set()
    for part in Path(dest).rglob("*.parquet"):
        assert A.encode() not in part.read_bytes()


def test_a_damaged_part_of_forgotten_rows_alone_is_deleted(
    two_users: tuple[PushingMachine, PushingMachine], dest: str
) -> None:
    ada, bob = two_users
    compact(dest, CompactOptions(grace=0))
    path, _ = cut_off(dest, "sessions", machine_of(dest, "ada-lovelace"))
    with ada.environment():
        # The rows of `units` name the user, too.
        request = ForgetRequest(user="ada-lovelace", consent=agreed)
        done = forget(dest, ada.settings, request)
    assert (done.files, done.problems, path.exists()) == (2, [], False)
    assert lake_totals(dest)["sessions"] == 1
    assert verified(bob) == set()


def test_forget_does_not_say_that_a_damaged_lake_has_nothing(
    two_users: tuple[PushingMachine, PushingMachine], dest: str
) -> None:
    ada, _ = two_users
    path, _ = cut_off(dest, "sessions", machine_of(dest, "bob"))
    with ada.environment():
        done = forget(dest, ada.settings, ForgetRequest(session="unknown", consent=agreed))
    assert (done.files, len(done.problems), path.exists()) == (0, 1, True)


def foreign_file() -> bytes:
    sink = pyarrow().BufferOutputStream()
    pyarrow("parquet").write_table(pyarrow().table({"machine": ["x"], "version": [99]}), sink)
    return sink.getvalue().to_pybytes()


def test_foreign_files_count_nothing(machine: PushingMachine, dest: str) -> None:
    totals, content = lake_totals(dest), foreign_file()
    place = unit_part(dest).parent
    for name in (f"part-{sha256(content).hexdigest()}.parquet", "export.parquet"):
        (place / name).write_bytes(content)
    assert lake_totals(dest) == totals
    assert verified(machine) == {"foreign"}
    with machine.environment():
        assert lake_status(dest).foreign == [f"v1/units/{place.name}/export.parquet"]
    machine.append(numbered_turn(2), A)
    machine.push()
    assert lake_totals(dest)["messages"] == 4


def test_foreign_file_in_the_place_of_a_commit_is_named(
    machine: PushingMachine, dest: str, tmp_path: Path
) -> None:
    bob = PushingMachine(tmp_path / "bob", dest)
    bob.write(numbered_turn(2), A.replace("a", "b"))
    (ours,) = Path(dest, "v1", "units").rglob("*.parquet")
    bob.push()
    totals = lake_totals(dest)
    ours.write_bytes(foreign_file())
    # Otherwise reports would just lack this machine.
    with pytest.raises(Damaged, match="turnlog did not write it") as raised:
        lake_report(LakeSource(dest), ReportRequest("model"))
    one_line(raised.value)
    assert "damaged" in verified(machine)
    machine.push(again=True)
    assert lake_totals(dest) == totals
    assert verified(machine) == set()


def test_copied_part_counts_once(machine: PushingMachine, dest: str) -> None:
    # A backup that someone restored next to the parts, under another name.
    totals = lake_totals(dest)
    for path in list(Path(dest).rglob("part-*.parquet")):
        if "/units/" not in str(path):
            shutil.copy(path, path.with_name(f"part-{'1' * 64}.parquet"))
    assert lake_totals(dest) == totals
    compact(dest, CompactOptions(grace=0))
    assert lake_totals(dest) == totals


def test_missing_permissions_are_one_clear_line(machine: PushingMachine, dest: str) -> None:
    machine.append(numbered_turn(2), A)
    folders = [path for path in Path(dest).rglob("*") if path.is_dir()]
    for folder in folders:
        folder.chmod(0o500)
    try:
        with pytest.raises(Unavailable, match="no permission to write") as raised:
            without_privileges(machine.push)
        one_line(raised.value)
        assert lake_totals(dest)["messages"] == 2
        for folder in folders:
            folder.chmod(0o000)
        with pytest.raises(Unavailable, match="no permission to list") as raised:
            without_privileges(lambda: lake_status(dest))
        one_line(raised.value)
    finally:
        for folder in folders:
            folder.chmod(0o700)
    machine.push()
    assert lake_totals(dest)["messages"] == 4


def test_sessions_in_an_unreadable_folder_are_not_retracted(
    machine: PushingMachine, dest: str
) -> None:
    gone, folder = machine.store.projects / "-gone", machine.path().parent
    gone.mkdir()
    (gone / f"{A.replace('a', 'b')}.jsonl").write_bytes(numbered_turn(2))
    machine.push()
    totals = lake_totals(dest)
    shutil.rmtree(gone)
    try:
        for mode in (0o000, 0o400):
            folder.chmod(mode)
            assert without_privileges(machine.push).retracted == 0
            assert lake_totals(dest) == totals
            assert without_privileges(lambda: verified(machine)) == set()
    finally:
        folder.chmod(0o700)
    # Neither a pipe nor a broken link hides a session.
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "link.jsonl").symlink_to("nowhere")
    assert machine.push().retracted > 0
    assert lake_totals(dest)["messages"] == 2


def test_part_that_may_not_be_read_is_not_called_damaged(
    machine: PushingMachine, dest: str
) -> None:
    (part,) = Path(dest, "v1", "messages").rglob("*.parquet")
    part.chmod(0o000)
    with machine.environment(), pytest.raises(Unavailable, match="no permission to read") as raised:
        without_privileges(lambda: verify(machine.store, dest, machine.settings))
    one_line(raised.value)


@pytest.mark.parametrize(
    ("limit", "message"), [(14_000, "cannot write"), (50_000, "no space left to write")]
)
def test_full_disk_is_one_clear_line(
    machine: PushingMachine, dest: str, limit: int, message: str
) -> None:
    # Random ids, as real ones are: they do not compress, and the part is larger than the limit.
    ids = [f"msg_{os.urandom(12).hex()}" for _ in range(4000)]
    answers = [assistant(text("Done"), message_id=each) for each in ids]
    machine.write(session(user("Go"), *answers), A)
    machine.push(is_dry_run=True)  # brings the index up to date
    before = lake_totals(dest)

    def push(limit: int | None) -> "subprocess.CompletedProcess[str]":
        unlimited = resource.RLIM_INFINITY
        return subprocess.run(
            [sys.executable, "-m", "turnlog", "lake", "push", dest],
            env={**os.environ, **machine.variables},
            preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_FSIZE, (limit or unlimited, unlimited)
            ),
            capture_output=True,
            text=True,
            check=False,
        )

    config = machine.home / "config" / "turnlog" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[lake]\nkey = "{machine.settings.key}"\nuser = "ada"\n', "utf-8")
    failed = push(limit)
    assert failed.returncode == 1
    assert failed.stderr.count("\n") == 1
    assert message in failed.stderr
    assert "(try: df " in failed.stderr
    assert lake_totals(dest) == before
    assert not list(Path(dest).rglob("*.tmp"))
    assert push(None).returncode == 0
    assert lake_totals(dest)["messages"] == 4000


def test_part_that_a_compaction_deleted_is_listed_again(
    machine: PushingMachine, dest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.append(numbered_turn(2), A)
    machine.push()
    storage = open_storage(dest)
    read, deleted = type(storage).read, False

    def read_late(self: Any, path: str) -> bytes:
        nonlocal deleted
        if not deleted:
            deleted = True
            compact(dest, CompactOptions(grace=0))
        return read(self, path)

    monkeypatch.setattr(type(storage), "read", read_late)
    assert lake_status(dest).machines[0].files == 1


def test_links_do_not_lead_out_of_a_lake(
    machine: PushingMachine, dest: str, tmp_path: Path
) -> None:
    private = PushingMachine(tmp_path / "grace", str(tmp_path / "private"))
    private.write(numbered_turn(2), A)
    private.push()
    parts = sorted(Path(private.dest).rglob("*.parquet"))
    for part in parts:
        os.utime(part, (1, 1))
    before = lake_totals(dest)
    (day,) = Path(private.dest, "v1", "messages").iterdir()
    Path(dest, "v1", "messages", "day=2001-01-01").symlink_to(day)
    Path(dest, "v1", "units", "machine=other").symlink_to(Path(private.dest, "v1", "units"))
    assert compact(dest, CompactOptions(grace=0)).deleted == 0
    assert sorted(Path(private.dest).rglob("*.parquet")) == parts
    assert lake_totals(dest) == before


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_part_behind_a_link_is_not_read(
    machine: PushingMachine, dest: str, tmp_path: Path, is_folder: bool
) -> None:
    (part,) = Path(dest, "v1", "messages").rglob("*.parquet")
    linked = part.parent if is_folder else part
    linked.rename(tmp_path / "moved")
    linked.symlink_to(tmp_path / "moved")
    for action in (lambda: lake_totals(dest), lambda: open_storage(dest).read(_below(part, dest))):
        with pytest.raises(Damaged, match=r"symbolic link|not a regular file") as raised:
            action()
        assert one_line(raised.value)


def test_nothing_is_written_or_deleted_behind_a_link(dest: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "day=1").mkdir(parents=True)
    (outside / "day=1" / "part").write_text("mine")
    Path(dest).mkdir()
    Path(dest, "v1").symlink_to(outside)
    storage = open_storage(dest)
    for action in (
        lambda: storage.write("v1/day=1/new", b"x"),
        lambda: storage.delete("v1/day=1/part"),
    ):
        with pytest.raises(Damaged, match="symbolic link"):
            action()
    assert [path.name for path in outside.rglob("*")] == ["day=1", "part"]


def _below(path: Path, dest: str) -> str:
    return path.relative_to(dest).as_posix()


@pytest.mark.parametrize(
    ("column", "value"), [("ended", math.inf), ("ended", math.nan), ("quarter", 1 << 62)]
)
def test_a_row_with_an_impossible_time_stops_no_report(
    machine: PushingMachine,
    dest: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    column: str,
    value: float,
) -> None:
    other = PushingMachine(tmp_path / "eve", dest)
    other.write(numbered_turn(7), "5e551011-0000-4000-8000-00000000000b")

    def encode(table: Any) -> bytes:
        if column in table.column_names:
            at = table.schema.get_field_index(column)
            field = table.schema.field(at)
            table = table.set_column(at, field, pyarrow().array([value] * len(table), field.type))
        return encode_part(table)

    with monkeypatch.context() as patch:
        patch.setattr("turnlog.lake.lake_parts.encode_part", encode)
        other.push()
    for name in ("project", "tool", "blocks", "daily", "latency"):
        report = lake_report(LakeSource(dest), ReportRequest(name))
        figures = [each for row in (*report.rows, report.total) for each in row.values()]
        assert all(math.isfinite(each) for each in figures if isinstance(each, float)), name
        assert report.rows, name
