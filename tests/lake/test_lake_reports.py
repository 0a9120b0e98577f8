"""Reports on a lake equal those of an index over the same sessions."""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from time import tzset
from typing import Any

import pytest

from data.files import session_files
from support.build import SESSION, Fields, assistant, call, result, session, text, user
from support.lake_machines import KEY, PushingMachine
from support.report_equality import ALL_REQUESTS, EVERY_REPORT, NOW, count_values, differences
from turnlog.errors import NotFound, TurnlogError, UsageError
from turnlog.index.database import open_index
from turnlog.index.ingest.sync import sync
from turnlog.index.reports.reports import Report, ReportRequest, run_report
from turnlog.lake import duckdb_engine, lake_tables
from turnlog.lake.lake_compaction import CompactOptions, compact
from turnlog.lake.lake_names import LakeNames, NameFilter
from turnlog.lake.lake_parts import encode_part
from turnlog.lake.lake_reports import LakeSource, lake_report, lake_report_batch, opened_lake
from turnlog.lake.lake_schema import CONSENTS, pyarrow
from turnlog.lake.teams import parse_teams
from turnlog.store.paths import Store

FORK = "5e551011-0000-4000-8000-00000000000f"
EVERYTHING = frozenset(CONSENTS)
NewMachine = Callable[..., PushingMachine]


@pytest.fixture(autouse=True)
def _zone(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A time zone with quarters of an hour and daylight saving time."""
    monkeypatch.setenv("TZ", "Pacific/Chatham")
    tzset()
    yield
    monkeypatch.undo()
    tzset()


@pytest.fixture
def machine(tmp_path: Path, dest: str) -> NewMachine:
    def create(name: str, **settings: Any) -> PushingMachine:
        return PushingMachine(tmp_path / name, dest, consents=EVERYTHING, **settings)

    return create


def keep() -> NameFilter:
    return NameFilter(LakeNames(KEY, None, None, EVERYTHING))


def index_reports(path: Path, stores: list[Store], requests: list[ReportRequest]) -> list[Report]:
    """Compute reports with one index over several stores."""
    with open_index(path) as index:
        sync(index, tuple(stores))
        return [
            run_report(index.db, each.name, each.filters, by=each.by, now=NOW) for each in requests
        ]


def add_files(machine: PushingMachine, files: list[Path]) -> None:
    for number, path in enumerate(files):
        folder = machine.store.projects / f"-home-ada-{number % 5}"
        folder.mkdir(exist_ok=True)
        shutil.copy(path, folder / path.name)


def test_every_column_of_every_report_equals_the_index(
    machine: NewMachine, dest: str, tmp_path: Path
) -> None:
    files = session_files()
    ada, bob = machine("ada"), machine("bob")
    add_files(ada, files[::2] + files[:9])
    add_files(bob, files[1::2] + files[5:12])
    ada.push()
    bob.push()
    expected = index_reports(tmp_path / "both.db", [ada.store, bob.store], ALL_REQUESTS)
    assert count_values(expected) > 4000
    found = lake_report_batch(LakeSource(dest), ALL_REQUESTS, NOW)
    assert differences(expected, found, keep()) == []
    compact(dest, CompactOptions(grace=0))
    found = lake_report_batch(LakeSource(dest), EVERY_REPORT, NOW)
    assert differences(expected[: len(found)], found, keep()) == []


def test_copies_on_two_machines_count_once_with_the_largest_figures(
    machine: NewMachine, dest: str, tmp_path: Path
) -> None:
    def lines(output: int, *, cached: int) -> bytes:
        usage = {"input_tokens": 5, "output_tokens": output, "cache_creation_input_tokens": cached}
        message = {"model": "claude-opus-5", "usage": usage}
        return session(user("Fix it"), assistant(text("so"), message_id="msg_1", message=message))

    ada, bob = machine("ada"), machine("bob")
    ada.write(lines(7, cached=1000))
    ada.write(lines(40, cached=0), FORK)
    bob.write(lines(9, cached=2000))
    ada.push()
    bob.push()
    (row,) = lake_report(LakeSource(dest), ReportRequest("model")).rows
    assert (row["turns"], row["output"], row["cache_write_5m"], row["input"]) == (1, 40, 2000, 5)
    assert row["cost_usd"] == pytest.approx((5 * 5 + 40 * 25 + 2000 * 6.25) / 1e6, abs=1e-12)
    expected = index_reports(tmp_path / "both.db", [ada.store, bob.store], EVERY_REPORT)
    assert (
        differences(expected, lake_report_batch(LakeSource(dest), EVERY_REPORT, NOW), keep()) == []
    )


SPLIT = {"ephemeral_5m_input_tokens": 300, "ephemeral_1h_input_tokens": 20}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({}, {}, (0, 0)),
        ({"cache_creation": SPLIT}, {"cache_creation_input_tokens": 100}, (300, 20)),
        ({"cache_creation": SPLIT}, {"cache_creation_input_tokens": 400}, (380, 20)),
    ],
)
def test_copies_that_split_their_cache_complete_those_that_do_not(
    machine: NewMachine, dest: str, one: Fields, other: Fields, expected: tuple[int, int]
) -> None:
    for name, cached in (("ada", one), ("bob", other)):
        message = {"model": "claude-opus-5", "usage": {"input_tokens": 5, **cached}}
        answer = assistant(text("so"), message_id="msg_1", message=message)
        pushing = machine(name)
        pushing.write(session(user("Fix it"), answer))
        pushing.push()
    (row,) = lake_report(LakeSource(dest), ReportRequest("model")).rows
    assert (row["cache_write_5m"], row["cache_write_1h"]) == expected


def test_reports_without_consent_have_the_same_figures(
    machine: NewMachine, dest: str, tmp_path: Path
) -> None:
    ada = machine("ada")
    add_files(ada, session_files()[:20])
    with_names = index_reports(tmp_path / "ada.db", [ada.store], EVERY_REPORT)
    ada.push(replace(ada.settings, consents=frozenset()))
    found = lake_report_batch(LakeSource(dest), EVERY_REPORT, NOW)
    for one, other in zip(with_names, found, strict=True):
        assert len(one.rows) == len(other.rows), one.name
        for name, value in one.total.items():
            assert other.total[name] == pytest.approx(value), (one.name, name)


def test_edited_and_deleted_sessions_are_not_reported(machine: NewMachine, dest: str) -> None:
    ada = machine("ada")
    ada.write(session(user("One"), assistant(text("so"), message_id="msg_1")))
    ada.write(session(user("Two"), assistant(text("so"), message_id="msg_2")), FORK)
    ada.push()
    ada.write(session(user("Other"), assistant(text("so"), message_id="msg_3")))
    ada.path(FORK).unlink()
    ada.push()
    (row,) = lake_report(LakeSource(dest), ReportRequest("project")).rows
    assert (row["turns"], row["sessions"]) == (1, 1)


def test_group_by_user_machine_and_team(machine: NewMachine, dest: str) -> None:
    for number, name in enumerate(("ada", "bob", "eve")):
        prompt = user(f"Hi {name}", uuid=f"prompt-{number}")
        lines = session(prompt, assistant(text("so"), message_id=f"msg_{number}"))
        each = machine(name)
        each.write(lines, SESSION[:-1] + str(number))
        each.push()
    Path(dest, "teams.toml").write_text('[teams]\nshop = ["ada", "bob"]\n')
    source = LakeSource(dest)
    rows = lake_report(source, ReportRequest("model", by=("user", "team"))).rows
    assert {(row["user"], row["team"]) for row in rows} == {
        ("ada", "shop"),
        ("bob", "shop"),
        ("eve", None),
    }
    teams = lake_report(source, ReportRequest("monthly", by=("team",))).rows
    assert {row["team"]: row["turns"] for row in teams} == {"shop": 2, None: 1}
    machines = lake_report(source, ReportRequest("project", by=("machine",))).rows
    assert {str(row["machine"])[:11] for row in machines} == {
        f"host-of-{n}" for n in ("ada", "bob", "eve")
    }


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('[teams]\na = ["ada"]\nb = ["ada"]', "ada is in a and in b"),
        ('a = ["ada"]', r"has no table \[teams\]"),
        ("[teams]\na = 1", "a is not a list of users"),
        ("[teams", "teams.toml: "),
    ],
)
def test_teams_that_would_count_twice_or_are_no_teams(content: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse_teams(content.encode(), "teams.toml")


def test_damaged_and_missing_parts_are_named(machine: NewMachine, dest: str) -> None:
    ada = machine("ada")
    ada.write(
        session(user("One"), assistant(text("so"), call("Bash", {}, "toolu_1")), result("toolu_1"))
    )
    ada.push()
    (part,) = Path(dest).glob("v1/messages/*/*/*.parquet")
    content = part.read_bytes()
    part.write_bytes(content[:100])
    with pytest.raises(TurnlogError, match=r"part-\w+\.parquet cannot be read"):
        lake_report(LakeSource(dest), ReportRequest("model"))
    part.unlink()
    with pytest.raises(TurnlogError, match=r"part-\w+\.parquet is gone"):
        lake_report(LakeSource(dest), ReportRequest("model"))


def test_another_file_in_the_place_of_a_part_is_named(machine: NewMachine, dest: str) -> None:
    ada = machine("ada")
    ada.write(session(user("One"), assistant(text("so"), message_id="msg_1")))
    ada.push()
    (old,) = Path(dest).glob("v1/messages/*/*/*.parquet")
    content = old.read_bytes()
    ada.write(session(user("Two"), assistant(text("so"), message_id="msg_2")))
    ada.push()
    (new,) = set(Path(dest).glob("v1/messages/*/*/*.parquet")) - {old}
    lake_report(LakeSource(dest), ReportRequest("model"))
    # Engines read both without an error, and find no live row in them.
    pyarrow("parquet").write_table(pyarrow().table({"machine": ["x"]}), new)
    with pytest.raises(TurnlogError, match=r"part-\w+\.parquet is not a part of the lake"):
        lake_report(LakeSource(dest), ReportRequest("model"))
    new.write_bytes(content)
    with pytest.raises(
        TurnlogError, match=r"part-\w+\.parquet does not match the hash in its name"
    ):
        lake_report(LakeSource(dest), ReportRequest("model"))


def test_fewer_rows_than_were_committed_are_an_error(machine: NewMachine, dest: str) -> None:
    ada = machine("ada")
    ada.write(session(user("One"), assistant(text("so"), message_id="msg_1")))
    ada.push()
    (units,) = Path(dest).glob("v1/units/*/*.parquet")
    rows = pyarrow("parquet").read_table(pyarrow().BufferReader(units.read_bytes()))
    more = pyarrow("compute").add(rows["rows"], 1)
    place = rows.schema.get_field_index("rows")
    content = encode_part(rows.set_column(place, "rows", more))
    units.unlink()
    units.with_name(f"part-{sha256(content).hexdigest()}.parquet").write_bytes(content)
    with pytest.raises(TurnlogError, match="has 1 of 2 rows of messages"):
        lake_report(LakeSource(dest), ReportRequest("model"))


def test_large_lakes_are_read_as_a_stream(
    machine: NewMachine, dest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_tables, "MOST_MATERIALIZED", 0)
    ada = machine("ada")
    ada.write(session(user("One"), assistant(text("so"), message_id="msg_1")))
    ada.push()
    with opened_lake(LakeSource(dest)) as tables:
        for table in ("messages", "calls", "prompts"):
            query = f"SELECT max(line) FROM {table}"
            tables.run(query, {})
            (plan,) = tables.run(f"EXPLAIN {query}", {})[1]
            # A join that keeps all rows of one side, to compute the other one for each of them.
            assert "delim" not in str(plan).lower()


def test_lack_of_space_is_not_blamed_on_the_lake(
    machine: NewMachine, dest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = machine("ada")
    ada.write(session(user("One"), assistant(text("so"), message_id="msg_1")))
    ada.push()
    monkeypatch.setattr(duckdb_engine, "MEMORY", "100kB")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(TurnlogError) as raised:
        lake_report(LakeSource(dest), ReportRequest("model"))
    reason = f"a report on {dest} needs more space than {tmp_path} has (try: df -h {tmp_path})"
    assert raised.value.line == reason


def test_what_a_lake_cannot_report(dest: str) -> None:
    with pytest.raises(NotFound, match="there is no lake"):
        lake_report(LakeSource(dest), ReportRequest("model"))
    with pytest.raises(UsageError, match="need the session files"):
        lake_report(LakeSource(dest), ReportRequest("carrying"))
    with pytest.raises(UsageError, match="no report nonsense"):
        lake_report(LakeSource(dest), ReportRequest("nonsense"))
