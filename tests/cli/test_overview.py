"""The overview, the status line and sync: these files, this command, this output."""

import io
import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import SESSION, assistant, call, session, stamp, text, user

OTHER = "00000002-0000-4000-8000-000000000000"


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


def write_turn(project: Path, name: str, at: datetime, *more: bytes) -> Path:
    """A session of one turn, which took a dollar."""
    body = {"model": "claude-opus-5", "usage": {"input_tokens": 100_000, "output_tokens": 20_000}}
    path = project / f"{name}.jsonl"
    path.write_bytes(
        session(
            user("Fix the total", timestamp=stamp(at)),
            assistant(text("Fixed."), message_id=f"m-{name}", message=body, timestamp=stamp(at)),
            *more,
            session_id=name,
        )
    )
    return path


def told(monkeypatch: pytest.MonkeyPatch, **fields: object) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(fields)))


def test_without_a_command_it_shows_sessions_and_what_they_took(
    project: Path, turnlog: Run, now: datetime
) -> None:
    write_turn(project, SESSION, now)
    shown = turnlog()
    assert shown.code == 0
    assert "Fix the total" in shown.out
    assert "today       1 session  1 turn  120k tokens  $1.00" in shown.out


def test_the_overview_lists_the_same_with_and_without_an_index(
    project: Path, turnlog: Run, now: datetime
) -> None:
    for number in range(15):
        name = f"000010{number:02}-0000-4000-8000-000000000000"
        # Old enough that no age changes between two runs.
        path = write_turn(project, name, now - timedelta(hours=1 + number % 7, minutes=number))
        os.utime(path, (number, number))  # the time of the last entry counts, not that of the file
    (project / f"{OTHER}.jsonl").write_bytes(b"")
    half_an_hour_ago = now.timestamp() - 1800
    os.utime(project / f"{OTHER}.jsonl", (half_an_hour_ago, half_an_hour_ago))
    first = turnlog()
    assert turnlog() == first
    assert "12 of 16 sessions" in first.err
    (project / f"{OTHER}.jsonl").unlink()
    assert "12 of 15 sessions" in turnlog().err


def test_the_overview_names_a_session_that_would_not_resume_whole(
    project: Path, turnlog: Run, now: datetime
) -> None:
    write_turn(project, SESSION, now, assistant(call("Bash", {}, "A")), user("and then?"))
    for _ in range(2):  # the second time from what was found before
        assert f"{SESSION[:8]} would not resume in full" in turnlog().out
    write_turn(project, SESSION, now)
    assert "would not resume" not in turnlog().out


@pytest.mark.parametrize("columns", ["60", "64", "68", "72", "80"])
def test_the_hint_of_the_overview_is_never_broken(
    project: Path, turnlog: Run, now: datetime, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    write_turn(project, SESSION, now, assistant(call("Bash", {}, "A")), user("and then?"))
    assert f"(turnlog check {SESSION[:8]})\n" in turnlog().out


def test_the_overview_tells_what_the_client_will_delete_unless_it_is_archived(
    project: Path, turnlog: Run, now: datetime
) -> None:
    path = write_turn(project, SESSION, now - timedelta(days=26))
    old = time.time() - 26 * 86400
    os.utime(path, (old, old))
    assert "1 session will be deleted by the client within a week" in turnlog().out
    (project.parent.parent / "settings.json").write_text('{"cleanupPeriodDays": 90}')
    assert "will be deleted" not in turnlog().out
    (project.parent.parent / "settings.json").unlink()
    turnlog("archive")
    assert "will be deleted" not in turnlog().out


def test_a_status_line_tells_cost_of_session_and_day_the_window_and_the_context(
    project: Path, turnlog: Run, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_turn(project, SESSION, now)
    write_turn(project, OTHER, now)
    turnlog("sync")
    told(
        monkeypatch,
        session_id=SESSION,
        transcript_path=str(path),
        model={"id": "claude-opus-5", "display_name": "Opus 5"},
    )
    line = turnlog("statusline").out
    assert line.startswith("Opus 5 · $1.00 session · $2.00 today · $2.00 block, ")
    assert line.endswith(" · \x1b[32mcontext 12%\x1b[0m\n")  # the client shows colours


def test_a_status_line_has_what_the_session_has_just_written(
    project: Path, turnlog: Run, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_turn(project, SESSION, now)
    turnlog("sync")
    body = {"model": "claude-opus-5", "usage": {"input_tokens": 0, "output_tokens": 40_000}}
    with path.open("ab") as file:
        file.write(session(assistant(text("More."), message_id="m2", message=body)))
    told(
        monkeypatch,
        session_id=SESSION,
        transcript_path=str(path),
        context_window={"used_percentage": 12},
    )
    monkeypatch.setenv("NO_COLOR", "1")
    line = turnlog("statusline").out
    assert line.startswith("$2.00 session")
    assert line.endswith("context 12%\n")


def test_a_status_line_has_the_cost_of_its_transcript_before_there_is_an_index(
    project: Path, turnlog: Run, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_turn(project, SESSION, now)
    agent = project / SESSION / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    body = {"model": "claude-opus-5", "usage": {"input_tokens": 0, "output_tokens": 40_000}}
    said = assistant(text("Seen."), message_id="m-a1", message=body)
    agent.write_bytes(session(user("Look"), said, agent_id="a1"))
    told(monkeypatch, transcript_path=str(path), model={"display_name": "Opus 5"})
    monkeypatch.setenv("NO_COLOR", "1")
    assert turnlog("statusline").out == "Opus 5 · $2.00 session · context 12%\n"


def test_a_status_line_without_json_is_a_usage_error(
    turnlog: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("nothing"))
    refused = turnlog("statusline")
    assert refused.code == 2
    assert "stdin contains no JSON object" in refused.err


def test_sync_says_what_it_read(project: Path, turnlog: Run, now: datetime) -> None:
    path = write_turn(project, SESSION, now)
    assert turnlog("sync").out.startswith("1 file read (")
    assert turnlog("sync").out.startswith("nothing has changed")
    path.unlink()
    assert json.loads(turnlog("sync", "--json").out)["removed"] == 1
