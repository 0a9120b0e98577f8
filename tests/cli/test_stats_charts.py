"""The values of charts, read back from the SVG, equal the rows of `stats --json`."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from support.build import SESSION, assistant, call, result, session, text, user
from turnlog.index.reports.reports import REPORTS
from turnlog.render.charts.report_charts import CACHE_KINDS, FIGURES, MOST_BARS, QUANTILES

CHARTS = Path(__file__).parents[2] / "docs" / "charts.md"
SVG = "{http://www.w3.org/2000/svg}"
PERIODS = {"daily": "day", "weekly": "week", "monthly": "month"}
Rows = list[dict[str, Any]]


def drawn(turnlog: Run, *arguments: str) -> ET.Element:
    outcome = turnlog("--samples", "stats", *arguments, "--format", "svg")
    assert (outcome.code, outcome.err) == (0, "")
    return ET.fromstring(outcome.out)


def reported(turnlog: Run, *arguments: str) -> Rows:
    return json.loads(turnlog("--samples", "stats", *arguments, "--json").out)["rows"]


def values(root: ET.Element, *names: str) -> dict[tuple[str | None, ...], float | None]:
    found: dict[tuple[str | None, ...], float | None] = {}
    for each in root.iter():
        if "data-value" in each.attrib:
            value = each.get("data-value")
            found[tuple(each.get(f"data-{name}") for name in names)] = (
                float(value) if value else None
            )
    return found


@pytest.mark.parametrize("by", [None, "model", "project", "branch"])
@pytest.mark.parametrize("name", PERIODS)
@pytest.mark.parametrize("figure", ["cost_usd", "tokens", "agent_cost_usd"])
def test_bars_over_time(turnlog: Run, name: str, by: str | None, figure: str) -> None:
    options = [name, *(["--by", by] if by else [])]
    rows = reported(turnlog, *options)
    expected = {
        (row[PERIODS[name]], (row[by] or "none") if by else ""): row[figure]
        for row in rows
        if row[figure] != 0
    }
    root = drawn(turnlog, *options, "--order", figure)
    assert values(root, "key", "series") == expected


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("session", ["session"]),
        ("project", ["project"]),
        ("store", ["store"]),
        ("model", ["model"]),
        ("tool", ["name"]),
        ("file", ["path"]),
        ("branch", ["project", "branch"]),
        ("errors", ["tool", "command"]),
        ("rereads", ["path"]),
    ],
)
def test_ranked_bars(turnlog: Run, name: str, keys: list[str]) -> None:
    figure = FIGURES.get(name, "cost_usd")
    expected = {
        (" · ".join(str(row[key] or "none") for key in keys),): row[figure]
        for row in reported(turnlog, name)
    }
    assert expected
    assert values(drawn(turnlog, name), "key") == expected


def test_blocks(turnlog: Run) -> None:
    rows = reported(turnlog, "blocks")
    expected = {(row["started"],): row["cost_usd"] for row in rows}
    assert values(drawn(turnlog, "blocks"), "key") == expected


@pytest.mark.parametrize("figure", ["turns", "cost_usd"])
def test_hours_of_the_week(turnlog: Run, figure: str) -> None:
    rows = reported(turnlog, "hour")
    expected = {(f"{row['weekday']} {row['hour']}",): row[figure] for row in rows if row[figure]}
    found = values(drawn(turnlog, "hour", "--order", figure), "key")
    assert len(found) == 7 * 24
    assert {key: value for key, value in found.items() if value} == expected


def test_quantiles_of_durations(turnlog: Run) -> None:
    expected = {
        (row["name"], quantile): row[quantile]
        for row in reported(turnlog, "latency")
        for quantile in QUANTILES
    }
    assert values(drawn(turnlog, "latency"), "key", "quantile") == expected


def test_use_of_the_cache(turnlog: Run) -> None:
    expected = {
        (row["day"], name): row[kind]
        for row in reported(turnlog, "cache")
        for kind, name in CACHE_KINDS.items()
        if row[kind]
    }
    assert values(drawn(turnlog, "cache"), "key", "series") == expected


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_can_be_drawn(turnlog: Run, name: str) -> None:
    root = drawn(turnlog, name)
    assert root.get("data-chart")
    assert (root.findtext(f"{SVG}title") or "").count(" by ") == 1


@pytest.mark.parametrize("by", [None, "project", "file,tool"])
def test_carrying_costs(turnlog: Run, by: str | None) -> None:
    options = ["carrying", *(["--by", by] if by else [])]
    names = (by or "tool").split(",")
    rows = reported(turnlog, *options)[:MOST_BARS]
    expected = [
        (" · ".join(str(row[name] or "none") for name in names), row["cost_usd"]) for row in rows
    ]
    root = drawn(turnlog, *options)
    marks = [each for each in root.iter() if "data-value" in each.attrib]
    found = [(each.get("data-key"), float(each.get("data-value") or 0)) for each in marks]
    assert found == expected


def test_the_pictures_in_the_documents_are_current(turnlog: Run, tmp_path: Path) -> None:
    commands = re.findall(
        r"^turnlog (.*) -o docs/(.*\.svg)$", CHARTS.read_text("utf-8"), re.MULTILINE
    )
    assert len(commands) >= 4
    for arguments, name in commands:
        path = tmp_path / name
        assert turnlog(*arguments.split(), "-o", str(path)).code == 0
        assert path.read_text("utf-8") == CHARTS.with_name(name).read_text("utf-8"), name


def test_a_chart_is_written_to_a_file(turnlog: Run, tmp_path: Path) -> None:
    path = tmp_path / "cost.svg"
    assert turnlog("--samples", "stats", "--format", "svg", "-o", str(path)).out == ""
    assert ET.parse(path).getroot().tag == f"{SVG}svg"


def test_a_column_that_is_no_number_cannot_be_drawn(turnlog: Run) -> None:
    outcome = turnlog("--samples", "stats", "session", "--order", "title", "--format", "svg")
    assert outcome.code == 2
    assert "title is not a number" in outcome.err


def test_nothing_to_draw_is_an_error(turnlog: Run) -> None:
    outcome = turnlog("stats", "--format", "svg")
    assert (outcome.code, outcome.out) == (1, "")


def test_secrets_and_hostile_names_are_masked_and_escaped(project: Path, turnlog: Run) -> None:
    secret = "sk-ant-api03-" + "a1B2" * 20
    hostile = f"/home/ada/<script>{secret}\u202e"
    lines = [
        user("hi", cwd=hostile),
        assistant(
            call(f"<b>{secret}</b>", {"file_path": hostile}, "A"),
            message_id="m1",
            message={"model": "claude-opus-5", "usage": {"output_tokens": 10}},
            cwd=hostile,
        ),
        result("A", "no", is_error=True),
        assistant(text("so"), message_id="m2"),
    ]
    (project / f"{SESSION}.jsonl").write_bytes(session(*lines))
    for name in ("project", "tool", "errors"):
        out = turnlog("stats", name, "--format", "svg").out
        ET.fromstring(out)
        assert secret not in out
        assert "<script>" not in out
        assert "<b>" not in out
        assert "\u202e" not in out
