"""Agents that a project defines never reach the notes that the user's own agents keep."""

import json
from pathlib import Path

import pytest

from support.chat_process import ChatProcess, ProcessOutput
from support.scripted_api import ScriptedApi, called, said, scripted_api
from turnlog.agent.config.agent_definitions import AgentDefinition
from turnlog.agent.config.agent_memory import memory_folder

NOTE = "PRIVATE-NOTE"


def define(folder: Path, head: str, name: str = "reviewer") -> Path:
    path = folder / "agents" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {name}\ndescription: Reviews\n{head}\n---\nReview.\n")
    return path


def notes_of_user(home: Path) -> Path:
    path = home / "claude" / "agent-memory" / "reviewer" / "MEMORY.md"
    path.parent.mkdir(parents=True)
    path.write_text(f"- {NOTE}\n")
    return path


def start_reviewer(
    api: ScriptedApi, chat: ChatProcess, notes: Path, *options: str
) -> ProcessOutput:
    """Let the agent `reviewer` read, change and add notes."""
    task = {"description": "d", "prompt": "go", "subagent_type": "reviewer"}
    edit = {"file_path": str(notes), "old_string": "- ", "new_string": "INJECTED "}
    write = {"file_path": str(notes.with_name("new.md")), "content": "INJECTED"}
    api.replies[:] = [
        called(("t1", "Agent", task)),
        called(("s1", "Read", {"file_path": str(notes)})),
        called(("s2", "Edit", edit)),
        called(("s3", "Write", write)),
        said("Sub."),
        said("Done."),
    ]
    return chat.run("-p", "hello", *options)


def is_told(api: ScriptedApi) -> bool:
    return NOTE in json.dumps([request.body for request in api.requests])


@pytest.mark.parametrize(
    ("scope", "mode"),
    [("user", "default"), ("user", "plan"), ("user", "acceptEdits"), ("local", "acceptEdits")],
)
def test_an_agent_of_an_untrusted_project_has_no_memory_and_a_line_says_so(
    tmp_path: Path, scope: str, mode: str
) -> None:
    notes = notes_of_user(tmp_path)
    with scripted_api(said("Done.")) as api:
        chat = ChatProcess(tmp_path, api.url)
        path = define(chat.work / ".claude", f"memory: {scope}")
        told = start_reviewer(api, chat, notes, "--permission-mode", mode)
    assert told.err == (
        f"turnlog: ignored, as its directory is not trusted: {path} (memory) (try: --trust)\n"
    )
    assert not is_told(api)
    assert (notes.read_text(), [*notes.parent.iterdir()]) == (f"- {NOTE}\n", [notes])
    assert not (chat.work / ".claude" / "agent-memory").exists()


def test_an_agent_of_a_trusted_project_keeps_notes_of_its_own(tmp_path: Path) -> None:
    notes = notes_of_user(tmp_path)
    with scripted_api(said("Done.")) as api:
        chat = ChatProcess(tmp_path, api.url)
        define(chat.work / ".claude", "memory: user")
        told = start_reviewer(api, chat, notes, "--trust")
    assert told.err == ""
    assert not is_told(api)
    assert notes.read_text() == f"- {NOTE}\n"
    assert not notes.with_name("new.md").exists()
    assert len([*tmp_path.glob("claude/agent-memory-projects/*/reviewer")]) == 1


def test_the_users_own_agent_still_has_its_notes(tmp_path: Path) -> None:
    notes = notes_of_user(tmp_path)
    with scripted_api(said("Done.")) as api:
        chat = ChatProcess(tmp_path, api.url)
        define(chat.store.root, "memory: user")
        start_reviewer(api, chat, notes)
    assert is_told(api)
    assert (notes.read_text(), notes.with_name("new.md").read_text()) == (
        f"INJECTED {NOTE}\n",
        "INJECTED",
    )


@pytest.mark.parametrize("name", ["a-b", "a/c", "a"])
def test_no_two_projects_share_notes(tmp_path: Path, name: str) -> None:
    agent = AgentDefinition("dev", "Develops", "", memory="user", is_project=True)
    roots = [tmp_path / each for each in ("a/b", name)]
    for root in roots:
        root.mkdir(parents=True, exist_ok=True)
    places = [memory_folder(agent, tmp_path / "home", root, {}) for root in roots]
    assert places[0] != places[1]
