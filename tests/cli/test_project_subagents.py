"""Sub-agents in `<project>/subagents`, which all sessions of a project share."""

import json
import os
import shutil
from pathlib import Path

import pytest

from cli.conftest import Run
from support.build import SESSION, assistant, call, nth, result, session, text, user

AGENT = "ab97f57"
SPENT = {"usage": {"input_tokens": 1000, "output_tokens": 500}}


@pytest.fixture
def agent(project: Path) -> Path:
    """The file of a sub-agent whose session lies in the folder above."""
    started = call("Task", {"prompt": "count the tills", "description": "d"}, "T")
    whole = session(
        user("start one"),
        assistant(started),
        result("T", "three", tool_use_result={"status": "completed", "agentId": AGENT}),
        assistant(text("There are three."), message_id="m2"),
    )
    (project / f"{SESSION}.jsonl").write_bytes(whole)
    other = session(user("another", uuid=nth(66)), assistant(text("done")), session_id="6" * 8)
    (project / f"{'6' * 8}.jsonl").write_bytes(other)
    path = project / "subagents" / f"agent-{AGENT}.jsonl"
    path.parent.mkdir()
    told = assistant(text("I counted marigolds."), message_id="m9", message=SPENT, uuid=nth(92))
    path.write_bytes(session(user("count the tills", uuid=nth(91)), told, agent_id=AGENT))
    for each in project.rglob("*.jsonl"):
        os.utime(each, (0, 0))  # no client is at work on it
    return path


def test_the_listing_counts_them_for_their_session_alone(agent: Path, turnlog: Run) -> None:
    rows = json.loads(turnlog("ls", "--json").out)
    assert {row["id"][:8]: row["subagents"] for row in rows} == {SESSION[:8]: 1, "6" * 8: 0}


def test_show_and_tree_put_them_below_the_call_that_started_them(agent: Path, turnlog: Run) -> None:
    assert "I counted marigolds." in turnlog("show", SESSION).out
    stones = json.loads(turnlog("tree", SESSION, "--json").out)
    assert stones[0]["agents"] == [AGENT]


def test_cost_and_stats_count_what_they_took(agent: Path, turnlog: Run) -> None:
    models = json.loads(turnlog("cost", SESSION, "--json").out)["models"]
    assert any(each["by_subagents"] for each in models)
    rows = json.loads(turnlog("stats", "session", "--json").out)["rows"]
    assert {row["session"][:8]: row["agent_tokens"] for row in rows} == {
        SESSION[:8]: 1500,
        "6" * 8: 0,
    }


def test_search_finds_them_in_their_session(agent: Path, turnlog: Run) -> None:
    (found,) = json.loads(turnlog("search", "marigolds", "--json").out)
    assert found["id"] == SESSION


def test_a_trace_has_their_spans(agent: Path, turnlog: Run, tmp_path: Path) -> None:
    target = tmp_path / "spans.json"
    assert turnlog("trace", SESSION, "--to", str(target)).code == 0
    assert "marigolds" in target.read_text("utf-8")


def test_a_check_does_not_miss_them(agent: Path, turnlog: Run) -> None:
    found = json.loads(turnlog("check", SESSION, "--json").out)
    assert "lost-subagent" not in json.dumps(found)


def test_a_clone_has_its_own_copy(agent: Path, turnlog: Run) -> None:
    made = json.loads(turnlog("clone", SESSION, "--json").out)
    copies = [path for path in agent.parent.iterdir() if path != agent]
    assert [made["id"] in path.read_text("utf-8") for path in copies] == [True]
    assert "I counted marigolds." in turnlog("show", made["id"]).out


def test_rm_takes_them_along_and_undo_brings_them_back(agent: Path, turnlog: Run) -> None:
    content = agent.read_bytes()
    assert turnlog("rm", SESSION).code == 0
    assert not agent.exists()
    assert turnlog("undo").code == 0
    assert agent.read_bytes() == content


def test_the_archive_keeps_and_restores_them(agent: Path, turnlog: Run) -> None:
    content = agent.read_bytes()
    assert turnlog("archive").code == 0
    shutil.rmtree(agent.parent.parent)
    assert "marigolds" in turnlog("search", "marigolds").out
    assert turnlog("restore", SESSION).code == 0
    assert agent.read_bytes() == content


def test_mv_takes_them_to_the_new_project(agent: Path, turnlog: Run, tmp_path: Path) -> None:
    assert turnlog("mv", SESSION, str(tmp_path)).code == 0
    assert not agent.exists()
    (moved,) = tmp_path.glob(f"projects/*/subagents/{agent.name}")
    assert moved.parent.parent != agent.parent.parent
