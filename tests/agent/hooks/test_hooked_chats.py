"""Hooks in whole chats: from settings and from the heads of skills and agents."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from support.hook_server import HookServer, Reply, hook_server
from support.scripted_api import ScriptedApi, called, said
from turnlog.agent.chat.assembly import ChatOptions
from turnlog.agent.chat.opening import open_chat
from turnlog.agent.loop.events import Event, Notice, TurnEnded
from turnlog.agent.loop.notifications import NOTICE, listen, next_notice
from turnlog.conversation.session import open_session
from turnlog.edit.check.checks import check_session
from turnlog.format.json_values import Fields
from turnlog.store.catalog import describe, locate_session
from turnlog.store.paths import Store

SERVER = str(Path(__file__).parents[2] / "support/mcp_server.py")


@pytest.fixture
def server() -> Iterator[HookServer]:
    with hook_server() as running:
        yield running


@pytest.fixture
def heard(project: Path) -> Path:
    """The file in which a hook records its payload."""
    return project / "heard"


def put(path: Path, content: str | Fields) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")


def send(store: Store, options: ChatOptions, *prompts: str) -> list[Event]:
    async def run() -> list[Event]:
        chat = await open_chat(store, options)
        events = [event for prompt in prompts async for event in chat.send(prompt)]
        await chat.close()
        return events

    events = asyncio.run(run())
    for path in store.root.glob("projects/*/*.jsonl"):
        assert [finding.message for finding in check_session(open_session(path))] == []
    return events


def hooks(**handlers: Fields) -> Fields:
    return {"hooks": {event: [{"hooks": [handler]}] for event, handler in handlers.items()}}


def log(heard: Path) -> Fields:
    return {"type": "command", "command": f"cat >> {heard}"}


def told_to(heard: Path) -> list[Fields]:
    lines = heard.read_text("utf-8").splitlines() if heard.exists() else []
    return [json.loads(line) for line in lines]


def bash(*commands: str) -> list[Fields]:
    return [{"command": each} for each in commands]


def last_texts(api: ScriptedApi) -> str:
    return json.dumps(api.requests[-1].body["messages"])


def test_an_address_may_tell_the_model_something(
    store: Store, project: Path, api: ScriptedApi, server: HookServer
) -> None:
    answer = {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit"}}
    answer["hookSpecificOutput"]["additionalContext"] = "it rains"
    server.replies["/prompt"] = Reply(json.dumps(answer))
    put(store.settings, hooks(UserPromptSubmit={"type": "http", "url": f"{server.url}/prompt"}))
    send(store, ChatOptions(cwd=project), "go")
    assert server.posted[0].body["prompt"] == "go"
    assert "it rains" in last_texts(api)


def test_the_settings_say_which_addresses_may_be_reached(
    store: Store, project: Path, api: ScriptedApi, server: HookServer
) -> None:
    allowed = {"allowedHttpHookUrls": ["https://hooks.example.com/*"]}
    put(store.settings, allowed | hooks(Stop={"type": "http", "url": server.url}))
    events = send(store, ChatOptions(cwd=project), "go")
    assert server.posted == []
    assert any("allowedHttpHookUrls" in each.text for each in events if isinstance(each, Notice))


def test_a_tool_of_a_server_is_called_with_what_happened(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    servers = {"shop": {"command": sys.executable, "args": [SERVER]}}
    put(project / ".mcp.json", {"mcpServers": servers})
    given = {"a": "${duration_ms}", "b": "${tool_input.timeout}"}
    hook = {"type": "mcp_tool", "server": "shop", "tool": "add", "input": given}
    broken = {"type": "mcp_tool", "server": "shop", "tool": "fail"}
    missing = {"type": "mcp_tool", "server": "shop", "tool": "nothing"}
    absent = {"type": "mcp_tool", "server": "bank", "tool": "pay"}
    post: Fields = {"hooks": [broken, missing, absent]}
    told = {"type": "mcp_tool", "server": "shop", "tool": "add", "input": {"a": 20, "b": "1"}}
    settings = {"hooks": {"PreToolUse": [{"hooks": [hook]}], "PostToolUse": [post]}}
    settings["hooks"]["UserPromptSubmit"] = [{"hooks": [told]}]
    put(store.settings, settings | {"enableAllProjectMcpServers": True})
    api.replies[:] = [called(("t1", "Bash", {"command": "echo x", "timeout": 7000})), said("Done.")]
    events = send(store, ChatOptions(cwd=project, trusts_project=True), "go")
    assert "UserPromptSubmit hook additional context: 21" in last_texts(api)
    errors = [each.text for each in events if isinstance(each, Notice) and each.is_error]
    assert [error.partition("hook error: ")[2] for error in errors[-3:]] == [
        "Error executing tool fail: out of stock",
        "MCP server shop has no tool nothing",
        "MCP server bank is not connected",
    ]


def test_a_model_may_keep_a_chat_going(store: Store, project: Path, api: ScriptedApi) -> None:
    put(store.settings, hooks(Stop={"type": "prompt", "prompt": "Were the tests run?"}))
    answers = [said("Done."), said('{"ok": false, "reason": "no"}'), said("Ran.")]
    api.replies[:] = [*answers, said('{"ok": true}')]
    end = send(store, ChatOptions(cwd=project), "go")[-1]
    assert isinstance(end, TurnEnded)
    assert (end.text, end.requests) == ("Ran.", 2)


def test_what_is_wrong_at_the_start_is_told(store: Store, project: Path, api: ScriptedApi) -> None:
    say = {"type": "command", "command": 'echo \'{"systemMessage": "welcome"}\''}
    wrong = {"type": "http", "url": "http://127.0.0.1:1"}
    put(store.settings, {"hooks": {"SessionStart": [{"hooks": [say, wrong]}]}})

    async def notes() -> list[str]:
        chat = await open_chat(store, ChatOptions(cwd=project))
        await chat.close()
        return chat.notes

    told = "SessionStart:startup hook error: hooks of type http are not supported at SessionStart"
    assert asyncio.run(notes()) == [told, "welcome"]


def test_a_hook_in_the_background_may_start_a_turn(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    rewake = {"type": "command", "command": "echo 'build broke' >&2; exit 2", "asyncRewake": True}
    put(store.settings, hooks(UserPromptSubmit=rewake))

    async def run() -> str:
        chat = await open_chat(store, ChatOptions(cwd=project))
        woken = asyncio.Event()
        listen(chat.parts, woken.set)
        _ = [event async for event in chat.send("go")]
        await woken.wait()
        notice = next_notice(chat.parts)
        assert notice
        _ = [event async for event in chat.send(notice, NOTICE)]
        await chat.close()
        return notice

    assert "build broke" in asyncio.run(run())
    assert "build broke" in last_texts(api)


def test_an_agent_may_read_the_session_and_nothing_else_outside(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    put(store.settings, hooks(Stop={"type": "agent", "prompt": "All well?"}))
    put(project.parent / "other.txt", "not for it")
    session = str(uuid4())
    path = store.project_of(str(project)) / f"{session}.jsonl"
    reads = [
        ("h1", "Read", {"file_path": str(path)}),
        ("h2", "Read", {"file_path": "../other.txt"}),
    ]
    decided = called(("h3", "StructuredOutput", {"ok": True}))
    api.replies[:] = [said("Done."), called(*reads), decided]
    send(store, ChatOptions(cwd=project, session_id=session), "look around")
    found, refused = api.requests[2].body["messages"][-1]["content"]
    assert "look around" in found["content"]
    assert "nobody can be asked" in refused["content"]


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit"])
def test_a_hook_may_name_the_session(
    store: Store, project: Path, api: ScriptedApi, event: str
) -> None:
    named = {"hookEventName": event, "sessionTitle": " Mend  the cart"}
    say = f"echo '{json.dumps({'hookSpecificOutput': named})}'"
    put(store.settings, hooks(**{event: {"type": "command", "command": say}}))
    send(store, ChatOptions(cwd=project), "go")
    (path,) = store.root.glob("projects/*/*.jsonl")
    assert describe(locate_session(path)).title == "Mend the cart"


def test_hooks_follow_where_commands_go(
    store: Store, project: Path, api: ScriptedApi, heard: Path
) -> None:
    (project / "sub").mkdir()
    leave = f"cat >> {heard}; echo export PLACE=$PWD >> $CLAUDE_ENV_FILE"
    moved = {"type": "command", "command": leave}
    put(store.settings, hooks(CwdChanged=moved, PostToolUse=log(heard)))
    commands = bash("cd sub", "echo $PLACE")
    calls = [called((f"t{n}", "Bash", each)) for n, each in enumerate(commands)]
    api.replies[:] = [*calls, said("Done.")]
    send(store, ChatOptions(cwd=project, allow=("Bash",)), "go")
    events = [(each["hook_event_name"], each["cwd"]) for each in told_to(heard)]
    place = str(project / "sub")
    assert events == [("CwdChanged", place), ("PostToolUse", place), ("PostToolUse", place)]
    assert told_to(heard)[0]["old_cwd"] == str(project)
    assert told_to(heard)[2]["tool_response"]["stdout"] == place


def test_a_typed_command_is_told_before_it_is_a_prompt(
    store: Store, project: Path, api: ScriptedApi, heard: Path
) -> None:
    put(project / ".claude" / "commands" / "hello.md", "Greet $ARGUMENTS.")
    say = {"type": "command", "command": f"cat > {heard}; echo be brief"}
    put(store.settings, hooks(UserPromptExpansion=say))
    send(store, ChatOptions(cwd=project), "/hello Bob")
    (told,) = told_to(heard)
    names = ("expansion_type", "command_name", "command_args", "command_source", "prompt")
    expected = ["slash_command", "hello", "Bob", "projectSettings", "/hello Bob"]
    assert [told[name] for name in names] == expected
    assert "UserPromptExpansion hook additional context: be brief" in last_texts(api)


def test_a_typed_command_may_be_blocked(store: Store, project: Path, api: ScriptedApi) -> None:
    put(project / ".claude" / "commands" / "deploy.md", "Deploy.")
    block = {"type": "command", "command": "echo 'not on Fridays' >&2; exit 2"}
    groups = {"UserPromptExpansion": [{"matcher": "deploy", "hooks": [block]}]}
    put(store.settings, {"hooks": groups})
    end = send(store, ChatOptions(cwd=project), "/deploy")[-1]
    assert isinstance(end, TurnEnded)
    assert (end.reason, end.text) == ("blocked", "not on Fridays")
    assert api.requests == []


def test_hooks_hear_of_each_memory_file(
    store: Store, project: Path, api: ScriptedApi, heard: Path
) -> None:
    put(project / "CLAUDE.md", "Be kind. @more.md")
    put(project / "more.md", "And brief.")
    put(project / "sub" / "CLAUDE.md", "Of sub.")
    put(project / ".claude" / "rules" / "txt.md", "---\npaths: '**/*.txt'\n---\nOf texts.")
    put(project / "sub" / "a.txt", "alpha")
    keep = "part=$(mktemp -p .); cat > $part; mv $part told.$$"
    put(store.settings, hooks(InstructionsLoaded={"type": "command", "command": keep}))
    api.replies[:] = [called(("t1", "Read", {"file_path": "sub/a.txt"})), said("Done.")]
    until_all = "until [ $(ls told.* | wc -l) = 4 ]; do sleep 0.01; done"
    wait = hooks(Stop={"type": "command", "command": until_all})
    put(project / ".claude" / "settings.json", wait)
    send(store, ChatOptions(cwd=project, trusts_project=True), "go")
    told = [json.loads(path.read_bytes()) for path in project.glob("told.*")]
    by_name = {Path(each["file_path"]).relative_to(project).as_posix(): each for each in told}
    assert {name: each["load_reason"] for name, each in by_name.items()} == {
        "CLAUDE.md": "session_start",
        "more.md": "include",
        "sub/CLAUDE.md": "nested_traversal",
        ".claude/rules/txt.md": "path_glob_match",
    }
    assert by_name["more.md"]["parent_file_path"] == str(project / "CLAUDE.md")
    assert by_name["sub/CLAUDE.md"]["trigger_file_path"] == str(project / "sub" / "a.txt")
    assert by_name[".claude/rules/txt.md"]["globs"] == ["**/*.txt"]
    assert {each["memory_type"] for each in told} == {"Project"}


@pytest.mark.parametrize(("is_fork", "source"), [(False, "resume"), (True, "fork")])
def test_hooks_are_told_how_a_session_goes_on(
    store: Store, project: Path, api: ScriptedApi, heard: Path, is_fork: bool, source: str
) -> None:
    send(store, ChatOptions(cwd=project), "go")
    (path,) = store.root.glob("projects/*/*.jsonl")
    put(store.settings, hooks(SessionStart=log(heard)))
    send(store, ChatOptions(cwd=project, resume=path, is_fork=is_fork), "go on")
    assert told_to(heard)[0]["source"] == source


SKILL = """\
---
name: careful
description: Be careful
hooks:
  PreToolUse:
    - matcher: Bash
      hooks:
        - type: command
          command: cat >> {heard}
          once: {once}
---
Take care.
"""


@pytest.mark.parametrize(("once", "count"), [("true", 1), ("false", 3)])
def test_a_skill_brings_hooks_for_the_rest_of_the_session(
    store: Store, project: Path, api: ScriptedApi, heard: Path, once: str, count: int
) -> None:
    text = SKILL.format(heard=heard, once=once)
    put(project / ".claude" / "skills" / "careful" / "SKILL.md", text)
    calls = [called((f"t{n}", "Bash", {"command": f"echo {n}"})) for n in range(4)]
    api.replies[:] = [calls[0], said("Done."), calls[1], calls[2], said("Done."), calls[3]]
    api.replies += [said("Done.")]
    options = ChatOptions(cwd=project, allow=("Bash",), trusts_project=True)
    send(store, options, "go", "/careful", "go on")
    assert [each["tool_input"]["command"] for each in told_to(heard)] == [
        f"echo {n}" for n in range(1, 1 + count)
    ]


AGENT = """\
---
name: checker
description: Checks
hooks:
  PreToolUse:
    - hooks:
        - type: command
          command: cat >> {heard}
  Stop:
    - hooks:
        - type: command
          command: cat >> {heard}
---
You check.
"""


@pytest.mark.parametrize("is_trusted", [True, False])
def test_an_agent_of_a_trusted_directory_brings_hooks_for_itself(
    store: Store, project: Path, api: ScriptedApi, heard: Path, is_trusted: bool
) -> None:
    put(project / ".claude" / "agents" / "checker.md", AGENT.format(heard=heard))
    state = {"projects": {str(project): {"hasTrustDialogAccepted": is_trusted}}}
    put(store.client_state(), state)
    task = {"description": "Check", "prompt": "check it", "subagent_type": "checker"}
    inside = called(("s1", "Bash", {"command": "echo inside"}))
    after = called(("t2", "Bash", {"command": "echo outside"}))
    api.replies[:] = [called(("t1", "Agent", task)), inside, said("Fine."), after, said("Done.")]
    send(store, ChatOptions(cwd=project, allow=("Bash",)), "go")
    events = [each["hook_event_name"] for each in told_to(heard)]
    assert events == (["PreToolUse", "SubagentStop"] if is_trusted else [])


def test_hooks_know_the_calls_of_a_sub_agent_by_the_prompt_of_the_user(
    store: Store, project: Path, api: ScriptedApi, heard: Path
) -> None:
    log = {"type": "command", "command": f"cat >> {heard}"}
    put(store.settings, hooks(UserPromptSubmit=log, PreToolUse=log, Stop=log))
    task = {"description": "Check", "prompt": "check it", "subagent_type": "general-purpose"}
    inside = called(("s1", "Bash", {"command": "echo inside"}))
    api.replies[:] = [called(("t1", "Agent", task)), inside, said("Fine."), said("Done.")]
    send(store, ChatOptions(cwd=project, allow=("Bash",)), "go")
    told = told_to(heard)
    assert [each["hook_event_name"] for each in told] == [
        *("UserPromptSubmit", "PreToolUse", "PreToolUse", "Stop")
    ]
    assert len({each["prompt_id"] for each in told}) == 1


def test_hooks_of_a_sub_agent_judge_its_own_conversation(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    put(store.settings, hooks(SubagentStop={"type": "prompt", "prompt": "Done?"}))
    task = {"description": "Look", "prompt": "look at it", "subagent_type": "general-purpose"}
    api.replies[:] = [called(("t1", "Agent", task)), said("Looked."), said('{"ok": true}')]
    api.replies += [said("Done.")]
    send(store, ChatOptions(cwd=project), "go")
    judged = api.requests[2].body["messages"]
    assert "look at it" in json.dumps(judged[0])
    assert "Looked." in json.dumps(judged[1])
