"""Overview, cost, tools and files: the values of pages equal those of the command line."""

import json
import os
import re
import shlex
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

import turnlog
from support.build import SESSION, assistant, call, result, session, user
from turnlog.cli.main import run
from turnlog.errors import NotFound, UsageError
from turnlog.index.reports.session_list import ListFilters
from turnlog.index.service import describe_sessions, match_sessions, report
from turnlog.render.charts.report_charts import MOST_BARS, QUANTILES
from turnlog.store.paths import Store
from turnlog.web.cost_page import VIEWS, cost_csv, cost_page
from turnlog.web.files_page import file_page, files_csv, files_page
from turnlog.web.library import Library
from turnlog.web.overview_page import overview_page
from turnlog.web.pages import render
from turnlog.web.report_data import csv_of
from turnlog.web.tools_page import tools_csv, tools_page

SAMPLES = Store(Path(turnlog.__file__).with_name("samples"))
OTHER = "00000002-0000-4000-8000-000000000000"
SECRET = "sk-ant-api03-" + "a1B2" * 20
HOSTILE = f'/home/ada/<script>alert(1)</script>"{SECRET}\u202e\x1b'
Page = Callable[[Sequence[Store], dict[str, str]], dict[str, Any]]
PAGES: dict[str, Page] = {
    "overview.html": overview_page,
    "cost.html": cost_page,
    "tools.html": tools_page,
    "files.html": files_page,
}


@pytest.fixture(autouse=True)
def _own_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "turnlog"))


@pytest.fixture
def hostile(store: Store) -> Store:
    """A store in which every name is an attack."""
    lines = [
        user(HOSTILE, cwd=HOSTILE, git_branch=HOSTILE),
        assistant(
            call(HOSTILE, {"command": HOSTILE}, "A"),
            call("Read", {"file_path": HOSTILE}, "B"),
            call("Read", {"file_path": HOSTILE}, "C"),
            message_id="m1",
            message={"model": HOSTILE, "usage": {"output_tokens": 9}},
            cwd=HOSTILE,
            git_branch=HOSTILE,
        ),
        result("A", HOSTILE, is_error=True),
        result("B"),
        result("C"),
    ]
    folder = store.projects / "-home-ada"
    folder.mkdir()
    (folder / f"{SESSION}.jsonl").write_bytes(session(*lines))
    return store


def marks(svg: str, *names: str) -> dict[tuple[str | None, ...], float | None]:
    found: dict[tuple[str | None, ...], float | None] = {}
    for each in ET.fromstring(svg).iter():
        if "data-value" in each.attrib:
            value = each.get("data-value")
            found[tuple(each.get(f"data-{name}") for name in names)] = (
                float(value) if value else None
            )
    return found


def commands_in(html: str) -> set[str]:
    found = re.findall(r'<p class="command"><code>(.*?)</code>', html)
    return {each.replace("&#39;", "'").replace("&#34;", '"') for each in found}


@pytest.mark.parametrize("by", VIEWS)
def test_the_cost_chart_shows_the_report(by: str) -> None:
    page = cost_page([SAMPLES], {"by": by, "split": "none"})
    rows = report(SAMPLES, VIEWS[by].report).rows
    known = [float(str(row["cost_usd"])) for row in rows]
    costs = sorted(cost for cost in known if cost or not VIEWS[by].unit)
    assert sorted(value or 0 for value in marks(page["chart"], "key").values()) == costs
    assert len(page["table"]["rows"]) == len(rows)


def test_a_ranked_chart_shows_the_largest_of_its_figure(store: Store) -> None:
    folder = store.projects / "-home-ada"
    folder.mkdir()
    for n in range(MOST_BARS + 5):
        # The more tokens, the cheaper: sorted by cost, the largest would be left out.
        usage = {
            "input_tokens": 0,
            "output_tokens": 500 - 9 * n,
            "cache_read_input_tokens": 100 * n,
        }
        used = {"model": "claude-opus-5", "usage": usage}
        name = f"{n:08d}-0000-4000-8000-000000000000"
        lines = session(user("go"), assistant(message_id=f"m{n}", message=used), session_id=name)
        (folder / f"{name}.jsonl").write_bytes(lines)
    page = cost_page([store], {"by": "session", "figure": "tokens"})
    rows = report(store, "session").rows
    shown = [*marks(page["chart"], "key").values()]
    assert shown == sorted((float(str(row["tokens"])) for row in rows), reverse=True)[:MOST_BARS]


def test_costs_are_stacked_by_model() -> None:
    page = cost_page([SAMPLES], {"by": "day", "split": "model"})
    rows = report(SAMPLES, "daily", by=("model",)).rows
    expected = {(row["day"], row["model"] or "none"): row["cost_usd"] for row in rows}
    found = marks(page["chart"], "key", "series")
    assert found == {key: value for key, value in expected.items() if value}


def test_the_tools_page_shows_the_reports() -> None:
    page = tools_page([SAMPLES], {})
    tools = {(row["name"],): row["calls"] for row in report(SAMPLES, "tool").rows}
    assert marks(page["chart"], "key") == tools
    latency = {
        (row["name"], name): row[name]
        for row in report(SAMPLES, "latency").rows
        for name in QUANTILES
    }
    assert marks(page["latency"], "key", "quantile") == latency


def test_the_files_page_shows_the_reports() -> None:
    changed, read, again = files_page([SAMPLES], {})["charts"]
    rows = report(SAMPLES, "file").rows
    for chart, column in ((changed, "changes"), (read, "reads")):
        expected = {(row["path"],): row[column] for row in rows if row[column]}
        assert marks(chart["chart"], "key") == expected
    reread = {(r["path"],): r["rereads"] for r in report(SAMPLES, "rereads").rows if r["rereads"]}
    assert marks(again["chart"], "key") == reread


def test_the_overview_shows_the_reports() -> None:
    page = overview_page([SAMPLES], {"figure": "tokens"})
    days = {(row["day"],): row["tokens"] for row in report(SAMPLES, "daily").rows}
    found = {key: value for key, value in marks(page["calendar"], "key").items() if value}
    assert found == days
    hours = {
        (f"{row['weekday']} {row['hour']}",): row["tokens"]
        for row in report(SAMPLES, "hour").rows
        if row["tokens"]
    }
    week = {key: value for key, value in marks(page["week_map"], "key").items() if value}
    assert week == hours


def test_one_file_across_all_sessions() -> None:
    row = report(SAMPLES, "file").rows[0]
    page = file_page([SAMPLES], {"path": str(row["path"])})
    assert (page["changes"], page["reads"]) == (row["changes"], row["reads"])
    assert (page["added"], page["removed"]) == (row["added"], row["removed"])
    assert sum(value or 0 for value in marks(page["chart"], "key", "series").values()) == len(
        page["calls"]
    )


def test_a_file_that_no_call_touched_is_not_found(store: Store) -> None:
    secret = store.root / "secret.txt"
    secret.write_text("inside")
    for path in (str(secret), "../secret.txt", "/etc/passwd"):
        with pytest.raises(NotFound, match="no call read or changed"):
            file_page([store], {"path": path})


@pytest.mark.parametrize("template", PAGES)
def test_every_command_on_a_page_works(
    template: str,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    params = {"since": "2026-01-01", "project": "ada", "plan": "100"}
    html = render(template, "", **PAGES[template]([SAMPLES], params))
    commands = commands_in(html)
    assert commands
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "turnlog"
        assert run(["--samples", *arguments]) == 0, command
    capfd.readouterr()


def test_the_command_for_one_file_works(capfd: pytest.CaptureFixture[str]) -> None:
    rows = report(SAMPLES, "file").rows
    changed = next(row for row in rows if row["changes"])
    page = file_page([SAMPLES], {"path": str(changed["path"])})
    assert page["command"].startswith("turnlog history-of ")
    assert run(["--samples", *shlex.split(page["command"])[1:], "--json"]) == 0
    assert capfd.readouterr().out
    read = next(row for row in rows if row["reads"] and not row["changes"])
    page = file_page([SAMPLES], {"path": str(read["path"])})
    assert run(["--samples", *shlex.split(page["command"])[1:], "--json"]) == 0
    assert len(json.loads(capfd.readouterr().out)) == len(page["calls"])


@pytest.mark.parametrize("template", PAGES)
def test_no_name_becomes_markup_and_no_secret_is_shown(hostile: Store, template: str) -> None:
    html = render(template, "", **PAGES[template]([hostile], {}))
    assert "<script>alert" not in html
    assert SECRET not in html
    assert "\u202e" not in html
    assert "\x1b" not in html
    for svg in re.findall(r"<svg xmlns.*?</svg></figure>", html):
        ET.fromstring(svg.removesuffix("</figure>"))


def test_tables_are_csv(hostile: Store) -> None:
    for text, columns in (
        (cost_csv([SAMPLES], {"by": "model"}), report(SAMPLES, "model").columns),
        (tools_csv([SAMPLES], {}), report(SAMPLES, "tool").columns),
        (files_csv([SAMPLES], {}), report(SAMPLES, "file").columns),
    ):
        assert text.splitlines()[0] == ",".join(columns)
    assert SECRET not in tools_csv([hostile], {}) + cost_csv([hostile], {"by": "project"})


def test_no_cell_of_a_csv_is_a_formula() -> None:
    told = report(SAMPLES, "project")
    row = told.rows[0] | {"project": "=HYPERLINK(1)"}
    assert csv_of(told._replace(rows=[row])).splitlines()[1].startswith("'=HYPERLINK(1),")


@pytest.mark.parametrize(
    ("page", "params"),
    [
        (cost_page, {"by": "colour"}),
        (cost_page, {"since": "soon"}),
        (cost_page, {"plan": "-1"}),
        (cost_page, {"plan": "nan"}),
        (cost_page, {"plan": "free"}),
        (overview_page, {"figure": "x"}),
        (tools_page, {"order": "name"}),
        (files_page, {"until": "x"}),
    ],
)
def test_a_parameter_that_makes_no_sense_is_refused(page: Page, params: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        page([SAMPLES], params)


def test_a_plan_is_compared_with_list_prices() -> None:
    plan = cost_page([SAMPLES], {"plan": "0.1"})["plan"]
    months = report(SAMPLES, "monthly").rows
    assert [row["month"] for row in plan["rows"]] == [row["month"] for row in months][::-1]
    newest = months[-1]["cost_usd"]
    assert isinstance(newest, float)
    assert plan["rows"][0]["share"] == f"{newest / 0.1:.1f}×"


def test_rows_of_two_stores_are_added_up(store: Store) -> None:
    folder = store.projects / "-home-ada"
    folder.mkdir()
    usage = {"model": "claude-opus-5", "usage": {"output_tokens": 1000}}
    lines = [user("hi"), assistant(call("Bash", {}, "A"), message_id="m1", message=usage)]
    (folder / f"{OTHER}.jsonl").write_bytes(session(*lines, session_id=OTHER))
    both = [SAMPLES, store]
    calls = {key: value for (key,), value in marks(tools_page(both, {})["chart"], "key").items()}
    alone = {row["name"]: row["calls"] for row in report(SAMPLES, "tool").rows}
    assert calls == alone | {"Bash": alone["Bash"] + 1}  # pyright: ignore[reportOperatorIssue]
    models = cost_page(both, {"by": "model", "figure": "tokens"})
    tokens = {key: value for (key,), value in marks(models["chart"], "key").items()}
    before = {row["model"]: row["tokens"] for row in report(SAMPLES, "model").rows}
    assert tokens["claude-opus-5"] == before["claude-opus-5"] + 1000  # pyright: ignore[reportOperatorIssue]
    stores = cost_page(both, {"by": "store", "figure": "tokens"})
    tokens = {key: value for (key,), value in marks(stores["chart"], "key").items()}
    assert tokens == {
        str(SAMPLES.root): report(SAMPLES, "store").total["tokens"],
        str(store.root): 1000,
    }
    assert [row["link"] for row in stores["table"]["rows"]] == [None, None]


def test_costs_are_grouped_by_store_if_there_are_several(store: Store) -> None:
    for stores, expected in ([SAMPLES], False), ([SAMPLES, store], True):
        values = cost_page(stores, {})
        for choices in (values["views"], values["splits"]):
            assert ("store" in [name for name, _, _ in choices]) is expected


def test_sessions_are_filtered_by_the_hours_of_the_week() -> None:
    for row in report(SAMPLES, "hour").rows:
        if not row["sessions"]:
            continue
        weekday, hour = row["weekday"], row["hour"]
        assert isinstance(weekday, int)
        assert isinstance(hour, int)
        found = match_sessions(SAMPLES, ListFilters(hours=(weekday * 24 + hour,)))
        assert len(found.rows) == row["sessions"]


def test_sessions_about_to_be_deleted_are_listed_with_the_command(store: Store) -> None:
    folder = store.projects / "-home-ada"
    folder.mkdir()
    path = folder / f"{SESSION}.jsonl"
    path.write_bytes(session(user("hi"), assistant(message_id="m1")))
    os.utime(path, (1.7e9, 1.7e9))
    (notice,) = overview_page([store], {})["attention"]
    assert notice["command"] == "turnlog archive"
    assert notice["link"] == f"/sessions/{SESSION}"
    assert notice["message"] == "the client deletes it at its next start"
    used = time.time() - 27 * 86400  # it keeps sessions for 30 days
    os.utime(path, (used, used))
    (notice,) = overview_page([store], {})["attention"]
    assert notice["message"] == "the client deletes it in 3 days"
    (path.parent.parent.parent / "settings.json").write_text('{"cleanupPeriodDays": 99999}')
    assert overview_page([store], {})["attention"] == []


def test_sessions_that_would_not_resume_are_listed_with_the_command(store: Store) -> None:
    folder = store.projects / "-home-ada"
    folder.mkdir()
    path = folder / f"{SESSION}.jsonl"
    broken = session(user("hi"), assistant(message_id="m1")) + b'{"type": "user", "uu\n'
    path.write_bytes(broken)
    found = overview_page([store], {})["attention"]
    listed = list(describe_sessions(store, [1]).values())
    commands = [each["command"] for each in found]
    assert commands == ([f"turnlog check {SESSION[:8]}"] if listed[0].finding else [])
    assert commands


def test_what_needs_attention_is_found_in_its_own_store(store: Store, tmp_path: Path) -> None:
    stores = [store, Store(tmp_path / "other store")]
    broken = session(user("hi"), assistant(message_id="m1")) + b'{"type": "user", "uu\n'
    paths = [each.projects / "-home-ada" / f"{SESSION}.jsonl" for each in stores]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.write_bytes(broken)
    values = overview_page(stores, {})
    found = {each["command"]: each["link"] for each in values["attention"]}
    assert found.keys() == {
        f"turnlog check {SESSION[:8]} --store {shlex.quote(str(each.root))}" for each in stores
    }
    library = Library(stores)
    for links in (found.values(), [row["link"] for row in values["sessions"]]):
        keys = [unquote(link.removeprefix("/sessions/")) for link in links]
        assert {library.find(key).path for key in keys} == set(paths)
    for path in paths:
        path.write_bytes(session(user("hi"), assistant(message_id="m1")))
        os.utime(path, (1.7e9, 1.7e9))
    commands = {each["command"] for each in overview_page(stores, {})["attention"]}
    assert commands == {f"turnlog archive --store {shlex.quote(str(each.root))}" for each in stores}


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_wrong_clocks_do_not_break_pages(
    store: Store, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    stamps = ("0001-01-01T00:00:00Z", "0002-01-01T00:00:00Z", "9998-12-31T23:59:59Z")
    for n, stamp in enumerate((*stamps, "9999-12-31T23:59:59Z")):
        use = assistant(call("Read", {"file_path": "/x.py"}, f"t{n}"), timestamp=stamp)
        lines = session(user("hi", timestamp=stamp), use, result(f"t{n}", timestamp=stamp))
        path = store.projects / "-clocks" / f"{n:08d}-0000-4000-8000-000000000000.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lines.replace(b"00000000-0000-4000", f"{n:08d}-0000-4001".encode()))
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert file_page([store], {"path": "/x.py"})["reads"] == 4
        for page in (cost_page, files_page, tools_page):
            assert page([store], {"until": "9999-12-31"})
    finally:
        monkeypatch.undo()
        time.tzset()
