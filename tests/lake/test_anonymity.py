"""--k: no report shows fewer than k people, and neither does the difference of two reports."""

import itertools
from pathlib import Path
from random import Random
from time import tzset
from typing import Any

import pytest

from support.build import assistant, session, text, user
from support.lake_machines import KEY, PushingMachine, live_rows
from turnlog.errors import UsageError
from turnlog.index.reports.reports import Filters, ReportRequest
from turnlog.lake.anonymity import CELL, OTHER, Cell, build_cells
from turnlog.lake.lake_reports import LakeSource, lake_report
from turnlog.lake.lake_settings import LakeSettings
from turnlog.lake.lake_status import pull
from turnlog.lake.raw_ingest import ingest_raw

PEOPLE = [f"p{number}" for number in range(12)]


def random_groups(seed: int) -> list[tuple[Any, ...]]:
    random = Random(seed)
    return [
        (person, random.choice(["a", "b", None]), f"2026-0{random.randint(1, 3)}", project, model)
        for person in PEOPLE
        for project in random.sample(["shop", "blog", "game", "tool"], random.randint(1, 3))
        for model in random.sample(["opus", "haiku", "sonnet"], random.randint(1, 2))
    ]


def members(cell: Cell) -> frozenset[Any]:
    return frozenset(cell.members)


@pytest.mark.parametrize("seed", range(30))
def test_cells_have_k_people_and_are_unions_of_smaller_cells(seed: int) -> None:
    rows = random_groups(seed)
    people: dict[Any, set[str]] = {}
    for person, *labels in rows:
        people.setdefault(tuple(labels), set()).add(person)
    smaller = [Cell(each, frozenset(found), (each,)) for each, found in people.items()]
    for k in range(2, 9):
        cells = build_cells(rows, k)
        for cell in cells:
            inside = set[str]().union(*(people[each] for each in cell.members))
            assert len(inside) >= k
            assert inside == cell.people
        listed = [each for cell in cells for each in cell.members]
        assert len(listed) == len(set(listed))
        for cell in cells:
            parts = [each for each in smaller if members(each) & members(cell)]
            assert frozenset().union(*map(members, parts)) == members(cell)
        smaller = cells


def test_few_people_are_merged_and_a_single_one_is_left_out() -> None:
    rows = [(f"p{n}", None, "2026-01", "shop", "opus") for n in range(5)]
    rows += [("p0", None, "2026-01", "secret", "opus")]
    assert [cell.labels for cell in build_cells(rows, 5)] == [(None, "2026-01", "shop", "opus")]
    rows += [(f"p{n}", None, "2026-01", f"own-{n}", "opus") for n in range(1, 5)]
    labels = [cell.labels for cell in build_cells(rows, 5)]
    assert sorted(str(each[2]) for each in labels) == [OTHER, "shop"]


@pytest.fixture
def dest(tmp_path: Path) -> str:
    """A lake of six people: one works alone on `secret`, one late on the last day of a month."""
    dest = str(tmp_path / "lake")
    number = itertools.count()
    for person in range(6):
        machine = PushingMachine(tmp_path / f"p{person}", dest)

        def add(project: str, moment: str, machine: PushingMachine = machine) -> None:
            n = next(number)
            fields: Any = {"cwd": f"/home/{project}", "timestamp": moment}
            lines = session(
                user(f"prompt {n}", uuid=f"prompt-{n}", **fields),
                assistant(text("so"), message_id=f"msg_{n}", **fields),
            )
            machine.write(lines, f"5e551011-0000-4000-8000-{n:012}")

        add("shop", "2026-01-10T10:00:00.000Z")
        add("shop", "2026-02-10T10:00:00.000Z")
        if person == 0:
            add("secret", "2026-01-11T10:00:00.000Z")
        if person == 1:
            add("shop", "2026-01-31T23:30:00.000Z")
        machine.push()
    return dest


def figures(dest: str, k: int = 5, **options: Any) -> dict[Any, Any]:
    name = options.pop("name", "project")
    by = options.pop("by", ())
    found = lake_report(LakeSource(dest, k=k), ReportRequest(name, Filters(**options), by))
    keys = [column for column in found.columns if column in CELL]
    rows = {tuple(row[key] for key in keys): row["turns"] for row in found.rows}
    return rows | {"total": found.total["turns"]}


def test_total_minus_rows_shows_nobody(dest: str) -> None:
    assert figures(dest) == {("shop",): 13, "total": 13}
    assert figures(dest, name="monthly") == {("2026-01",): 7, ("2026-02",): 6, "total": 13}
    assert figures(dest, name="model")["total"] == 13
    everything = lake_report(LakeSource(dest), ReportRequest("project"))
    assert everything.total["turns"] == 14  # without --k


def test_filters_select_whole_cells(dest: str) -> None:
    # 23:30 on the last day of January: one person's message must not be cut off by a moment.
    january = {figures(dest, until=until)["total"] for until in (1769900000.0, 1769905000.0)}
    assert january == {7}
    assert figures(dest, project="secret")["total"] == 0
    assert figures(dest, project="hop")["total"] == 13


def test_time_zone_does_not_move_anyone_to_another_month(
    dest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = figures(dest, name="monthly")
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        tzset()
        assert figures(dest, name="monthly") == before
    tzset()


@pytest.mark.parametrize("name", ["session", "daily", "tool", "blocks", "calls", "hour"])
def test_reports_on_single_people_are_refused(dest: str, name: str) -> None:
    with pytest.raises(UsageError, match="single people"):
        lake_report(LakeSource(dest, k=5), ReportRequest(name))


@pytest.mark.parametrize("by", ["user", "machine", "session", "day", "branch", "hour"])
def test_groups_of_single_people_are_refused(dest: str, by: str) -> None:
    with pytest.raises(UsageError, match=f"cannot group by {by} with --k"):
        lake_report(LakeSource(dest, k=5), ReportRequest("project", by=(by,)))


def test_other_teams_cannot_cut_cells_differently(dest: str) -> None:
    with pytest.raises(UsageError, match="teams are those of the lake"):
        lake_report(LakeSource(dest, k=5, teams={"p0": "one"}), ReportRequest("project"))
    Path(dest, "teams.toml").write_text('[teams]\none = ["p0"]\n')
    # The others are too few for a team of their own, so both are shown as one.
    assert figures(dest, by=("team",), k=6)["total"] in (0, 13)


def test_copy_of_a_lake_has_its_teams(dest: str, tmp_path: Path) -> None:
    copy, teams = str(tmp_path / "copy"), Path(dest, "teams.toml")
    # With other teams, the copy would show six people, the lake five, and the difference one.
    teams.write_text('[teams]\none = ["p0", "p1", "p2", "p3", "p4"]\nrest = ["p5"]\n')
    pull(dest, copy)
    assert figures(copy) == figures(dest) == {("shop",): 11, "total": 11}
    teams.unlink()
    pull(dest, copy)
    assert figures(copy) == figures(dest) == {("shop",): 13, "total": 13}


def test_machines_without_a_user_are_one_person(tmp_path: Path) -> None:
    raw, dest = tmp_path / "raw", str(tmp_path / "lake")
    for number in range(5):
        prompt, answer = user(f"prompt {number}"), assistant(text("so"), message_id=f"msg_{number}")
        name, path = f"5e551011-0000-4000-8000-{number:012}", raw / f"{number}.jsonl"
        raw.mkdir(exist_ok=True)
        path.write_bytes(session(prompt, answer, session_id=name))
        # Each archive is a machine of its own, because its key is.
        key = tmp_path / f"key-{number}"
        key.write_bytes(KEY + bytes([number]))
        ingest_raw(str(raw), dest, LakeSettings(key=key))
        path.unlink()
    assert len({row["machine"] for row in live_rows(dest, "sessions")}) == 5
    assert figures(dest)["total"] == 0


def test_larger_k_shows_no_more(dest: str) -> None:
    assert figures(dest, k=6)[("shop",)] == 13
    assert figures(dest, k=7) == {"total": 0}
