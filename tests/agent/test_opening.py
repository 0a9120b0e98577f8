"""A chat, opened: settings, memory, commands, skills and servers are those of the client."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from scripted_api import ScriptedApi, called, said
from turnlog.agent.access import Reads
from turnlog.agent.chat.assembly import Options
from turnlog.agent.chat.opening import Chat, open_chat
from turnlog.agent.events import Ended, Event
from turnlog.agent.permissions import Kind, Mode
from turnlog.agent.tool import Fields
from turnlog.conversation.session import open_session
from turnlog.edit.check import check_session
from turnlog.format.survey import survey_file
from turnlog.store.paths import Store

SERVER = """\
from mcp.server import MCPServer

server = MCPServer("greeter")

@server.tool()
def greet(name: str) -> str:
    return f"Hello, {name}."

server.run("stdio")
"""


def send(store: Store, options: Options, *prompts: str) -> tuple[Chat, list[Event]]:
    """Open a chat and send prompts."""

    async def run() -> tuple[Chat, list[Event]]:
        chat = await open_chat(store, options)
        events = [event for prompt in prompts async for event in chat.send(prompt)]
        await chat.close()
        return chat, events

    return asyncio.run(run())


def system_of(api: ScriptedApi) -> str:
    return "\n".join(block["text"] for block in api.requests[0].body["system"])


def texts_of(api: ScriptedApi, number: int = -1) -> list[str]:
    last = api.requests[number].body["messages"][-1]
    return [each.get("text") or each.get("content") for each in last["content"]]


def put(path: Path, content: str | Fields) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")


def test_settings_choose_model_mode_and_variables(
    store: Store, project: Path, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHOP_COLOUR", raising=False)
    chosen = {"model": "claude-x", "permissions": {"defaultMode": "acceptEdits"}}
    put(store.settings, chosen | {"env": {"SHOP_COLOUR": "teal"}})
    api.replies[:] = [called(("t1", "Bash", {"command": "printenv SHOP_COLOUR"})), said("Done.")]
    chat, _ = send(store, Options(cwd=project, allow=("Bash(printenv:*)",)), "go")
    monkeypatch.delenv("SHOP_COLOUR", raising=False)
    assert (api.requests[0].body["model"], chat.parts.rules.mode) == ("claude-x", Mode.ACCEPT_EDITS)
    assert texts_of(api) == ["teal"]


def test_memory_files_are_part_of_the_system_prompt(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    put(store.root / "CLAUDE.md", "Speak plainly.")
    put(project / "CLAUDE.md", "Use tabs.")
    put(project / "deep" / "CLAUDE.md", "Use spaces here.")
    put(project / "deep" / "a.txt", "a")
    read = ("t1", "Read", {"file_path": str(project / "deep" / "a.txt")})
    api.replies[:] = [called(read), said("Done.")]
    send(store, Options(cwd=project), "go")
    assert "Speak plainly." in system_of(api)
    assert "Use tabs." in system_of(api)
    assert "Use spaces here." not in system_of(api)
    assert "Use spaces here." in texts_of(api)[1]


def test_a_command_is_recorded_as_typed_and_its_text_sent(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    put(project / ".claude" / "commands" / "fix.md", "Fix issue $ARGUMENTS.")
    chat, _ = send(store, Options(cwd=project), "/fix 12")
    typed, told = texts_of(api)
    assert "<command-name>/fix</command-name>" in typed
    assert told == "Fix issue 12."
    session = open_session(chat.parts.recorder.path)
    assert check_session(session) == []


def test_a_command_that_cannot_be_carried_out_is_not_sent(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    put(project / ".claude" / "commands" / "bad.md", "See: !`touch made`")
    _, events = send(store, Options(cwd=project), "/bad")
    end = events[-1]
    assert isinstance(end, Ended)
    assert (end.reason, api.requests) == ("blocked", [])
    assert not (project / "made").exists()


def test_mentioned_files_go_with_the_prompt(store: Store, project: Path, api: ScriptedApi) -> None:
    put(project / "a.txt", "what it says")
    send(store, Options(cwd=project), "look at @a.txt")
    assert any("what it says" in text for text in texts_of(api))


def test_the_model_is_told_of_skills_and_may_take_one_up(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    head = "---\nname: tidy\ndescription: For tidying up.\n---\n"
    put(project / ".claude" / "skills" / "tidy" / "SKILL.md", f"{head}Sweep the floor.")
    api.replies[:] = [called(("t1", "Skill", {"skill": "tidy"})), said("Done.")]
    send(store, Options(cwd=project, mode=Mode.BYPASS), "go")
    assert "- tidy: For tidying up." in system_of(api)
    assert "Sweep the floor." in texts_of(api)[0]


def test_agents_of_the_project_are_offered(store: Store, project: Path, api: ScriptedApi) -> None:
    head = "---\nname: critic\ndescription: Finds fault.\n---\n"
    put(project / ".claude" / "agents" / "critic.md", f"{head}You find fault.")
    send(store, Options(cwd=project), "go")
    (tool,) = [each for each in api.requests[0].body["tools"] if each["name"] == "Agent"]
    assert "- critic: Finds fault." in tool["description"]


def test_tools_of_servers_can_be_called_and_one_that_fails_is_told(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    put(project / "server.py", SERVER)
    good = {"command": sys.executable, "args": [str(project / "server.py")]}
    servers = {"greeter": good, "broken": {"command": "/nowhere"}}
    put(project / ".mcp.json", {"mcpServers": servers})
    put(store.settings, {"enableAllProjectMcpServers": True})
    api.replies[:] = [called(("t1", "mcp__greeter__greet", {"name": "Ada"})), said("Done.")]
    chat, _ = send(store, Options(cwd=project, mode=Mode.BYPASS), "go")
    assert "Hello, Ada." in json.dumps(texts_of(api))
    assert chat.server_states == [
        {"name": "greeter", "status": "connected"},
        {"name": "broken", "status": "failed"},
    ]
    assert len(chat.notes) == 1


def test_file_changes_are_kept_and_recorded(store: Store, project: Path, api: ScriptedApi) -> None:
    put(project / "a.txt", "old\n")
    path = str(project / "a.txt")
    edit = ("t2", "Edit", {"file_path": path, "old_string": "old", "new_string": "new"})
    api.replies[:] = [called(("t1", "Read", {"file_path": path})), called(edit), said("Done.")]
    chat, _ = send(store, Options(cwd=project, mode=Mode.ACCEPT_EDITS), "go")
    assert Path(path).read_text() == "new\n"
    (copy,) = (store.file_history / chat.parts.recorder.path.stem).iterdir()
    assert copy.read_text() == "old\n"
    survey = survey_file(chat.parts.recorder.path)
    assert survey.kinds["file-history-snapshot"] == 2
    assert [name for name, is_known in survey.count_fields() if not is_known] == []
    assert check_session(open_session(chat.parts.recorder.path)) == []


def test_hooks_of_the_settings_run(store: Store, project: Path, api: ScriptedApi) -> None:
    hook = {"hooks": [{"type": "command", "command": "echo from the start"}]}
    put(project / ".claude" / "settings.json", {"hooks": {"SessionStart": [hook]}})
    send(store, Options(cwd=project), "go")
    assert "from the start" in texts_of(api)[1]


def test_searches_leave_out_what_rules_deny_to_read(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    put(project / ".claude" / "settings.json", {"permissions": {"deny": ["Read(.env)"]}})
    put(project / ".env", "KEY=secret\n")
    put(project / "a.txt", "no secret here\n")
    grep = {"pattern": "secret", "output_mode": "content"}
    api.replies[:] = [
        called(("t1", "Grep", grep), ("t2", "Grep", {"pattern": "secret"})),
        called(("t3", "Glob", {"pattern": "*"})),
        said("Done."),
    ]
    send(store, Options(cwd=project), "look")
    told = texts_of(api, 1) + texts_of(api, 2)
    assert told[0] == "a.txt:1:no secret here"
    assert told[1] == f"Found 1 file\n{project / 'a.txt'}"
    assert str(project / "a.txt") in told[2].splitlines()
    assert ".env" not in told[2]


def test_what_is_kept_beside_the_session_may_be_read(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    chat, _ = send(store, Options(cwd=project))
    kept = chat.parts.workspace.folder / "tool-results" / "x.txt"
    put(kept, "all of it")
    verdict = chat.parts.rules.decide("Read", [Reads(kept)], chat.parts.workspace)
    assert verdict.kind is Kind.ALLOW
