"""cost --carrying and stats carrying: these files, this command, this output."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cli.conftest import Run
from support.build import SESSION, START, assistant, call, result, session, stamp, text, user
from turnlog.render.carrying_view import CarryingRow, CarryingView

ID = SESSION[:8]
OPUS = "claude-opus-5"
SECRET = "tr0ub4dor&3"
FILE = "/home/ada/shop/dist/app.js"


def said(message_id: str, *blocks: dict[str, Any], **usage: int) -> bytes:
    counts = {f"{name}_tokens": value for name, value in usage.items()}
    return assistant(*blocks, message_id=message_id, message={"model": OPUS, "usage": counts})


def talk(prompt: str = "Fix the total", m: str = "m") -> list[bytes]:
    return [
        user(prompt),
        said(f"{m}1", call("Read", {"file_path": FILE}, "A"), input=20_000, output=40),
        result("A", "x" * 41_000),
        said(f"{m}2", text("Now."), cache_read_input=20_000, cache_creation_input=12_000),
        user("Go on"),
        said(f"{m}3", text("Done."), cache_read_input=32_000, input=50, output=5),
    ]


def write(project: Path, *lines: bytes, name: str = SESSION) -> None:
    content = session(*lines).replace(SESSION.encode(), name.encode())
    (project / f"{name}.jsonl").write_bytes(content)


def rows_of(out: str) -> list[str]:
    return [" ".join(row.split()) for row in out.splitlines()]


def test_cost_prints_what_each_call_cost(
    project: Path, turnlog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    write(project, *talk())
    outcome = turnlog("cost", ID, "--carrying", "-n", "2")
    assert outcome.code == 0
    assert rows_of(outcome.out) == [
        "size call sent carried output cost turn turn cost",
        "system prompt and tool definitions 3 $0.1202 $0.1202",
        "41.0 kB Read dist/app.js 2 $0.0810 $0.0010 $0.0820 1 $0.08",
        "total $0.2024",
        "Estimated: 3 requests, distributed by the size of what they sent.",
    ]
    assert outcome.err == "2 of 6 rows; --limit 0 shows all\n"
    assert turnlog("cost", ID, "--carrying", "-n", "6").err == ""


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("tool", {"Read", "prompts", "answers"}),
        ("file", {FILE, "no file"}),
        ("turn", {"1 Fix the total", "2 Go on"}),
    ],
)
def test_cost_is_grouped(project: Path, turnlog: Run, by: str, names: set[str]) -> None:
    write(project, *talk())
    view = json.loads(turnlog("cost", ID, "--carrying", "--by", by, "--json").out)
    assert {row["name"] for row in view["rows"]} == names | {"system prompt and tool definitions"}
    assert sum(row["cost_usd"] for row in view["rows"]) == pytest.approx(view["cost_usd"], abs=1e-9)


def test_the_json_adds_up_to_the_cost_and_fits_its_schema(project: Path, turnlog: Run) -> None:
    write(project, *talk())
    out = turnlog("cost", ID, "--carrying", "--json").out
    view = msgspec.json.decode(out, type=CarryingView)
    whole = json.loads(turnlog("cost", ID, "--json").out)
    assert view.cost_usd == pytest.approx(whole["cost_usd"], abs=1e-9)
    read = next(row for row in view.rows if row.tool == "Read")
    assert (read.file, read.line, read.turn, read.sent, read.bytes) == (FILE, 2, 1, 2, 41_042)
    assert read.turn_cost_usd == pytest.approx(
        sum(row.cost_usd for row in view.rows if row.turn == 1)
    )
    schema = json.loads(turnlog("schema", "carrying").out)
    assert list(schema["$defs"]["CarryingRow"]["properties"]) == list(CarryingRow.__struct_fields__)
    assert view.estimated


def test_options_of_carrying_costs_need_the_switch(project: Path, turnlog: Run) -> None:
    write(project, *talk())
    outcome = turnlog("cost", ID, "--by", "tool")
    assert outcome.code == 2
    assert outcome.err == (
        f"turnlog: --by and --limit need --carrying (try: turnlog cost {ID} --carrying)\n"
    )


def test_secrets_are_masked(project: Path, turnlog: Run) -> None:
    write(project, *talk(f"password = '{SECRET}'"))
    for extra in ([], ["--json"], ["--by", "turn"], ["--by", "turn", "--json"]):
        assert SECRET not in turnlog("cost", ID, "--carrying", "-n", "0", *extra).out
    assert SECRET in turnlog("cost", ID, "--carrying", "--by", "turn", "--reveal").out


def stats(turnlog: Run, *options: str) -> dict[str, Any]:
    return json.loads(turnlog("stats", "carrying", "--json", *options).out)


def test_stats_adds_up_all_sessions(project: Path, turnlog: Run) -> None:
    write(project, *talk())
    write(project, *talk(m="n"), name="00000002-0000-4000-8000-000000000000")
    told = stats(turnlog)
    assert [(row["tool"], row["sessions"]) for row in told["rows"]] == [
        ("system prompt and tool definitions", 2),
        ("Read", 2),
        ("answers", 2),
        ("prompts", 2),
    ]
    whole = json.loads(turnlog("stats", "session", "--json").out)["total"]
    assert told["total"]["cost_usd"] == pytest.approx(whole["cost_usd"], abs=1e-9)


def test_a_message_of_two_sessions_counts_once(project: Path, turnlog: Run) -> None:
    write(project, *talk())
    write(project, *talk(), name="00000002-0000-4000-8000-000000000000")
    whole = json.loads(turnlog("stats", "project", "--json").out)["total"]
    assert stats(turnlog)["total"]["cost_usd"] == pytest.approx(whole["cost_usd"], abs=1e-9)


@pytest.mark.parametrize(
    ("by", "columns"),
    [
        ("project", ["project", "sessions"]),
        ("file", ["file", "sessions"]),
        ("project,tool", ["project", "tool", "sessions"]),
        ("session", ["session", "title", "project"]),
    ],
)
def test_stats_are_grouped(project: Path, turnlog: Run, by: str, columns: list[str]) -> None:
    write(project, *talk())
    told = stats(turnlog, "--by", by)
    assert list(told["rows"][0])[: len(columns)] == columns
    costs = [row["cost_usd"] for row in told["rows"]]
    assert costs == sorted(costs, reverse=True)
    table = turnlog("stats", "carrying", "--by", by).out.splitlines()
    assert table[-1] == (
        "Estimated: the cost of each request, distributed by the size of what it sent."
    )
    assert turnlog("stats", "carrying", "--by", by, "--csv").out.startswith(",".join(columns))


def test_a_long_path_keeps_its_end(
    project: Path, turnlog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    write(project, *(line.replace(FILE.encode(), b"/srv" * 20 + b"/total.py") for line in talk()))
    table = turnlog("stats", "carrying", "--by", "file").out
    assert re.search(r"^…\S*/total\.py ", table, re.MULTILINE), table


def test_a_grown_session_is_computed_again(project: Path, turnlog: Run) -> None:
    write(project, *talk()[:4])
    before = stats(turnlog)["total"]
    assert stats(turnlog)["total"] == before
    write(project, *talk())
    assert stats(turnlog)["total"]["cost_usd"] > before["cost_usd"]


def test_a_period_selects_what_came_up_in_it(project: Path, turnlog: Run) -> None:
    late = stamp(START + timedelta(days=3))
    lines = talk()
    write(project, *lines[:4], user("Go on", timestamp=late), lines[5])
    told = stats(turnlog, "--since", "2026-11-17")
    assert {row["tool"] for row in told["rows"]} == {
        "prompts",
        "answers",
        "system prompt and tool definitions",
    }
    assert "Read" in {row["tool"] for row in stats(turnlog, "--until", "2026-11-17")["rows"]}
    assert stats(turnlog, "--project", "blog")["rows"] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "opus"), "carrying costs cannot be filtered by model"),
        (("--by", "model"), "cannot group carrying costs by model"),
    ],
)
def test_what_carrying_costs_do_not_have_is_refused(
    project: Path, turnlog: Run, options: tuple[str, str], message: str
) -> None:
    write(project, *talk())
    outcome = turnlog("stats", "carrying", *options)
    assert outcome.code == 2
    assert message in outcome.err
