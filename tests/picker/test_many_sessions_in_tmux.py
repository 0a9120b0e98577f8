"""The picker with 10,000 indexed sessions: no key is lost while one is held down."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from support.build import START, assistant, encode, session, stamp, text, user
from support.tmux import Pane, needs_tmux, terminal

pytestmark = needs_tmux
COUNT = 10_000
SIZES = pytest.mark.parametrize(("columns", "rows"), [(80, 24), (200, 50)])
TURNLOG = [sys.executable, "-P", "-m", "turnlog"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with 10,000 sessions, all of them in the index."""
    folder = tmp_path_factory.mktemp("many")
    lines = [
        json.loads(raw)
        for raw in session(user("PROMPT"), assistant(text("Done again."))).splitlines()
    ]
    projects = [folder / ".claude/projects" / f"-home-ada-p{number}" for number in range(20)]
    for project in projects:
        project.mkdir(parents=True)
    for number in range(COUNT):
        id_ = f"{number:08d}-0000-4000-8000-000000000000"
        moment = stamp(START - timedelta(minutes=COUNT - number))
        fields = {"sessionId": id_, "timestamp": moment, "cwd": f"/home/ada/p{number % 20}"}
        lines[0]["message"]["content"] = f"日本語 task{number} of many"
        lines[1]["message"]["id"] = f"msg_{number}"
        raw = b"".join(encode(line | fields) for line in lines)
        (projects[number % 20] / f"{id_}.jsonl").write_bytes(raw)
    environment = {**os.environ, **own_environment(folder)}
    subprocess.run([*TURNLOG, "sync"], env=environment, check=True, capture_output=True)
    return folder


def own_environment(home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "TURNLOG_HOME": str(home / "own"),
    }


@pytest.fixture
def turnlog_of(home: Path, monkeypatch: pytest.MonkeyPatch, turnlog: list[str]) -> list[str]:
    for name, value in own_environment(home).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    return turnlog


def selected(pane: Pane) -> str:
    return next((line for line in pane.screen().split("\n") if line.startswith("▸")), "")


@SIZES
def test_search_scroll_and_hold_a_key(
    turnlog_of: list[str], home: Path, columns: int, rows: int
) -> None:
    with terminal([*turnlog_of, "pick"], home, columns, rows) as pane:
        pane.see("10,000 sessions", "task9999")
        pane.type("task123")
        # The word is a prefix while it is typed: 123 and 1230 to 1239.
        pane.see("11 sessions", "task1239")
        pane.type("4")
        pane.see("1 session ", "▶ you", "日本語 task1234 of many")
        pane.keys("C-u")
        pane.see("10,000 sessions", "task9999")
        for _ in range(10):
            pane.keys(*["Down"] * 20)
        pane.wait(lambda screen: "task9799" in selected(pane))
        pane.keys("C-End")
        pane.wait(lambda screen: "task0 " in selected(pane))
        pane.type("again")
        pane.see("the first 500 sessions")


def test_results_of_earlier_keys_never_replace_later_ones(
    turnlog_of: list[str], home: Path
) -> None:
    with terminal([*turnlog_of, "pick"], home, 80, 24) as pane:
        pane.see("10,000 sessions")
        for number in (5005, 7077, 4321):
            pane.type(f"many task{number}")
            pane.wait(lambda screen: f"task{number}" in selected(pane))  # noqa: B023
            pane.keys("C-u")
        pane.see("10,000 sessions")
