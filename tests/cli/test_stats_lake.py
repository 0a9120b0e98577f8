"""turnlog stats --lake: reports on all machines."""

import json
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import assistant, session, text, user
from support.lake_machines import PushingMachine


@pytest.fixture
def dest(tmp_path: Path) -> str:
    dest = str(tmp_path / "lake")
    for number, name in enumerate(("ada", "bob", "eve")):
        machine = PushingMachine(tmp_path / name, dest)
        prompt = user(f"Hi {name}", uuid=f"prompt-{number}")
        lines = session(prompt, assistant(text("so"), message_id=f"msg_{number}"))
        machine.write(lines, f"5e551011-0000-4000-8000-00000000000{number}")
        machine.push()
    return dest


def test_reports_group_by_user_and_team(turnlog: Run, dest: str, tmp_path: Path) -> None:
    teams = tmp_path / "teams.toml"
    teams.write_text('[teams]\nshop = ["ada", "bob"]\n')
    done = turnlog(
        "stats", "model", "--lake", dest, "--by", "user,team", "--teams", str(teams), "--json"
    )
    rows = json.loads(done.out)["rows"]
    assert {(row["user"], row["team"], row["turns"]) for row in rows} == {
        ("ada", "shop", 1),
        ("bob", "shop", 1),
        ("eve", None, 1),
    }
    table = turnlog("stats", "monthly", "--lake", dest, "--by", "user").out
    assert "eve" in table


def test_k_leaves_out_small_groups(turnlog: Run, dest: str) -> None:
    shown = turnlog("stats", "project", "--lake", dest, "--k", "3").out
    assert "shop" in shown
    done = turnlog("stats", "project", "--lake", dest, "--k", "4")
    assert done.code == 1
    assert "has no such group of 4 people or more" in done.err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--k", "5"], "--k is for reports on a lake (try: turnlog stats --lake DEST --k 5)"),
        (["--engine", "spark"], "--engine is for reports on a lake"),
        (["--lake", "LAKE", "--k", "1"], "1 is not in the range"),
        (
            ["session", "--lake", "LAKE", "--k", "5"],
            "with --k, choose from monthly, project, model",
        ),
        (["carrying", "--lake", "LAKE"], "carrying costs need the session files"),
        (["--lake", "LAKE", "--by", "shoe"], "cannot group by shoe"),
    ],
)
def test_what_cannot_be_reported(
    turnlog: Run, dest: str, arguments: list[str], reason: str
) -> None:
    chosen = [dest if each == "LAKE" else each for each in arguments]
    done = turnlog("stats", *chosen)
    assert done.code == 2
    assert reason in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "arguments", [["--store", "old", "stats", "--lake"], ["stats", "--store", "old", "--lake"]]
)
def test_a_lake_and_a_store(
    turnlog: Run,
    dest: str,
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "old" / "projects").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    done = turnlog(*arguments, dest)
    assert (done.code, done.out) == (2, "")
    reason = "--store cannot be combined with --lake"
    assert done.err == f"turnlog: {reason} (try: turnlog stats --lake {dest})\n"


def test_a_place_without_a_lake(turnlog: Run, tmp_path: Path) -> None:
    done = turnlog("stats", "--lake", str(tmp_path / "none"))
    assert done.code == 1
    assert "there is no lake in" in done.err


def test_spark_that_is_not_installed(turnlog: Run, dest: str) -> None:
    done = turnlog("stats", "--lake", dest, "--engine", "spark")
    assert done.code == 1
    assert "Spark is not installed (try: pip install 'pyspark[sql]>=4')" in done.err
