"""Reports against figures worked out by hand, and against a second count."""

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import tzset
from typing import Any

import pytest

from data.files import session_files
from support.build import START, assistant, call, line, result, session, stamp, text, user
from support.recount import recount
from turnlog.errors import UsageError
from turnlog.index.command_names import program
from turnlog.index.database import open_index
from turnlog.index.ingest.sync import sync
from turnlog.index.reports.report_cache import cached_report
from turnlog.index.reports.reports import (
    REPORTS,
    Filters,
    Report,
    Row,
    compare_with_plan,
    run_report,
)
from turnlog.store.paths import Store

ONE, TWO, THREE = (f"0000000{n}-0000-4000-8000-000000000000" for n in (1, 2, 3))
OPUS = "claude-opus-5"
"""Per million tokens: input 5, output 25, cache writes 6.25 and 10, cache reads 0.5 dollars."""
Telling = Callable[..., Report]


@pytest.fixture(autouse=True)
def _zone(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TZ", "UTC")
    tzset()
    yield
    monkeypatch.undo()
    tzset()


@pytest.fixture
def folder(store: Store) -> Path:
    """The folder of a project."""
    folder = store.projects / "-home-ada-shop"
    folder.mkdir()
    return folder


@pytest.fixture
def told(store: Store, tmp_path: Path) -> Telling:
    """A report on the store as it is."""

    def tell(
        name: str, now: float | None = None, by: tuple[str, ...] = (), **filters: Any
    ) -> Report:
        with open_index(tmp_path / "index.db") as index:
            sync(index, store)
            return run_report(index.db, name, Filters(**filters), by=by, now=now)

    return tell


def said(message_id: str, model: str = OPUS, at: datetime | None = None, **usage: Any) -> bytes:
    """A line of a message; usage by the names of the API, the commonest shortened."""
    names = {"input": "input_tokens", "output": "output_tokens", "read": "cache_read_input_tokens"}
    counts = {names.get(name, name): value for name, value in usage.items()}
    body = {"model": model, "usage": counts}
    return assistant(text("so"), message_id=message_id, message=body, **at_time(at))


def asked(prompt: str, at: datetime | None = None, **fields: Any) -> bytes:
    """A prompt."""
    return user(prompt, **at_time(at), **fields)


def at_time(at: datetime | None) -> dict[str, str]:
    return {"timestamp": stamp(at)} if at else {}


def only(report: Report, *names: str) -> Row:
    """The named figures of the only row."""
    (row,) = report.rows
    return {name: row[name] for name in names}


# What others get wrong


def test_of_the_lines_of_a_message_the_largest_counts_are_taken_once(
    folder: Path, told: Telling
) -> None:
    lines = [
        user("hi"),
        said("msg_1", input=100, output=1, read=1000),
        result("toolu_9"),
        said("msg_1", input=100, output=1, read=1000),
        said("msg_1", input=100, output=250, read=1000),
    ]
    (folder / f"{ONE}.jsonl").write_bytes(session(*lines, session_id=ONE))
    assert only(told("daily"), "day", "input", "output", "cache_read", "tokens", "cost_usd") == {
        "day": "2026-11-15",
        "input": 100,
        "output": 250,
        "cache_read": 1000,
        "tokens": 1350,
        "cost_usd": pytest.approx((100 * 5 + 250 * 25 + 1000 * 0.5) / 1e6),
    }


def test_cache_writes_for_an_hour_have_their_own_price(folder: Path, told: Telling) -> None:
    split = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 600}
    lines = [
        said("msg_1", cache_creation_input_tokens=1000, cache_creation=split),
        said("msg_2", cache_creation_input_tokens=1000),
    ]
    (folder / f"{ONE}.jsonl").write_bytes(session(*lines, session_id=ONE))
    assert only(told("daily"), "cache_write_5m", "cache_write_1h", "cost_usd") == {
        "cache_write_5m": 1400,
        "cache_write_1h": 600,
        "cost_usd": pytest.approx((1400 * 6.25 + 600 * 10) / 1e6),
    }


def test_what_the_client_wrote_itself_is_no_message(folder: Path, told: Telling) -> None:
    failed = {"model": OPUS, "usage": {"output_tokens": 7}}
    lines = [
        user("hi"),
        said("msg_1", output=3),
        said("synthetic", "<synthetic>", output=5),
        assistant(text("API Error"), message_id="e", message=failed, is_api_error_message=True),
    ]
    (folder / f"{ONE}.jsonl").write_bytes(session(*lines, session_id=ONE))
    assert only(told("model"), "model", "output") == {"model": OPUS, "output": 3}


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(f"{ONE}/subagents/agent-a1.jsonl", id="2.1"),
        pytest.param(f"{ONE}/subagents/workflows/wf_1/agent-a1.jsonl", id="of a workflow"),
        pytest.param("agent-a1.jsonl", id="2.0, beside the session"),
    ],
)
def test_subagents_in_files_of_their_own_are_counted_and_told_apart(
    folder: Path, told: Telling, place: str
) -> None:
    main = session(user("hi"), said("msg_1", output=100), session_id=ONE)
    agent = session(user("look"), said("msg_2", output=900), session_id=ONE, agent_id="a1")
    (folder / f"{ONE}.jsonl").write_bytes(main)
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    (folder / place).write_bytes(agent)
    assert only(
        told("daily"), "sessions", "turns", "tokens", "cost_usd", "agent_tokens", "agent_cost_usd"
    ) == {
        "sessions": 1,
        "turns": 1,
        "tokens": 1000,
        "cost_usd": pytest.approx(1000 * 25 / 1e6),
        "agent_tokens": 900,
        "agent_cost_usd": pytest.approx(900 * 25 / 1e6),
    }


def test_subagents_inside_the_session_are_told_apart(folder: Path, told: Telling) -> None:
    aside = {"is_sidechain": True}
    lines = [
        user("hi"),
        said("msg_1", output=100),
        user("look", **aside),
        assistant(
            call("Read", {"file_path": "/a"}),
            message_id="msg_2",
            message={"model": OPUS, "usage": {"output_tokens": 900}},
            **aside,
        ),
    ]
    (folder / f"{ONE}.jsonl").write_bytes(session(*lines, session_id=ONE))
    assert only(told("session"), "turns", "tokens", "agent_tokens") == {
        "turns": 1,
        "tokens": 1000,
        "agent_tokens": 900,
    }
    assert only(told("tool"), "calls", "agent_calls") == {"calls": 1, "agent_calls": 1}


HISTORY = [
    user("hi"),
    said("msg_1", output=10),
    assistant(call("Bash", {"command": "ls"}, "toolu_1"), message_id="msg_2"),
    result("toolu_1"),
]


@pytest.mark.parametrize(
    "copied",
    [
        pytest.param({"session_id": TWO}, id="rewritten, as by 1.0.60 and 2.1.325"),
        pytest.param({"session_id": ONE}, id="kept, as by 2.1.45"),
    ],
)
def test_a_fork_or_a_resumed_copy_counts_what_is_new_in_it(
    folder: Path, told: Telling, copied: dict[str, str]
) -> None:
    later = START + timedelta(days=1)
    new = session(
        asked("more", later, uuid="u9"), said("msg_9", at=later, output=7), session_id=TWO
    )
    (folder / f"{ONE}.jsonl").write_bytes(session(*HISTORY, session_id=ONE))
    (folder / f"{TWO}.jsonl").write_bytes(session(*HISTORY, **copied) + new)
    names = ("day", "turns", "calls", "output")
    assert [tuple(row[name] for name in names) for row in told("daily").rows] == [
        ("2026-11-15", 1, 1, 30),
        ("2026-11-16", 1, 0, 7),
    ]
    assert {row["session"]: row["output"] for row in told("session").rows}[ONE] == 30


def test_a_copy_may_know_more_than_the_original(folder: Path, told: Telling) -> None:
    first = session(user("hi"), said("msg_1", output=1), session_id=ONE)
    copy = session(user("hi"), said("msg_1", output=50), session_id=TWO)
    (folder / f"{ONE}.jsonl").write_bytes(first)
    (folder / f"{TWO}.jsonl").write_bytes(copy)
    report = told("session")
    assert only(report, "session", "output") == {"session": ONE, "output": 50}
    (folder / f"{ONE}.jsonl").unlink()
    assert only(told("session"), "session", "output") == {"session": TWO, "output": 50}


def test_what_an_advisor_took_is_of_its_own_model(folder: Path, told: Telling) -> None:
    own = {"type": "message", "input_tokens": 10, "output_tokens": 20}
    advice = {"type": "advisor_message", "model": "claude-fable-5", "output_tokens": 100}
    whole = said("msg_1", input=10, output=20, iterations=[own, advice, own])
    (folder / f"{ONE}.jsonl").write_bytes(session(user("hi"), whole, whole, session_id=ONE))
    figures = {row["model"]: (row["output"], row["cost_usd"]) for row in told("model").rows}
    assert figures == {
        "claude-fable-5": (100, pytest.approx(100 * 50 / 1e6)),
        OPUS: (20, pytest.approx((10 * 5 + 20 * 25) / 1e6)),
    }


# What is not known is said


def test_models_without_a_price_are_named_and_leave_the_cost_open(
    folder: Path, told: Telling
) -> None:
    lines = [said("msg_1", output=100), said("msg_2", "no-such-1", output=200)]
    (folder / f"{ONE}.jsonl").write_bytes(session(*lines, session_id=ONE))
    report = told("model")
    assert [(row["model"], row["cost_usd"], row["unpriced"]) for row in report.rows] == [
        (OPUS, pytest.approx(0.0025), 0),
        ("no-such-1", None, 1),
    ]
    assert report.total["cost_usd"] == pytest.approx(0.0025)
    assert report.total["unpriced"] == 1
    assert report.unpriced_models == ["no-such-1"]
    assert told("daily", model="opus").unpriced_models == []
    assert told("tool").unpriced_models == []  # a report without costs


def test_versions_that_record_too_little_are_marked(folder: Path, told: Telling) -> None:
    old = session(said("msg_1", output=1), session_id=ONE).replace(b"2.1.325", b"2.1.29")
    (folder / f"{ONE}.jsonl").write_bytes(old)
    new = session(said("msg_2", output=1), session_id=TWO)
    (folder / f"{TWO}.jsonl").write_bytes(new)
    assert told("daily").total["understated"] == 1
    assert {row["session"]: row["understated"] for row in told("session").rows} == {ONE: 1, TWO: 0}


# Turns and their time


def test_commands_that_no_model_answered_are_no_turns(folder: Path, told: Telling) -> None:
    command = "<command-name>/{}</command-name>"
    lines = [
        user(command.format("clear")),
        user(command.format("review")),
        said("msg_1", output=1),
        user("<bash-input>ls</bash-input>"),
        user("nobody answers this"),
    ]
    (folder / f"{ONE}.jsonl").write_bytes(session(*lines, session_id=ONE))
    report = told("daily")
    assert only(report, "turns") == {"turns": 2}
    assert told("daily", model="opus").total["turns"] == 1


def test_time_is_from_a_prompt_to_the_last_that_was_done_for_it(
    folder: Path, told: Telling
) -> None:
    start, morning = START, START + timedelta(hours=20)
    lines = [
        asked("go", start),
        said("msg_1", at=start + timedelta(seconds=30), output=1),
        # Lines that come right before the next prompt say nothing of the turn before it.
        line("queue-operation", operation="enqueue", timestamp=stamp(morning)),
        user("Caveat: The messages below were generated", is_meta=True, timestamp=stamp(morning)),
        said("synthetic", "<synthetic>", at=morning),
        asked("on", morning),
        said("msg_2", at=morning + timedelta(seconds=5), output=1),
    ]
    (folder / f"{ONE}.jsonl").write_bytes(session(*lines, session_id=ONE))
    assert told("daily").total["seconds"] == 35


# When


def test_days_weeks_and_hours_are_those_of_the_local_time(
    folder: Path, told: Telling, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In UTC both are on Sunday the 15th; half an hour east of New Delhi's noon it is Monday.
    sunday = datetime.fromisoformat("2026-11-15T17:59:00+00:00")
    monday = datetime.fromisoformat("2026-11-15T18:31:00+00:00")
    lines = [said("msg_1", at=sunday, output=1), said("msg_2", at=monday, output=2)]
    (folder / f"{ONE}.jsonl").write_bytes(session(*lines, session_id=ONE))
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    tzset()
    assert [(row["day"], row["output"]) for row in told("daily").rows] == [
        ("2026-11-15", 1),
        ("2026-11-16", 2),
    ]
    assert [row["week"] for row in told("weekly").rows] == ["2026-11-09", "2026-11-16"]
    assert [row["month"] for row in told("monthly").rows] == ["2026-11"]
    hours = [(row["weekday"], row["hour"], row["output"]) for row in told("hour").rows]
    assert hours == [(0, 0, 2), (6, 23, 1)]


def test_what_has_no_time_is_counted_without_a_day(folder: Path, told: Telling) -> None:
    lines = [said("msg_1", output=1), said("msg_2", output=2)]
    whole = session(*lines, session_id=ONE).replace(
        stamp(START + timedelta(seconds=2)).encode(), b""
    )
    (folder / f"{ONE}.jsonl").write_bytes(whole)
    assert [(row["day"], row["output"]) for row in told("daily").rows] == [
        (None, 2),
        ("2026-11-15", 1),
    ]
    assert told("blocks", now=0).total["output"] == 1


def test_blocks_start_at_the_hour_of_the_first_message_after_the_one_before(
    folder: Path, told: Telling
) -> None:
    def at(clock: str) -> datetime:
        return datetime.fromisoformat(f"2026-11-15T{clock}:00+00:00")

    lines = [
        said("msg_1", at=at("06:40"), output=1000),
        said("msg_2", at=at("10:40"), output=3000),
        said("msg_3", at=at("11:00"), output=5000),
        said("msg_4", at=at("20:10"), output=7000),
    ]
    (folder / f"{ONE}.jsonl").write_bytes(session(*lines, session_id=ONE))
    names = ("started", "ends", "is_active", "tokens", "tokens_per_hour", "projected_tokens")
    now = at("21:10").timestamp()
    report = told("blocks", now=now)
    assert [tuple(row[name] for name in names) for row in report.rows] == [
        ("2026-11-15T06:00:00Z", "2026-11-15T11:00:00Z", 0, 4000, 1000, None),
        ("2026-11-15T11:00:00Z", "2026-11-15T16:00:00Z", 0, 5000, None, None),
        # An hour since its first message, three hours and fifty minutes until its end.
        (
            "2026-11-15T20:00:00Z",
            "2026-11-16T01:00:00Z",
            1,
            7000,
            7000,
            pytest.approx(33833.3, abs=1),
        ),
    ]
    active = report.rows[-1]
    assert active["usd_per_hour"] == pytest.approx(7000 * 25 / 1e6)
    assert active["projected_usd"] == pytest.approx(33833.3 * 25 / 1e6, abs=1e-4)


def test_filters_leave_blocks_where_they_are(folder: Path, told: Telling) -> None:
    later = START + timedelta(hours=4)
    lines = [said("msg_1", "no-such-1", output=1), said("msg_2", at=later, output=2)]
    (folder / f"{ONE}.jsonl").write_bytes(session(*lines, session_id=ONE))
    chosen = told("blocks", now=0.0, model="opus", since=later.timestamp())
    assert only(chosen, "started", "output") == {"started": "2026-11-15T06:00:00Z", "output": 2}


# Of what


def test_filters_choose_by_time_project_and_model(folder: Path, told: Telling) -> None:
    later = START + timedelta(days=3)
    lines = [asked("hi"), said("msg_1", output=1), said("msg_2", "no-such-1", at=later, output=2)]
    (folder / f"{ONE}.jsonl").write_bytes(session(*lines, session_id=ONE))
    other = session(said("msg_3", output=4), session_id=TWO).replace(b"ada/shop", b"ada/Blog")
    (folder / f"{TWO}.jsonl").write_bytes(other)

    def output(name: str, **filters: Any) -> Any:
        return told(name, **filters).total["output"]

    for name in ("daily", "weekly", "monthly", "session", "project", "model", "branch", "hour"):
        assert output(name) == 7, name
        assert output(name, since=later.timestamp()) == 2, name
        assert output(name, until=later.timestamp()) == 5, name
        assert output(name, project="blog") == 4, name
        assert output(name, model="SUCH") == 2, name
    assert told("daily", project="blog").total["sessions"] == 1
    assert told("daily").total["sessions"] == 2


def test_projects_and_sessions_are_named(folder: Path, told: Telling) -> None:
    agent = folder / ONE / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    lines = [user("hi"), said("msg_1", output=1), line("custom-title", custom_title="Shop")]
    (folder / f"{ONE}.jsonl").write_bytes(session(*lines, session_id=ONE))
    worker = session(said("msg_2", output=2), session_id=ONE, agent_id="a1")
    agent.write_bytes(worker.replace(b"ada/shop", b"ada/tree"))
    assert only(told("session"), "session", "title", "project", "started", "output") == {
        "session": ONE,
        "title": "Shop",
        "project": "/home/ada/shop",
        "started": "2026-11-15T06:00:01Z",
        "output": 3,
    }
    assert [row["project"] for row in told("project").rows] == ["/home/ada/tree", "/home/ada/shop"]


def test_branches_have_their_pull_requests_and_commits(folder: Path, told: Telling) -> None:
    pull = line("pr-link", pr_number=7, pr_url="https://example.org/shop/pull/7")
    commit = {"stdout": "", "gitOperation": {"commit": {"sha": "f943c0b", "kind": "committed"}}}
    bash = [
        assistant(call("Bash", {"command": "git commit"}), message_id="msg_2", git_branch="fix"),
        result("toolu_1", tool_use_result=commit, git_branch="fix"),
    ]
    lines = [user("hi"), said("msg_1", output=1), *bash, pull, pull, said("msg_3", output=1)]
    (folder / f"{ONE}.jsonl").write_bytes(session(*lines, session_id=ONE))
    (folder / f"{TWO}.jsonl").write_bytes(session(*lines, session_id=TWO))
    found = {row["branch"]: (row["pull_requests"], row["commits"]) for row in told("branch").rows}
    assert found == {"main": ([], []), "fix": (["https://example.org/shop/pull/7"], ["f943c0b"])}


def calls(*each: tuple[str, dict[str, Any], bool | None]) -> bytes:
    """A session with these calls, a second each, and whether they failed."""
    lines: list[bytes] = [user("hi")]
    for number, (tool, arguments, is_error) in enumerate(each):
        lines.append(
            assistant(call(tool, arguments, f"toolu_{number}"), message_id=f"msg_{number}")
        )
        if is_error is not None:
            lines.append(result(f"toolu_{number}", f"outcome {number}", is_error))
    return session(*lines, session_id=ONE)


def test_tools_are_told_with_errors_and_time_and_mcp_servers_as_one(
    folder: Path, told: Telling
) -> None:
    content = calls(
        ("mcp__db__query", {}, False),
        ("mcp__db__write_row", {}, True),
        ("Read", {"file_path": "/a"}, None),
    )
    (folder / f"{ONE}.jsonl").write_bytes(content)
    names = ("name", "calls", "errors", "error_rate", "seconds", "seconds_each")
    assert [tuple(row[name] for name in names) for row in told("tool").rows] == [
        ("mcp__db__*", 2, 1, 0.5, 2, 1),
        ("Read", 1, 0, 0, 0, 0),
    ]


def test_files_are_told_with_what_succeeded(folder: Path, told: Telling) -> None:
    edit = {"file_path": "/a", "old_string": "1", "new_string": "1\n2\n3"}
    content = calls(
        ("Edit", edit, False),
        ("Edit", edit, True),
        ("Read", {"file_path": "/a"}, False),
        ("Read", {"file_path": "/b"}, False),
        ("Grep", {"pattern": "x"}, False),
    )
    (folder / f"{ONE}.jsonl").write_bytes(content)
    names = ("path", "changes", "reads", "added", "removed")
    assert [tuple(row[name] for name in names) for row in told("file").rows] == [
        ("/a", 1, 1, 3, 1),
        ("/b", 0, 1, 0, 0),
    ]


def test_errors_are_told_by_tool_and_program(folder: Path, told: Telling) -> None:
    content = calls(
        ("Bash", {"command": "cd /x && git push"}, True),
        ("Bash", {"command": "git push --force"}, True),
        ("Bash", {"command": "git push"}, False),
        ("Bash", {"command": "ls"}, False),
        ("Read", {"file_path": "/a"}, True),
    )
    (folder / f"{ONE}.jsonl").write_bytes(content)
    names = ("tool", "command", "calls", "errors", "error_rate", "last_error")
    assert [tuple(row[name] for name in names) for row in told("errors").rows] == [
        ("Bash", "git push", 3, 2, pytest.approx(2 / 3), "outcome 1"),
        ("Read", None, 1, 1, 1, "outcome 4"),
    ]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("npm run build 2>&1 | tail", "npm run"),
        ("cd a; cd b\nmake test", "make test"),
        ("sudo -E apt-get install -y x", "apt-get install"),
        ("git -C /tmp -c user.name=x log", "git log"),
        ("A=1 B='x y' ./run.sh", "run.sh"),
        ("(cd x && ls)", "cd"),
        ("'my tool' now", "my tool"),
        ("docker $(x)", "docker"),
        ("", ""),
        ("&& |", ""),
    ],
)
def test_a_command_is_named_by_what_it_runs(command: str, expected: str) -> None:
    assert program(command) == expected


# All of it


def test_half_a_character_anywhere_does_no_harm(folder: Path, told: Telling) -> None:
    lines = [
        user("HALF", git_branch="HALF", cwd="HALF", uuid="HALF"),
        assistant(
            call("HALF", {"command": "HALF", "file_path": "HALF"}, "HALF"),
            message_id="HALF",
            message={"model": "HALF"},
        ),
        result("HALF", "HALF", is_error=True),
        line("custom-title", custom_title="HALF"),
    ]
    whole = session(*lines, session_id=ONE).replace(b"HALF", rb"\ud83d")
    (folder / f"{ONE}.jsonl").write_bytes(whole)
    told("daily")
    assert only(told("model"), "model", "calls", "errors") == {
        "model": "\ufffd",
        "calls": 1,
        "errors": 1,
    }


@pytest.mark.parametrize("count", [10**400, 2**70, -5])
def test_a_count_that_cannot_be_is_worth_nothing(folder: Path, told: Telling, count: int) -> None:
    pull = line("pr-link", pr_number=count, pr_url="https://example.org/shop/pull/7")
    lines = [said("msg_1", output=count), said("msg_2", output=3), pull]
    (folder / f"{ONE}.jsonl").write_bytes(session(*lines, session_id=ONE))
    assert only(told("branch"), "output", "pull_requests") == {
        "output": 3,
        "pull_requests": ["https://example.org/shop/pull/7"],
    }


def test_every_report_of_an_empty_store_is_empty(told: Telling) -> None:
    assert [told(name).rows for name in REPORTS] == [[]] * len(REPORTS)


FIGURES = "messages input output cache_write_5m cache_write_1h cache_read calls errors".split()


def figures(db: sqlite3.Connection) -> dict[str, int]:
    sums = ", ".join(f"coalesce(sum({name}), 0)" for name in FIGURES)
    return dict(zip(FIGURES, db.execute(f"SELECT {sums} FROM work").fetchone(), strict=True))


def test_every_file_alone_is_counted_as_by_a_second_count(
    session_file: Path, store: Store, tmp_path: Path, folder: Path
) -> None:
    copy = folder / f"{ONE}.jsonl"
    copy.write_bytes(session_file.read_bytes())
    with open_index(tmp_path / "index.db") as index:
        sync(index, store)
        assert figures(index.db) == recount([copy])


def test_all_files_together_are_counted_as_by_a_second_count(
    store: Store, tmp_path: Path, folder: Path
) -> None:
    for number, path in enumerate(session_files()):
        (folder / f"{number:08}-0000-4000-8000-000000000000.jsonl").write_bytes(path.read_bytes())
    with open_index(tmp_path / "index.db") as index:
        sync(index, store)
        assert figures(index.db) == recount(folder.iterdir())
        days = run_report(index.db, "daily")
    assert days.total["output"] == recount(folder.iterdir())["output"]


def test_a_kept_answer_is_given_until_figures_or_time_zone_change(
    store: Store, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, night = folder / f"{ONE}.jsonl", datetime(2026, 3, 1, 23, tzinfo=UTC)
    path.write_bytes(session(said("m1", at=night, input=1)))
    with open_index(tmp_path / "index.db") as index:

        def ask(**filters: Any) -> Report:
            sync(index, store, words=False)
            return cached_report(index.db, "daily", Filters(**filters))

        first = ask()
        assert first.rows[0]["day"] == "2026-03-01"
        index.db.execute("UPDATE messages SET input = 7")  # which nobody but a sync does
        assert ask() == first
        assert ask(model="opus").total["input"] == 7
        monkeypatch.setenv("TZ", "UTC-2")
        tzset()
        assert ask().rows[0]["day"] == "2026-03-02"
        path.write_bytes(session(said("m1", at=night, input=2)))
        assert ask().total["input"] == 2


def test_rows_can_be_grouped_by_further_dimensions(told: Telling, folder: Path) -> None:
    lines = asked("q"), said("m1", output=10), said("m2", model="claude-haiku-4-5", output=5)
    (folder / f"{ONE}.jsonl").write_bytes(session(*lines, session_id=ONE))
    rows = told("daily", by=("model",)).rows
    assert {str(row["model"]): row["output"] for row in rows} == {OPUS: 10, "claude-haiku-4-5": 5}
    assert rows[0]["day"] == rows[1]["day"]
    assert [row["output"] for row in told("daily").rows] == [15]


def test_grouping_by_something_unknown_names_what_is_known(told: Telling) -> None:
    with pytest.raises(UsageError, match="cannot group by colour: choose from day, week"):
        told("daily", by=("colour",))
    with pytest.raises(UsageError, match="tool cannot be grouped further"):
        told("tool", by=("model",))


def timed_call(name: str, id_: str, seconds: float, **given: Any) -> list[bytes]:
    """A call, and its result after some seconds."""
    answered = stamp(START + timedelta(seconds=seconds))
    return [
        assistant(call(name, given, id_), message_id=f"m{id_}", timestamp=stamp(START)),
        result(id_, timestamp=answered),
    ]


def test_latency_has_nearest_rank_quantiles(folder: Path, told: Telling) -> None:
    took = [n / 10 for n in range(1, 21)]
    lines = [line_ for n, s in enumerate(took) for line_ in timed_call("Bash", f"t{n}", s)]
    lines += timed_call("mcp__db__query", "q1", 9) + timed_call("mcp__db__list", "q2", 3)
    lines.append(assistant(call("Bash", {}, "open"), message_id="m-open"))
    (folder / f"{ONE}.jsonl").write_bytes(session(*lines, session_id=ONE))
    bash, server = told("latency").rows
    names = ("name", "calls", "fastest", "p25", "p50", "p75", "p95", "p99", "slowest")
    expected = ("Bash", 20, 0.1, 0.5, 1.0, 1.5, 1.9, 2.0, 2.0)
    assert tuple(bash[name] for name in names[:2]) == expected[:2]
    assert [bash[name] for name in names[2:]] == pytest.approx(expected[2:], abs=1e-3)
    assert (server["name"], server["calls"], server["p50"]) == ("mcp__db__*", 2, 3)


def test_rereads_are_counted_by_session_and_subagent(folder: Path, told: Telling) -> None:
    def read(id_: str, name: str = "Read", **fields: Any) -> list[bytes]:
        given = {"file_path": "/home/ada/a.py", "old_string": "a", "new_string": "b"}
        return [assistant(call(name, given, id_), message_id=f"m{id_}"), result(id_, **fields)]

    one = [*read("r1"), *read("r2"), *read("e1", "Edit"), *read("r3"), *read("r4", is_error=True)]
    (folder / f"{ONE}.jsonl").write_bytes(session(*one, session_id=ONE))
    (folder / f"{TWO}.jsonl").write_bytes(session(*read("r5"), session_id=TWO))
    agent = folder / ONE / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(session(*read("r6"), session_id=ONE, agent_id="a1"))
    # r2 and r3 were read before in the same context, and only r3 after a change.
    assert only(told("rereads"), "path", "sessions", "reads", "rereads", "unchanged") == {
        "path": "/home/ada/a.py",
        "sessions": 2,
        "reads": 5,
        "rereads": 2,
        "unchanged": 1,
    }


def test_cache_misses_are_requests_that_find_less_than_half(folder: Path, told: Telling) -> None:
    def cached(id_: str, read: int, write: int) -> bytes:
        return said(id_, read=read, cache_creation_input_tokens=write)

    lines = [
        user("hi"),
        cached("m1", 0, 10_000),  # nothing can have been cached before
        cached("m2", 10_000, 2_000),
        cached("m3", 0, 12_500),  # expired: 12,000 of these had been cached
        cached("m4", 12_500, 0),
        line("system", subtype="compact_boundary", content="Conversation compacted"),
        cached("m5", 0, 3_000),  # another context
    ]
    (folder / f"{ONE}.jsonl").write_bytes(session(*lines, session_id=ONE))
    assert only(told("cache"), "day", "messages", "cache_read", "misses", "missed_tokens") == {
        "day": "2026-11-15",
        "messages": 5,
        "cache_read": 22_500,
        "misses": 1,
        "missed_tokens": 12_000,
    }


def test_lines_without_a_message_id_are_one_message_until_the_next_prompt(
    folder: Path, told: Telling
) -> None:
    answer = {"model": OPUS, "usage": {"output_tokens": 10}, "id": None}
    part = assistant(text("so"), message_id=None, message=answer)
    lines = [asked("one"), part, part, asked("two"), part]
    (folder / f"{ONE}.jsonl").write_bytes(session(*lines))
    assert only(told("daily"), "turns", "output") == {"turns": 2, "output": 20}


def test_a_plan_counts_for_each_month_that_is_known(folder: Path, told: Telling) -> None:
    months = [datetime(2026, month, 3, tzinfo=UTC) for month in (9, 10)]
    lines = [said(f"m{at.month}", at=at, output=40_000) for at in months]
    (folder / f"{ONE}.jsonl").write_bytes(session(*lines))
    compared = compare_with_plan(told("monthly"), 20)
    assert [row["plan_usd"] for row in compared.rows] == [20, 20]
    assert (compared.total["plan_usd"], compared.total["plan_share"]) == (40, 0.05)
