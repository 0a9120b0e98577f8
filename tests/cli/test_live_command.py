"""turnlog live: a table that follows sessions on a terminal, and prints once elsewhere."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.build import Fields, assistant, call, text, user
from support.live_store import RunningSession, running_sessions
from support.tmux import terminal

USAGE: Fields = {
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 5, "cache_read_input_tokens": 400_000, "output_tokens": 100},
}
LIVE = [sys.executable, "-m", "turnlog", "live"]


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[RunningSession]]:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "store"))
    # The size of the terminal counts, not what the environment says about another one.
    monkeypatch.setenv("COLUMNS", "30")
    with running_sessions(tmp_path / "store", 2) as running:
        yield running


def run(*arguments: str, columns: int = 130) -> str:
    environment = {**os.environ, "COLUMNS": str(columns)}
    return subprocess.run(
        [*LIVE, *arguments], capture_output=True, text=True, check=True, env=environment
    ).stdout


def show_two(sessions: list[RunningSession]) -> None:
    first, second = sessions
    first.report("waiting", "permission prompt", ago=70)
    first.write(user("Fix the login"), assistant(call("Agent"), message=USAGE), ago=90)
    first.describe_agent("a1", description="Explore the shop")
    first.write(user("look"), assistant(call("Read"), message=USAGE), agent="a1", ago=3)
    second.register()
    second.write(
        user("Old work"), assistant(text("so"), message={"stop_reason": "end_turn"}), ago=1300
    )


def test_a_pipe_gets_the_table_once(sessions: list[RunningSession]) -> None:
    show_two(sessions)
    summary, head, session, agent, idle, note = run().splitlines()
    assert summary == "2 sessions · 1 waiting for permission · 1 idle · 1 sub-agent · $0.16/h"
    names = "state for project title model context turns left cost $/h detail"
    assert head.split() == names.split()
    assert session.startswith(" waiting for permission   1m  shop     Fix the login ")
    assert "███▎····  40%" in session
    assert agent.startswith("  ~working")
    assert "└ Explore the shop" in agent
    assert idle.startswith("~idle")
    assert note == "~ inferred from the last lines"


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 120, 200])
def test_the_table_fits_the_terminal(sessions: list[RunningSession], columns: int) -> None:
    show_two(sessions)
    lines = run("--once", columns=columns).splitlines()[1:]
    assert max(map(len, lines)) <= columns
    assert "permission" in lines[1]


def test_json_has_every_figure(sessions: list[RunningSession]) -> None:
    show_two(sessions)
    first, second = json.loads(run("--json"))
    assert (first["state"], first["source"]) == ("waiting for permission", "reported")
    assert (second["state"], second["source"]) == ("idle", "inferred")
    assert first["pid"] == sessions[0].pid
    assert first["agents"][0]["title"] == "Explore the shop"
    assert first["context_tokens"] == 400_105
    assert 69 < first["seconds"] < 100
    assert first["since"].endswith("Z")


def test_nothing_runs(sessions: list[RunningSession]) -> None:
    assert run("--once") == "No session is running.\n"
    assert run("--json") == "[]\n"


@pytest.mark.parametrize("moment", [9e14, 253_402_300_800_000, True])
def test_times_that_no_client_writes_are_ignored(
    sessions: list[RunningSession], moment: float
) -> None:
    sessions[0].register(status="busy", statusUpdatedAt=moment, startedAt=moment)
    sessions[0].write(user("x"))
    [shown] = json.loads(run("--json"))
    assert (shown["state"], shown["started"]) == ("working", None)
    assert shown["since"].startswith("20")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_program_may_have_a_name_that_is_not_utf8(
    sessions: list[RunningSession], tmp_path: Path
) -> None:
    program = tmp_path / os.fsdecode(b"\xff) client")
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "600"]) as process:
        sessions[0].pid = process.pid
        try:
            sessions[0].register(procStart=None)
            sessions[0].write(user("x"))
            shown = json.loads(run("--json"))
        finally:
            process.kill()
    assert [each["pid"] for each in shown] == [process.pid]


def test_control_characters_do_not_reach_the_terminal(sessions: list[RunningSession]) -> None:
    sessions[0].register(name="\x1b[2J\x1b]0;x\x07bad", nameSource="user")
    sessions[0].write(user("x"))
    with terminal([*LIVE], Path.cwd(), 100, 20) as pane:
        assert "bad" in pane.see("1 session")


def test_the_terminal_follows_the_sessions(sessions: list[RunningSession], tmp_path: Path) -> None:
    first, second = sessions
    first.report("busy")
    first.write(user("Fix the login"))
    script = 'trap : INT; echo before; "$@"; echo "left $?"; sleep 99'
    with terminal(["sh", "-c", script, "sh", *LIVE], tmp_path, 130, 20) as pane:
        pane.see("1 session", "working", "Fix the login")
        first.report("waiting", "permission prompt")
        pane.see("waiting for permission")
        second.report("busy")
        pane.see("2 sessions")
        second.kill()
        pane.see("1 session ")
        pane.resize(60, 20)
        pane.wait(lambda screen: " permission" in screen and "detail" not in screen)
        pane.keys("C-c")
        # The screen is as it was before, and an interrupt is the normal way to leave.
        assert pane.see("before", "left 0").split() == ["before", "left", "0"]


def test_sessions_that_do_not_fit_are_counted(sessions: list[RunningSession]) -> None:
    for session in sessions:
        session.report("busy")
        for number in range(10):
            session.write(user("look"), agent=f"a{number}")
        session.write(user("go"))
    with terminal(LIVE, Path.cwd(), 100, 10) as pane:
        assert "… 17 more" in pane.see("2 sessions", "more", "Ctrl-C stops")


def test_an_idle_machine_costs_little(sessions: list[RunningSession]) -> None:
    seconds = 4.0
    show_two(sessions)
    sessions[0].report("idle", ago=2000)
    with terminal(LIVE, Path.cwd(), 130, 20) as pane:
        pane.see("2 sessions")
        pid = int(pane.run("list-panes", "-F", "#{pane_pid}"))
        before = _cpu(pid)
        time.sleep(seconds)
        used = (_cpu(pid) - before) / seconds
        memory = _status(pid)["VmRSS"]
    assert used <= 0.02
    assert memory <= 80_000


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _status(pid: int) -> dict[str, Any]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {
        name: int(value.split()[0])
        for name, _, value in (line.partition(":") for line in lines)
        if value.strip().endswith("kB")
    }
