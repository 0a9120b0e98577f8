"""Each line records the directory and branch at the time of writing, not those of its prompt."""

import json
import subprocess
from pathlib import Path

import pytest

from support.chatting import hold_chat, lines_in
from support.scripted_api import ScriptedApi, answered, called
from turnlog.agent.chat.assembly import ChatOptions
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store

CHAINED = ("user", "assistant", "system", "progress", "attachment")
DONE = answered({"type": "text", "text": "Done."})


@pytest.fixture
def project(project: Path) -> Path:
    """A repository with a commit, on the branch main."""
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for arguments in (("init", "-b", "main"), (*who, "commit", "--allow-empty", "-m", "first")):
        subprocess.run(("git", *arguments), cwd=project, check=True, capture_output=True)
    (project / "sub").mkdir()
    return project


def bash(call_id: str, command: str) -> tuple[str, str, Fields]:
    return (call_id, "Bash", {"command": command})


def places_in(path: Path, project: Path) -> list[tuple[str, str, str]]:
    """Return the kind, directory and branch of each line that has them."""
    return [
        (line["type"], line["cwd"].removeprefix(str(project)), line["gitBranch"])
        for line in lines_in(path)
        if line["type"] in CHAINED
    ]


def run(store: Store, project: Path, *prompts: str) -> Path:
    return hold_chat(store, ChatOptions(cwd=project, allow=("Bash",)), *prompts)


def test_lines_after_a_command_tell_the_branch_and_directory_that_it_left(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    api.replies[:] = [
        called(bash("t1", "git checkout -q -b feature; cd sub")),
        called(bash("t2", "git checkout -q --detach")),
        called(bash("t3", "cd ..; git checkout -q main")),
        DONE,
    ]
    session = run(store, project, "go")
    assert places_in(session, project) == [
        ("user", "", "main"),
        ("assistant", "", "main"),
        ("user", "/sub", "feature"),
        ("assistant", "/sub", "feature"),
        ("user", "/sub", "HEAD"),
        ("assistant", "/sub", "HEAD"),
        ("user", "", "main"),
        ("assistant", "", "main"),
        ("system", "", "main"),
    ]


def test_a_command_may_lead_into_a_worktree(store: Store, project: Path, api: ScriptedApi) -> None:
    added = ("git", "worktree", "add", "-q", "-b", "side", "sub/side")
    subprocess.run(added, cwd=project, check=True, capture_output=True)
    api.replies[:] = [called(bash("t1", "cd sub/side")), DONE]
    session = run(store, project, "go")
    assert places_in(session, project)[2:] == [
        ("user", "/sub/side", "side"),
        ("assistant", "/sub/side", "side"),
        ("system", "/sub/side", "side"),
    ]


def test_a_branch_that_others_switch_to_is_seen_by_the_next_line(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    switch = {"type": "command", "command": f"git -C {project} checkout -q -b theirs"}
    store.settings.parent.mkdir(parents=True, exist_ok=True)
    store.settings.write_text(json.dumps({"hooks": {"PostToolUse": [{"hooks": [switch]}]}}))
    api.replies[:] = [called(bash("t1", "true")), DONE]
    session = run(store, project, "go")
    branches = [branch for _, _, branch in places_in(session, project)]
    assert branches[:2] == ["main", "main"]
    assert set(branches[2:]) == {"theirs"}


def test_lines_of_a_sub_agent_tell_where_it_went_and_those_of_the_session_do_not(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    task = {"description": "Go", "prompt": "look", "subagent_type": "general-purpose"}
    api.replies[:] = [
        called(("t1", "Agent", task)),
        called(bash("s1", "cd sub; git checkout -q -b side")),
        DONE,
        DONE,
    ]
    session = run(store, project, "go")
    (agent,) = (session.with_suffix("") / "subagents").glob("agent-*.jsonl")
    assert places_in(agent, project) == [
        ("user", "", "main"),
        ("assistant", "", "main"),
        ("user", "/sub", "side"),
        ("assistant", "/sub", "side"),
    ]
    said_last = places_in(session, project)[-1]
    assert said_last == ("system", "", "side")


def test_the_next_prompt_starts_where_the_last_turn_ended(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    api.replies[:] = [called(bash("t1", "cd sub")), DONE, DONE]
    session = run(store, project, "go", "again")
    assert [place for _, place, _ in places_in(session, project)] == [
        *["", ""],
        *["/sub"] * 6,
    ]
