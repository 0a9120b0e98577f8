"""stats and sql: these files, this command, this output."""

import csv
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import tzset
from typing import Any

import pytest
from rich.cells import cell_len

from cli.conftest import Run
from support.build import SESSION, START, assistant, call, line, result, session, stamp, text, user
from turnlog.cli.charts import week_map
from turnlog.cli.tables import Column, draw_table
from turnlog.index.database import open_index
from turnlog.index.reports.reports import REPORTS, run_report
from turnlog.index.reports.user_sql import tables_of

DOCS = Path(__file__).parent.parent.parent / "docs"
OTHER = "00000002-0000-4000-8000-000000000000"
SECRET = "tr0ub4dor&3"
OPUS = "claude-opus-5"


@pytest.fixture(autouse=True)
def _utc(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    tzset()
    yield
    monkeypatch.undo()
    tzset()


def said(message_id: str, at: datetime, model: str = OPUS, **usage: int) -> bytes:
    counts = {f"{name}_tokens": value for name, value in usage.items()}
    body = {"model": model, "usage": counts}
    return assistant(text("so"), message_id=message_id, message=body, timestamp=stamp(at))


def write_days(project: Path) -> None:
    """Two days of work, on the first by a sub-agent and by a model without a price as well."""
    next_day = START + timedelta(days=1)
    lines = [
        user("Fix the total", timestamp=stamp(START)),
        said("m1", START + timedelta(seconds=90), input=2_000, output=40_000),
        assistant(
            call("Bash", {"command": f"login --password={SECRET}"}, "A"),
            message_id="m1",
            message={"model": OPUS},
            timestamp=stamp(START + timedelta(seconds=91)),
        ),
        result(
            "A",
            f"password = '{SECRET}'",
            is_error=True,
            timestamp=stamp(START + timedelta(seconds=95)),
        ),
        said("m3", START + timedelta(seconds=100), "no-such-1", output=5),
        user("More", timestamp=stamp(next_day)),
        said("m4", next_day, input=100_000, output=4_000),
        line("custom-title", custom_title="日本語の題名がここにとても長く書いてあるので切られます"),
    ]
    (project / f"{SESSION}.jsonl").write_bytes(session(*lines))
    agent = project / SESSION / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    worker = session(said("a1", START, output=20_000), agent_id="a1")
    agent.write_bytes(worker.replace(b"2.1.325", b"2.1.29"))


NOTES = [
    "└ sub-agents; the other figures include them",
    "* excludes models without a known price: no-such-1",
    "† too low: clients up to 2.1.56 recorded too little output (1 of the messages)",
]


def test_stats_prints_a_row_for_each_day_with_marks_bars_and_a_total(
    project: Path, turnlog: Run
) -> None:
    write_days(project)
    outcome = turnlog("stats")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines() == [
        "day         sess  turns  input  output  write  read     cost  └ agents",
        "2026-11-15     1      1   2.0k     60k      0     0  $1.51*†     $0.50  ████████",
        "2026-11-16     1      1   100k    4.0k      0     0  $0.60       $0.00  ███▏",
        "total          1      2   102k     64k      0     0  $2.11*†     $0.50",
        *NOTES,
    ]


def test_stats_uses_the_room_of_a_wide_terminal(
    project: Path, turnlog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_days(project)
    monkeypatch.setenv("COLUMNS", "120")
    lines = turnlog("stats", "daily").out.splitlines()
    assert lines[0].split() == (
        "day sess turns calls input output write read cost └ agents time +lines -lines".split()
    )
    assert lines[1].split()[-5:-1] == ["$0.50", "2m", "0", "0"]


def test_stats_cuts_wide_characters_to_cells(project: Path, turnlog: Run) -> None:
    write_days(project)
    lines = turnlog("stats", "session").out.splitlines()
    assert lines[:3] == [
        "session   title                           turns  tokens     cost  └ agents  time",
        "5e551011  日本語の題名がここにとても長 …      2    166k  $2.11*†     $0.50    2m",
        "total                                         2    166k  $2.11*†     $0.50    2m",
    ]
    assert cell_len(lines[1]) == 80


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_every_report_is_printed_and_no_row_is_wider_than_the_terminal(
    project: Path, turnlog: Run, monkeypatch: pytest.MonkeyPatch, name: str, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    outcome = turnlog("--samples", "stats", name)
    assert (outcome.code, outcome.err) == (0, "")
    assert max(map(cell_len, outcome.out.splitlines())) <= int(columns)


def test_stats_draws_the_hours_of_the_week(project: Path, turnlog: Run) -> None:
    write_days(project)
    lines = turnlog("stats", "hour").out.splitlines()
    assert lines == [
        "turns by hour of the week, at most 1 in an hour",
        "     00    03    06    09    12    15    18    21",
        "Mon  ············██··································      1",
        *(f"{day}  {'··' * 24}      0" for day in ("Tue", "Wed", "Thu", "Fri", "Sat")),
        "Sun  ············██··································      1",
        "                 ██",
    ]
    drawn = turnlog("stats", "hour", "--order", "cost_usd").out.splitlines()
    assert drawn[2] == "Mon  ············▒▒··································      1"
    assert drawn[-2:] == NOTES[1:]


def test_stats_draws_no_hour_of_turns_without_a_time(project: Path, turnlog: Run) -> None:
    write_days(project)
    drawn = turnlog("stats", "hour").out
    timeless = json.loads(user("When?")) | {"uuid": OTHER, "timestamp": None}
    (project / f"{OTHER}.jsonl").write_text(json.dumps(timeless) + "\n")
    assert None in [
        row["hour"] for row in json.loads(turnlog("stats", "hour", "--json").out)["rows"]
    ]
    assert turnlog("stats", "hour").out == drawn


@pytest.mark.parametrize(
    ("columns", "cells"), [(20, 1), (63, 1), (64, 2), (111, 3), (112, 4), (200, 4)]
)
def test_an_hour_of_the_week_is_as_wide_as_the_terminal_allows(
    project: Path, turnlog: Run, monkeypatch: pytest.MonkeyPatch, columns: int, cells: int
) -> None:
    write_days(project)
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = turnlog("stats", "hour").out.splitlines()
    assert f"Tue  {'·' * 24 * cells}      0" in lines


def test_stats_shows_the_costs_of_all_days_above_the_last_ones(project: Path, turnlog: Run) -> None:
    days = [said(f"m{n}", START + timedelta(days=n), output=40_000 * n) for n in (*range(9), 10)]
    (project / f"{SESSION}.jsonl").write_bytes(session(*days))
    outcome = turnlog("stats", "--limit", "2")
    assert outcome.out.splitlines() == [
        "cost by day, at most $10.00   ▁▂▃▄▄▅▆▇ █",
        "day         sess  turns  input  output  write  read    cost  └ agents",
        "2026-11-23     1      0      0    320k      0     0   $8.00     $0.00  ███████▎",
        "2026-11-25     1      0      0    400k      0     0  $10.00     $0.00  █████████",
        "total          1      0      0    1.8M      0     0  $46.00     $0.00",
        NOTES[0],
    ]
    assert outcome.err == "2 of 10 rows; --limit 0 shows all\n"
    assert len(turnlog("stats", "--limit", "0").out.splitlines()) == 14


def test_stats_tells_of_the_active_block(project: Path, turnlog: Run) -> None:
    now = datetime.now(UTC)
    first = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    message = said("m1", first, output=1_000)
    (project / f"{SESSION}.jsonl").write_bytes(session(message))
    outlook = turnlog("stats", "blocks").out.splitlines()[-1]
    ends = (first + timedelta(hours=5)).strftime("%H:%M")
    assert re.fullmatch(
        rf"● active, \d\S* left until {ends}; at this rate \S+ tokens, \$\S+", outlook
    )


def test_stats_masks_secrets_unless_told_otherwise(project: Path, turnlog: Run) -> None:
    write_days(project)
    assert turnlog("stats", "errors").out.splitlines()[:2] == [
        "tool   command  calls  errors  rate  last error",
        "Bash   login        1       1  100%  password = '[password:882a2a]'",
    ]
    for form in ((), ("--json",), ("--csv",)):
        assert SECRET not in turnlog("stats", "errors", *form).out
        assert SECRET in turnlog("stats", "errors", "--reveal", *form).out


def test_stats_prints_json_with_rows_and_a_total(project: Path, turnlog: Run) -> None:
    write_days(project)
    told = json.loads(turnlog("stats", "daily", "--until", "2026-11-15", "--json").out)
    assert list(told) == ["report", "rows", "total", "unpriced_models"]
    (row,) = told["rows"]
    assert (row["day"], row["seconds"], row["errors"]) == ("2026-11-15", 100, 1)
    assert told["total"]["cost_usd"] == pytest.approx((2_000 * 5 + 60_000 * 25) / 1e6)
    assert told["unpriced_models"] == ["no-such-1"]


def test_stats_prints_csv(project: Path, turnlog: Run) -> None:
    write_days(project)
    rows = list(csv.DictReader(turnlog("stats", "--csv").out.splitlines()))
    assert [(row["day"], row["turns"], row["output"]) for row in rows] == [
        ("2026-11-15", "1", "60005"),
        ("2026-11-16", "1", "4000"),
    ]


def test_stats_sorts_by_a_column(project: Path, turnlog: Run) -> None:
    write_days(project)

    def days(*arguments: str) -> list[str]:
        told = json.loads(turnlog("stats", *arguments, "--json").out)
        return [row["day"] for row in told["rows"]]

    assert days("--order", "input") == ["2026-11-16", "2026-11-15"]
    assert days("--order", "output", "--limit", "1") == ["2026-11-15"]
    outcome = turnlog("stats", "--order", "beauty")
    assert outcome.code == 2
    assert outcome.err.startswith("turnlog: no column beauty: daily has day, sessions, turns,")


def test_filters_that_leave_nothing_are_not_a_store_without_sessions(
    project: Path, turnlog: Run
) -> None:
    write_days(project)
    outcome = turnlog("stats", "weekly", "--since", "2030-01-01")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.endswith(" with these options (try: turnlog stats weekly)\n")


def test_stats_of_nothing(turnlog: Run) -> None:
    outcome = turnlog("stats")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("turnlog: nothing to report in ")
    assert json.loads(turnlog("stats", "--json").out)["rows"] == []
    assert turnlog("stats", "yearly").code == 2


def test_stats_follow_the_files(project: Path, turnlog: Run) -> None:
    write_days(project)
    assert "102k" in turnlog("stats").out
    with (project / f"{SESSION}.jsonl").open("ab") as file:
        file.write(session(said("m9", START + timedelta(days=2), input=1_000_000)))
    assert "1.1M" in turnlog("stats").out
    (project / f"{SESSION}.jsonl").unlink()
    assert turnlog("stats").out.splitlines()[-3].split()[:4] == ["total", "1", "0", "0"]


def test_sql_prints_a_table_json_or_csv(project: Path, turnlog: Run) -> None:
    write_days(project)
    query = "SELECT model, sum(output) AS output, NULL AS unknown FROM work GROUP BY model"
    assert turnlog("sql", query).out.splitlines() == [
        "model          output  unknown",
        "claude-opus-5   64000",
        "no-such-1           5",
    ]
    assert json.loads(turnlog("sql", query, "--json").out)[1] == {
        "model": "no-such-1",
        "output": 5,
        "unknown": None,
    }
    assert turnlog("sql", query, "--csv").out.splitlines()[0] == "model,output,unknown"


def test_sql_has_views_of_sessions_turns_and_projects(project: Path, turnlog: Run) -> None:
    write_days(project)
    figures = "turns, messages, tokens, round(cost, 4) AS cost, calls, errors"

    def rows(query: str) -> list[dict[str, object]]:
        return json.loads(turnlog("sql", query, "--json").out)

    total = json.loads(turnlog("stats", "session", "--json").out)["total"]
    shown = {"id": SESSION, "project": "/home/ada/shop", "subagents": 1}
    same = {"turns": 2, "messages": 4, "tokens": 166_005, "calls": 1, "errors": 1}
    assert (total["turns"], total["tokens"]) == (same["turns"], same["tokens"])
    costs = {"cost": round(total["cost_usd"], 4)}
    [one] = rows(f"SELECT id, project, subagents, {figures} FROM sessions")
    assert one == shown | same | costs
    [whole] = rows("SELECT project, sessions, turns, tokens, calls FROM projects")
    assert whole == {k: one[k] for k in whole if k != "sessions"} | {"sessions": 1}
    turns = rows("SELECT session, prompt, tokens, calls FROM turns ORDER BY at")
    assert turns == [
        {"session": SESSION, "prompt": "Fix the total", "tokens": 42_005, "calls": 1},
        {"session": SESSION, "prompt": "More", "tokens": 104_000, "calls": 0},
    ]
    assert rows("SELECT session FROM subagents") == [{"session": SESSION}]


def test_sql_masks_secrets_unless_told_otherwise(project: Path, turnlog: Run) -> None:
    write_days(project)
    for form in ((), ("--json",), ("--csv",)):
        query = ("sql", "SELECT error FROM calls", *form)
        assert SECRET not in turnlog(*query).out
        assert SECRET in turnlog(*query, "--reveal").out


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("DELETE FROM calls", "the index is read-only"),
        ("CREATE TEMP TABLE x (y)", "the index is read-only"),
        ("ATTACH 'other.db' AS other", "the index is read-only"),
        ("VACUUM INTO 'other.db'", "the index is read-only"),
        ("PRAGMA query_only = 0", "the statement returns no rows"),
        ("SELECT beauty FROM calls", "no such column: beauty"),
        ("SELECT 1; SELECT 2", "You can only execute one statement at a time."),
        ("SELEC 1", 'near "SELEC": syntax error'),
        ("SELECT '\0'", "the query contains a null character"),
    ],
)
def test_sql_refuses_in_one_line(
    project: Path, turnlog: Run, monkeypatch: pytest.MonkeyPatch, statement: str, reason: str
) -> None:
    write_days(project)
    monkeypatch.chdir(project)
    outcome = turnlog("sql", statement)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"turnlog: {reason} (try: turnlog sql --tables)\n"
    assert turnlog("sql", "SELECT count(*) FROM calls").out.splitlines()[1].strip() == "1"
    assert list(project.glob("*.db")) == []


def test_sql_wants_a_statement_or_lists_the_tables(turnlog: Run) -> None:
    assert turnlog("sql").code == 2
    tables = json.loads(turnlog("sql", "--tables", "--json").out)
    assert {"name": "pulls", "columns": ["file", "line", "number", "url", "repository"]} in tables
    assert "pulls  file, line, number, url, repository" in turnlog("sql", "--tables").out


def test_texts_are_cut_before_numbers_and_paths_keep_their_end() -> None:
    columns = [
        Column("text", ["a" * 30]),
        Column("path", ["/home/ada/" + "b" * 20 + "/日本.py"], is_path=True),
        Column("n", ["123456789012"], is_number=True),
    ]
    head, row = draw_table(columns, 40)
    assert row == "aaaaaaaaaaa…  …bbb/日本.py  123456789012"
    assert cell_len(head) == cell_len(row) == 40


def test_a_map_of_the_week_is_as_dark_as_its_values_are_large() -> None:
    grid = [[0.0] * 24 for _ in range(7)]
    grid[0][:6] = [0, 1, 25, 50, 75, 100]
    assert week_map(grid, 1)[1] == "Mon  ·░░▒▓█" + "·" * 18


# The documents


def sections() -> dict[str, str]:
    parts = re.split(r"^### (.+)$", (DOCS / "index.md").read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_table_and_column_of_the_index_is_described(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    with open_index(path):
        tables = tables_of(path)
    described = sections()
    assert len(tables) == 19
    for table in tables:
        named = set(re.findall(r"`(\w+)`", described[table.name]))
        assert set(table.columns) - named == set(), table.name


def test_the_examples_give_what_the_documents_show(
    turnlog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = (DOCS / "index.md").read_text("utf-8")
    examples = re.findall(r"```sql\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    assert len(examples) == 5
    for query, shown in examples:
        assert turnlog("--samples", "sql", query).out == shown


def test_every_column_of_every_report_is_described(tmp_path: Path) -> None:
    told = (DOCS / "json.md").read_text("utf-8").partition("## stats")[2]
    with open_index(tmp_path / "index.db") as index:
        columns: dict[str, Any] = {name: run_report(index.db, name).columns for name in REPORTS}
    for name, names in columns.items():
        assert [each for each in names if f"`{each}`" not in told] == [], name


def test_months_are_compared_with_a_plan(project: Path, turnlog: Run) -> None:
    write_days(project)
    told = json.loads(turnlog("stats", "monthly", "--plan", "2", "--json").out)
    (row,) = told["rows"]
    assert row["plan_usd"] == 2
    assert row["plan_share"] == pytest.approx(row["cost_usd"] / 2)
    assert told["total"]["plan_share"] == row["plan_share"]
    lines = turnlog("stats", "monthly", "--plan", "2").out.splitlines()
    assert lines[-1] == "$2.11 at list prices, $2.00 for the subscription: 1.1 times as much"


def test_models_of_a_grouped_report_are_named_without_what_they_share(
    project: Path, turnlog: Run
) -> None:
    names = ["claude-sonnet-4-5", "claude-sonnet-4-6", ""]
    lines = [said(f"m{n}", START, name, output=9) for n, name in enumerate(names)]
    (project / f"{SESSION}.jsonl").write_bytes(session(user("hi", timestamp=stamp(START)), *lines))
    rows = turnlog("stats", "monthly", "--by", "model").out.splitlines()
    found = {row.split()[1] for row in rows if row.startswith("2026")}
    assert found == {"sonnet-4-5", "sonnet-4-6", "(none)"}
    (total,) = [row for row in rows if row.startswith("total")]
    assert "(none)" not in total


@pytest.mark.parametrize("options", [["daily"], ["monthly", "--by", "project"], ["tool"]])
def test_only_months_are_compared_with_a_plan(
    project: Path, turnlog: Run, options: list[str]
) -> None:
    write_days(project)
    outcome = turnlog("stats", *options, "--plan", "100")
    assert outcome.code == 2
    assert "turnlog stats monthly --plan 100" in outcome.err


def test_bars_show_the_figure_that_rows_are_ordered_by(project: Path, turnlog: Run) -> None:
    lines = [user("go")]
    for n in range(8):
        tool = "Bash" if n < 6 else "Grep"
        lines += [assistant(call(tool, {}, f"c{n}"), message_id=f"m{n}")]
        lines += [result(f"c{n}", "x", is_error=n == 6)]
    (project / f"{SESSION}.jsonl").write_bytes(session(*lines))

    def bars(*options: str) -> dict[str, int]:
        rows = turnlog("stats", "tool", *options).out.splitlines()
        return {row.split()[0]: row.count("█") for row in rows if row.startswith(("Bash", "Grep"))}

    by_calls, by_rate = bars(), bars("--order", "error_rate")
    assert by_calls["Bash"] > by_calls["Grep"] > 0
    assert (by_rate["Bash"], by_rate["Grep"]) == (0, by_calls["Bash"])
    # A column without numbers cannot be drawn.
    assert bars("--order", "name") == by_calls


def test_files_read_again_are_re_reads_in_prose(project: Path, turnlog: Run) -> None:
    lines = [user("go")]
    for n in range(2):
        given = {"file_path": "/home/ada/a.py"}
        lines += [assistant(call("Read", given, f"c{n}"), message_id=f"m{n}"), result(f"c{n}")]
    (project / f"{SESSION}.jsonl").write_bytes(session(*lines))
    assert "re-reads" in turnlog("stats", "rereads").out
    drawn = turnlog("stats", "rereads", "--format", "svg").out
    assert "Re-reads by file" in drawn
    assert "Rereads" not in drawn
