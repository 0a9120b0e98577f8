"""Opening a chat: settings, memory, commands, skills and servers are those of the client."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from support.scripted_api import ScriptedApi, called, said
from turnlog.agent.chat.assembly import INTERACTIVE, PRINTED, ChatOptions, starting_mode
from turnlog.agent.chat.opening import Chat, open_chat
from turnlog.agent.config.settings import Settings
from turnlog.agent.loop.events import Event, TurnEnded
from turnlog.agent.loop.model_switch import switch
from turnlog.agent.loop.system_prompt import PLAN
from turnlog.agent.model.model_names import choose
from turnlog.agent.permissions import ApprovalMode, VerdictKind
from turnlog.agent.permissions.consent import SANDBOX, Consent
from turnlog.agent.session.resume import Resumed
from turnlog.agent.tools.task_tracking import NAMES
from turnlog.agent.workspace.access import Reads
from turnlog.conversation.session import open_session
from turnlog.edit.apply import require_idle
from turnlog.edit.check.checks import check_session
from turnlog.errors import Conflict, UsageError
from turnlog.format.json_values import Fields
from turnlog.format.survey import survey_file
from turnlog.store.catalog import describe, live_sessions, locate_session
from turnlog.store.paths import Store

SERVER = """\
from mcp.server import MCPServer

server = MCPServer("greeter")

@server.tool()
def greet(name: str) -> str:
    return f"Hello, {name}."

server.run("stdio")
"""


def send(store: Store, options: ChatOptions, *prompts: str) -> tuple[Chat, list[Event]]:
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
    chat, _ = send(store, ChatOptions(cwd=project, allow=("Bash(printenv:*)",)), "go")
    monkeypatch.delenv("SHOP_COLOUR", raising=False)
    assert (api.requests[0].body["model"], chat.parts.rules.mode) == (
        "claude-x",
        ApprovalMode.ACCEPT_EDITS,
    )
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
    send(store, ChatOptions(cwd=project), "go")
    assert "Speak plainly." in system_of(api)
    assert "Use tabs." in system_of(api)
    assert "Use spaces here." not in system_of(api)
    assert "Use spaces here." in texts_of(api)[1]


def test_a_command_is_recorded_as_typed_and_its_text_sent(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    put(project / ".claude" / "commands" / "fix.md", "Fix issue $ARGUMENTS.")
    chat, _ = send(store, ChatOptions(cwd=project), "/fix 12")
    typed, told = texts_of(api)
    assert "<command-name>/fix</command-name>" in typed
    assert told == "Fix issue 12."
    session = open_session(chat.parts.recorder.path)
    assert check_session(session) == []


def test_a_command_that_cannot_be_carried_out_is_not_sent(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    put(project / ".claude" / "commands" / "bad.md", "See: !`touch made`")
    _, events = send(store, ChatOptions(cwd=project), "/bad")
    end = events[-1]
    assert isinstance(end, TurnEnded)
    assert (end.reason, api.requests) == ("blocked", [])
    assert not (project / "made").exists()


def test_mentioned_files_go_with_the_prompt(store: Store, project: Path, api: ScriptedApi) -> None:
    put(project / "a.txt", "what it says")
    send(store, ChatOptions(cwd=project), "look at @a.txt")
    assert any("what it says" in text for text in texts_of(api))


def test_the_model_is_told_of_skills_and_may_take_one_up(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    head = "---\nname: tidy\ndescription: For tidying up.\n---\n"
    put(project / ".claude" / "skills" / "tidy" / "SKILL.md", f"{head}Sweep the floor.")
    api.replies[:] = [called(("t1", "Skill", {"skill": "tidy"})), said("Done.")]
    send(store, ChatOptions(cwd=project, mode=ApprovalMode.BYPASS), "go")
    assert "- tidy: For tidying up." in system_of(api)
    assert "Sweep the floor." in texts_of(api)[0]


def test_agents_of_the_project_are_offered(store: Store, project: Path, api: ScriptedApi) -> None:
    head = "---\nname: critic\ndescription: Finds fault.\n---\n"
    put(project / ".claude" / "agents" / "critic.md", f"{head}You find fault.")
    send(store, ChatOptions(cwd=project), "go")
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
    options = ChatOptions(cwd=project, mode=ApprovalMode.BYPASS, trusts_project=True)
    chat, _ = send(store, options, "go")
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
    chat, _ = send(store, ChatOptions(cwd=project, mode=ApprovalMode.ACCEPT_EDITS), "go")
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
    send(store, ChatOptions(cwd=project, trusts_project=True), "go")
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
    send(store, ChatOptions(cwd=project), "look")
    told = texts_of(api, 1) + texts_of(api, 2)
    assert told[0] == "a.txt:1:no secret here"
    assert told[1] == f"Found 1 file\n{project / 'a.txt'}"
    assert str(project / "a.txt") in told[2].splitlines()
    assert ".env" not in told[2]


def test_what_is_kept_beside_the_session_may_be_read(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    chat, _ = send(store, ChatOptions(cwd=project))
    kept = chat.parts.workspace.folder / "tool-results" / "x.txt"
    put(kept, "all of it")
    verdict = chat.parts.rules.decide("Read", [Reads(kept)], chat.parts.workspace)
    assert verdict.kind is VerdictKind.ALLOW


def test_a_sub_agent_starts_with_the_skills_of_its_definition(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    folder = project / ".claude" / "skills"
    put(folder / "style" / "SKILL.md", "---\ndescription: How\n---\nUse tabs. !`echo injected`\n")
    hidden = "---\ndescription: X\ndisable-model-invocation: true\n---\nHidden.\n"
    put(folder / "hidden" / "SKILL.md", hidden)
    head = "name: dev\ndescription: Develops\nskills: style, hidden, none"
    put(project / ".claude" / "agents" / "dev.md", f"---\n{head}\n---\nYou develop.\n")
    task = {"description": "Do it", "prompt": "SUB", "subagent_type": "dev"}
    api.replies[:] = [called(("t1", "Agent", task)), said("Sub."), said("Done.")]
    allow = ("Bash(echo *)", "Agent")
    send(store, ChatOptions(cwd=project, allow=allow, trusts_project=True), "go")
    assert [text.strip() for text in texts_of(api, 1)] == [
        "SUB",
        "<command-message>style</command-message>\n<command-name>style</command-name>\n"
        "<skill-format>true</skill-format>",
        f"Base directory for this skill: {folder / 'style'}\n\nUse tabs. injected",
    ]


def test_the_system_prompt_names_the_model_that_is_asked(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    async def run() -> None:
        chat = await open_chat(store, ChatOptions(cwd=project, model="opus"))
        for name in ("opus", "sonnet"):
            chat.parts.choice = choose(name, {})
            async for _ in chat.send("go"):
                pass
        await chat.close()

    asyncio.run(run())
    named = [request.body["system"][1]["text"] for request in api.requests]
    assert named == ["You are the model claude-opus-5-5.", "You are the model claude-sonnet-5-5."]


def test_the_model_is_told_that_only_a_plan_is_wanted(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    send(store, ChatOptions(cwd=project, mode=ApprovalMode.PLAN), "go")
    assert PLAN in texts_of(api)[-1]


def test_while_it_is_open_the_registry_says_so(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    async def run() -> None:
        first = await open_chat(store, ChatOptions(cwd=project))
        async for _ in first.send("go"):
            pass
        session = first.parts.recorder.path
        (path,) = store.registry.iterdir()
        held = json.loads(path.read_bytes())
        assert (held["sessionId"], held["cwd"]) == (session.stem, str(project))
        assert live_sessions(store) == {session.stem}
        with pytest.raises(Conflict, match="is open in a running client"):
            require_idle(store, session)
        same = await open_chat(store, ChatOptions(cwd=project, resume=session))
        assert same.notes == ["this session is open elsewhere, too: both would write to it"]
        await same.close()
        second = await open_chat(store, ChatOptions(cwd=project, start="clear"))
        await first.close()
        assert live_sessions(store) == {second.parts.recorder.path.stem}
        await second.close()
        assert list(store.registry.iterdir()) == []

    asyncio.run(run())


def trust(store: Store, project: Path, is_trusted: bool = True) -> None:
    """Let the client know whether the user trusts a directory."""
    state = {"projects": {str(project): {"hasTrustDialogAccepted": is_trusted}}}
    put(store.root / ".claude.json", state)


def start_dev(store: Store, project: Path, api: ScriptedApi, head: str, *calls: Fields) -> None:
    """Let a sub-agent make calls, one after the other."""
    own = f"name: dev\ndescription: Develops\n{head}"
    put(project / ".claude" / "agents" / "dev.md", f"---\n{own}\n---\nYou develop.\n")
    task = {"description": "Do it", "prompt": "SUB", "subagent_type": "dev"}
    made = [called((f"s{place}", each["tool"], each["input"])) for place, each in enumerate(calls)]
    api.replies[:] = [called(("t1", "Agent", task)), *made, said("Sub."), said("Done.")]
    send(store, ChatOptions(cwd=project, allow=("Agent",)), "go")


def test_a_sub_agent_keeps_a_memory_that_it_may_write_without_asking(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    trust(store, project)
    folder = project / ".claude" / "agent-memory" / "dev"
    put(folder / "MEMORY.md", "- the marker\n")
    (folder / "out").symlink_to(project)
    calls = [
        {"tool": "Write", "input": {"file_path": str(path), "content": "x\n"}}
        for path in (folder / "notes.md", project / "a.txt", folder / "out" / "b.txt")
    ]
    start_dev(store, project, api, "memory: project\ntools: Bash", *calls)
    body = api.requests[1].body
    assert [tool["name"] for tool in body["tools"]] == ["Bash", "Read", "Edit", "Write"]
    told = "\n".join(block["text"] for block in body["system"])
    assert f"the notes in {folder}" in told
    assert "- the marker" in told
    assert (folder / "notes.md").read_text() == "x\n"
    assert not (project / "a.txt").exists()
    assert not (project / "b.txt").exists()


@pytest.mark.parametrize(
    ("head", "settings"),
    [
        ("memory: odd", {}),
        ("disallowedTools: Bash", {}),
        ("memory: user", {"autoMemoryEnabled": False}),
    ],
)
def test_without_a_memory_it_is_told_of_none(
    store: Store, project: Path, api: ScriptedApi, head: str, settings: Fields
) -> None:
    put(store.settings, settings)
    start_dev(store, project, api, head)
    assert "memory that lasts" not in "\n".join(
        block["text"] for block in api.requests[1].body["system"]
    )
    assert not (store.root / "agent-memory").exists()


@pytest.mark.parametrize("is_trusted", [True, False])
def test_a_sub_agent_has_servers_of_its_own_where_the_directory_is_trusted(
    store: Store, project: Path, api: ScriptedApi, is_trusted: bool
) -> None:
    put(project / "greeter.py", SERVER)
    trust(store, project, is_trusted)
    head = f"mcpServers:\n  - known\n  - greeter:\n      command: {sys.executable}\n"
    start_dev(store, project, api, f"{head}      args: [greeter.py]\ntools: Bash")
    names = [[tool["name"] for tool in request.body["tools"]] for request in api.requests]
    assert names[1] == ["Bash", *(["mcp__greeter__greet"] if is_trusted else [])]
    assert "mcp__greeter__greet" not in names[0] + names[2]


@pytest.mark.parametrize("is_trusted", [True, False])
def test_a_sub_agent_may_do_more_only_where_the_directory_is_trusted(
    store: Store, project: Path, api: ScriptedApi, is_trusted: bool
) -> None:
    trust(store, project, is_trusted)
    call = {"tool": "Bash", "input": {"command": "touch made"}}
    start_dev(store, project, api, "permissionMode: bypassPermissions", call)
    assert (project / "made").exists() == is_trusted


def test_further_settings_come_before_those_of_files(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    put(store.settings, {"model": "claude-x", "permissions": {"deny": ["Bash(a)"]}})
    given = {"model": "claude-y", "permissions": {"deny": ["Bash(b)"]}}
    put(project / "more.json", given)
    for settings in ("more.json", json.dumps(given)):
        chat, _ = send(store, ChatOptions(cwd=project, settings=settings), "go")
        denied = chat.parts.rules.standing(chat.parts.workspace).deny
        assert api.requests[-1].body["model"] == "claude-y"
        assert [rule.text for rule in denied] == ["Bash(a)", "Bash(b)"]


def test_a_session_gets_its_name_with_its_first_prompt(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    chat, _ = send(store, ChatOptions(cwd=project, name="mend the cart"))
    assert not chat.parts.recorder.path.exists()
    chat, _ = send(store, ChatOptions(cwd=project, name="mend the cart"), "go", "on")
    written = chat.parts.recorder.path.read_text().splitlines()
    assert [json.loads(line)["type"] for line in written[:2]] == ["custom-title", "agent-name"]
    assert describe(locate_session(chat.parts.recorder.path)).title == "mend the cart"


def test_rules_tell_where_they_come_from(store: Store, project: Path, api: ScriptedApi) -> None:
    put(project / ".claude" / "commands" / "do.md", "---\nallowed-tools: Bash(make)\n---\nDo it.")
    options = ChatOptions(cwd=project, allow=("Edit",), deny=("Bash(rm)",), trusts_project=True)
    chat, _ = send(store, options, "/do")
    rules, workspace = chat.parts.rules, chat.parts.workspace
    assert isinstance(rules, Consent)
    rules.remember(("Bash(ls)",))
    rules.remember(("Bash(cat)",), is_kept=False)
    standing, now = rules.standing(workspace), rules.policy(workspace)
    assert [(rule.text, rule.source) for rule in (*standing.deny, *standing.allow[:-1])] == [
        ("Bash(rm)", "the command line"),
        ("Edit", "the command line"),
        ("Bash(ls)", str(project / ".claude" / "settings.local.json")),
        ("Bash(cat)", "an answer in this session"),
    ]
    assert [rule.text for rule in now.allow if rule not in standing.allow] == ["Bash(make)"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
def test_root_is_asked_unless_nothing_can_be_harmed(
    store: Store, project: Path, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SANDBOX)
    with pytest.raises(UsageError, match="root may not"):
        send(store, ChatOptions(cwd=project, mode=ApprovalMode.BYPASS))
    put(
        store.settings, {"permissions": {"defaultMode": "bypassPermissions"}, "env": {SANDBOX: "1"}}
    )
    with pytest.raises(UsageError, match="root may not"):
        send(store, ChatOptions(cwd=project))


@pytest.mark.parametrize(
    ("entrypoint", "mode"),
    [(PRINTED, ApprovalMode.DEFAULT), (INTERACTIVE, ApprovalMode.ACCEPT_EDITS)],
)
def test_a_session_chooses_its_mode_only_where_a_person_sees_it(
    entrypoint: str, mode: ApprovalMode, tmp_path: Path
) -> None:
    options = ChatOptions(cwd=tmp_path, entrypoint=entrypoint)
    resumed = Resumed(mode=ApprovalMode.ACCEPT_EDITS)
    assert starting_mode(options, Settings(tmp_path, ()), resumed) is mode


def test_the_task_list_is_offered_to_models_that_need_one(
    store: Store, project: Path, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLAUDE_CODE_ENABLE_TODO_TOOLS", raising=False)
    models = ("claude-opus-5-5", "claude-sonnet-4-5", "claude-opus-5-5")

    async def run() -> None:
        chat = await open_chat(store, ChatOptions(cwd=project, model=models[0]))
        for model in models:
            switch(chat.parts, choose(model, os.environ), model, "command")
            _ = [event async for event in chat.send("go")]
        await chat.close()

    asyncio.run(run())
    offered = [{tool["name"] for tool in each.body["tools"]} for each in api.requests]
    assert [each & NAMES for each in offered] == [set(), NAMES, set()]


def test_a_task_list_that_is_asked_for_stays(store: Store, project: Path, api: ScriptedApi) -> None:
    options = ChatOptions(cwd=project, model="claude-opus-5-5", tools=("Read", "TaskCreate"))
    send(store, options, "go")
    assert {tool["name"] for tool in api.requests[0].body["tools"]} == {"Read", "TaskCreate"}


def test_directories_of_settings_and_options_are_in_the_workspace(
    store: Store, project: Path, api: ScriptedApi, tmp_path: Path
) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    added = {"additionalDirectories": [str(one), str(two)]}
    store.settings.parent.mkdir(parents=True, exist_ok=True)
    store.settings.write_text(json.dumps({"permissions": added}))
    chat, _ = send(store, ChatOptions(cwd=project, directories=(three,)))
    assert chat.parts.workspace.directories == [one, two, three]
