"""The control protocol line by line: allowed and forbidden requests, and bad input."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from support.scripted_api import ScriptedApi, called, said
from turnlog.agent.chat.assembly import PRINTED, ChatOptions
from turnlog.agent.config.plugins import read_plugin
from turnlog.agent.headless.hosted_chat import Console, HostedOptions, run_hosted
from turnlog.agent.headless.prompt_lines import read_prompts
from turnlog.agent.mcp.server_config import given_servers, listed_servers
from turnlog.agent.permissions import ApprovalMode
from turnlog.agent.workspace.project_directories import SettingSource
from turnlog.cli.host_options import (
    ENTRYPOINT,
    ONLY_HOSTED,
    command_line_agents,
    entrypoint,
    require_host,
)
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store

DENIED = {"toolName": "Bash", "ruleContent": "curl:*"}
TOUCH = ("t1", "Bash", {"command": "touch new"})
Respond = Callable[[Fields], Fields | None]


class Program:
    """Drives a chat: initializes it, sends prompts, and answers requests until the result."""

    def __init__(self, store: Store, project: Path) -> None:
        self.store = store
        self.project = project
        self.options = ChatOptions(cwd=project, entrypoint=PRINTED, model="opus")
        self.wanted = HostedOptions(asks_host=True)
        self.hooks: Fields = {}
        self.more: Fields = {}
        """Further fields of `initialize`."""
        self.respond: Respond = lambda request: {"behavior": "allow"}
        """Returns the response to a request of turnlog; None to close the stream instead."""
        self.messages: list[Fields] = []
        self.complaints: list[str] = []
        self._lines: asyncio.Queue[str] = asyncio.Queue()

    def run(self, *lines: str | Fields) -> int:
        """Send lines, answer requests, and close the stream after the last result.

        Each prompt waits for the result of the one before: prompts that wait are answered together.
        """
        self._lines = asyncio.Queue()
        begin = {"type": "control_request", "request_id": "0"}
        self._send(begin | {"request": {"subtype": "initialize", "hooks": self.hooks} | self.more})
        self._later = list(lines)
        self._send_on()
        self._left = sum(map(_is_prompt, lines))
        if not self._left:
            self._lines.put_nowait("")
        console = Console(self._read(), self._take, self.complaints.append)
        return asyncio.run(run_hosted(self.store, lambda: self.options, self.wanted, console))

    def told(self, kind: str) -> list[Fields]:
        return [each for each in self.messages if each["type"] == kind]

    def requests(self, subtype: str) -> list[Fields]:
        every = [each["request"] for each in self.told("control_request")]
        return [each for each in every if each["subtype"] == subtype]

    def responses(self) -> dict[str, Fields]:
        every = [each["response"] for each in self.told("control_response")]
        return {each["request_id"]: each for each in every}

    def _send_on(self) -> None:
        """Send the next prompt, and what comes before the one after it."""
        has_prompt = False
        while self._later and not (has_prompt and _is_prompt(self._later[0])):
            has_prompt = has_prompt or _is_prompt(self._later[0])
            self._send(self._later.pop(0))

    def _send(self, line: str | Fields) -> None:
        self._lines.put_nowait(line if isinstance(line, str) else json.dumps(line))

    async def _read(self) -> AsyncIterator[str]:
        while line := await self._lines.get():
            yield line

    def _take(self, text: str) -> None:
        message: Fields = json.loads(text)
        self.messages.append(message)
        if message["type"] == "control_request":
            answer = self.respond(message["request"])
            if answer is None:
                self._lines.put_nowait("")
                return
            body = {"subtype": "success", "request_id": message["request_id"], "response": answer}
            self._send({"type": "control_response", "response": body})
        elif message["type"] == "result":
            self._left -= 1
            self._send_on()
            if not self._left:
                self._lines.put_nowait("")


def _is_prompt(line: str | Fields) -> bool:
    return isinstance(line, dict) and line["type"] == "user"


@pytest.fixture
def program(store: Store, project: Path, api: ScriptedApi) -> Program:
    api.replies[:] = [called(TOUCH), said("Done.")]
    return Program(store, project)


def prompt(text: str = "go", **more: Any) -> Fields:
    return {"type": "user", "message": {"role": "user", "content": text}} | more


def asking(subtype: str, request_id: str = "1", **more: Any) -> Fields:
    request = {"subtype": subtype} | more
    return {"type": "control_request", "request_id": request_id, "request": request}


def test_a_program_decides_about_calls(program: Program) -> None:
    assert program.run(prompt()) == 0
    (request,) = program.requests("can_use_tool")
    assert (request["tool_name"], request["input"]) == ("Bash", {"command": "touch new"})
    assert (program.project / "new").exists()


@pytest.mark.parametrize("answer", [{}, {"behavior": "maybe"}, {"behavior": ["allow"]}])
def test_an_unclear_answer_is_no_consent(program: Program, answer: Fields) -> None:
    program.respond = lambda request: answer
    program.run(prompt())
    assert not (program.project / "new").exists()


def test_a_closed_stream_is_no_consent(program: Program) -> None:
    program.respond = lambda request: None
    program.run(prompt())
    assert not (program.project / "new").exists()
    (result,) = program.told("result")
    assert [each["tool_name"] for each in result["permission_denials"]] == ["Bash"]


def test_rules_deny_what_a_program_has_changed(program: Program) -> None:
    program.options = replace(program.options, deny=("Bash(touch secret)",))
    changed = {"behavior": "allow", "updatedInput": {"command": "touch secret"}}
    program.respond = lambda request: changed
    program.run(prompt())
    assert [each.name for each in program.project.iterdir()] == []


def test_rules_deny_before_a_program_is_asked(program: Program) -> None:
    program.options = replace(program.options, deny=("Bash(touch new)",))
    program.run(prompt())
    assert program.requests("can_use_tool") == []


@pytest.mark.parametrize("mode", [None, ApprovalMode.ACCEPT_EDITS])
def test_an_answer_does_not_turn_off_all_questions(
    program: Program, api: ScriptedApi, mode: ApprovalMode | None
) -> None:
    again = ("t2", "Bash", {"command": "curl example.com"})
    api.replies[:] = [called(("t1", "Bash", {"command": "make"})), called(again), said("Done.")]
    program.options = replace(program.options, mode=mode)
    update = {"type": "setMode", "mode": "bypassPermissions", "destination": "session"}
    answers = [{"behavior": "allow", "updatedPermissions": [update]}, {"behavior": "deny"}]
    program.respond = lambda request: answers.pop(0)
    program.run(prompt())
    assert len(program.requests("can_use_tool")) == 2


@pytest.mark.parametrize(
    "update",
    [
        {"type": "removeRules", "behavior": "deny", "rules": [DENIED]},
        {"type": "replaceRules", "behavior": "deny", "rules": []},
        {"type": "unknown", "behavior": "allow", "rules": [{"toolName": "Bash"}]},
    ],
)
def test_an_answer_does_not_lift_rules_of_the_command_line(
    program: Program, api: ScriptedApi, update: Fields
) -> None:
    calls = [("t1", "Bash", {"command": "make"}), ("t2", "Bash", {"command": "curl example.com"})]
    calls.append(("t3", "Bash", {"command": "make all"}))
    api.replies[:] = [*map(called, calls), said("Done.")]
    program.options = replace(program.options, deny=("Bash(curl:*)",))
    answers = [{"behavior": "allow", "updatedPermissions": [update]}, {"behavior": "deny"}]
    program.respond = lambda request: answers.pop(0)
    program.run(prompt())
    asked = [each["input"]["command"] for each in program.requests("can_use_tool")]
    assert asked == ["make", "make all"]


def test_a_session_started_for_it_may_bypass_permissions(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IS_SANDBOX", "1")  # it may be root who runs the tests
    switch = asking("set_permission_mode", mode="bypassPermissions")
    program.run(switch, prompt())
    assert program.responses()["1"]["error_code"] == "bypass_not_launched"
    (program.project / "new").unlink()
    program.options = replace(program.options, allows_bypass=True)
    program.run(switch, prompt())
    assert program.responses()["1"]["response"] == {"mode": "bypassPermissions"}


def test_settings_cannot_call_hooks_of_a_program(program: Program) -> None:
    folder = program.project / ".claude"
    folder.mkdir()
    handler = {"type": "callback", "callback": "hook_0"}
    settings = {"hooks": {"PreToolUse": [{"hooks": [handler]}]}}
    (folder / "settings.json").write_text(json.dumps(settings))
    program.options = replace(
        program.options, setting_sources=frozenset({SettingSource.PROJECT}), allow=("Bash",)
    )
    program.hooks = {"Stop": [{"matcher": None, "hookCallbackIds": ["hook_0"]}]}
    program.respond = lambda request: {}
    program.run(prompt())
    events = [each["input"]["hook_event_name"] for each in program.requests("hook_callback")]
    assert events == ["Stop"]


def test_only_the_command_line_names_servers_of_a_program() -> None:
    server = {"calc": {"type": "sdk", "name": "calc"}}
    for is_project in (True, False):
        assert listed_servers(server, {}, is_project).configs == {}
    given = given_servers([json.dumps({"mcpServers": server})], Path(), {})
    assert list(given.configs) == ["calc"]


def test_hooks_of_an_untrusted_project_do_not_run(program: Program) -> None:
    folder = program.project / ".claude"
    folder.mkdir()
    handler = {"type": "command", "command": "touch hooked"}
    settings = {"hooks": {"UserPromptSubmit": [{"hooks": [handler]}]}}
    (folder / "settings.json").write_text(json.dumps(settings))
    program.run(prompt())
    assert not (program.project / "hooked").exists()
    assert any("not trusted" in each for each in program.complaints)
    program.options = replace(program.options, setting_sources=frozenset({SettingSource.PROJECT}))
    program.run(prompt())
    assert (program.project / "hooked").exists()


def test_requests_that_make_no_sense_get_errors(program: Program) -> None:
    odd = [
        asking("wat", "1"),
        {"type": "control_request", "request_id": "2"},
        {"type": "control_request", "request_id": "3", "request": {"subtype": 7}},
        asking("set_permission_mode", "4", mode="wat"),
        asking("set_max_thinking_tokens", "5", max_thinking_tokens="many"),
        asking("mcp_toggle", "6", serverName="none", enabled=True),
        asking("initialize", "7"),
        asking("rewind_files", "8", user_message_id="x"),
    ]
    program.run(*odd, prompt())
    found = {key: each["subtype"] for key, each in program.responses().items()}
    assert found == {"0": "success"} | {str(each): "error" for each in range(1, 9)}
    assert program.told("result")[0]["result"] == "Done."


@pytest.mark.parametrize(("mode", "name"), [("auto", "acceptEdits"), ("manual", "default")])
def test_modes_have_other_names(program: Program, mode: str, name: str) -> None:
    program.run(asking("set_permission_mode", "1", mode=mode), prompt())
    assert program.responses()["1"]["response"] == {"mode": name}


def test_unknown_messages_and_late_answers_are_ignored(program: Program) -> None:
    late = {"subtype": "success", "request_id": "gone", "response": {"behavior": "allow"}}
    lines: list[Fields] = [
        {"type": "keep_alive"},
        {"type": "control_response", "response": late},
        {"type": "control_response"},
        {"type": "control_cancel_request", "request_id": "gone"},
        prompt(),
    ]
    assert program.run(*lines) == 0


@pytest.mark.parametrize("line", ["not JSON", "[1]", '{"type":"user"}', '"user"', "[" * 100_000])
def test_lines_that_cannot_be_read_end_the_session(program: Program, line: str) -> None:
    with pytest.raises(UsageError):
        program.run(line, prompt())


@pytest.mark.parametrize("block", [5, None, {}, {"type": "text"}, {"type": "text", "text": 5}])
def test_a_prompt_of_something_else_than_blocks_ends_the_session(
    program: Program, block: object
) -> None:
    with pytest.raises(UsageError):
        program.run({"type": "user", "message": {"role": "user", "content": [block]}}, prompt())


@pytest.mark.parametrize("line", ["[" * 100_000, '{"type":"user","message":{"content":[5]}}'])
def test_a_printed_chat_refuses_lines_that_are_no_prompts(line: str) -> None:
    async def lines() -> AsyncIterator[str]:
        yield line

    async def read() -> None:
        async for _ in read_prompts(lines()):
            pass

    with pytest.raises(UsageError):
        asyncio.run(read())


def test_a_prompt_keeps_its_uuid_unless_it_is_taken(program: Program, api: ScriptedApi) -> None:
    api.replies[:] = [said("Hi.")]
    uuid = "aaaaaaaa-0000-4000-8000-000000000001"
    program.wanted = HostedOptions(replays=True)
    program.run(prompt("a", uuid=uuid), prompt("b", uuid=uuid), prompt("c", uuid="../x"))
    first, *others = [each["uuid"] for each in program.told("user")]
    assert first == uuid
    assert len({first, *others}) == 3
    session = next(program.store.projects.glob("*/*.jsonl")).read_text()
    assert all(each in session for each in others)


def test_the_budget_is_that_of_all_turns(program: Program, api: ScriptedApi) -> None:
    api.replies[:] = [said("Hi.")]
    limits = replace(program.options.limits, max_budget=0.00003)
    program.options = replace(program.options, limits=limits)
    program.run(prompt("a"), prompt("b"))
    costs = [each["total_cost_usd"] for each in program.told("result")]
    assert costs == pytest.approx([0.000024, 0.000048])


@pytest.mark.parametrize(
    ("named", "found"), [("sdk-py", "sdk-py"), ("cli", "x"), ("", "x"), ("A b", "x")]
)
def test_a_program_is_never_a_terminal(
    monkeypatch: pytest.MonkeyPatch, named: str, found: str
) -> None:
    monkeypatch.setenv(ENTRYPOINT, named)
    assert entrypoint("x") == found


@pytest.mark.parametrize("name", ONLY_HOSTED)
def test_options_for_programs_need_one(name: str) -> None:
    streams = {"input_format": "stream-json", "output_format": "stream-json"}
    given: Fields = dict.fromkeys(ONLY_HOSTED, None) | streams | {"is_printed": True}
    text = given | {"input_format": "text"}
    require_host(text)
    for is_printed in (True, False):
        require_host(given | {name: True, "is_printed": is_printed})
    with pytest.raises(UsageError):
        require_host(text | {name: True})


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 5}', '{"a": {"description": "d"}}'])
def test_agents_of_the_command_line_are_checked(text: str) -> None:
    with pytest.raises(UsageError):
        command_line_agents(text)


@pytest.mark.parametrize("name", ["a$(id)", 'a"b', "a;b", "a b c`d"])
def test_plugins_have_harmless_paths(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(UsageError):
        read_plugin(tmp_path / name)


@pytest.mark.parametrize("name", ["a\0b", "a" * 5_000, "loop/x"])
def test_plugins_at_impossible_paths_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(UsageError, match="is not a directory"):
        read_plugin(tmp_path / name)


@pytest.mark.parametrize("text", ["[]", "{", '{"name": "../x"}', "[" * 100_000])
def test_broken_plugins_are_refused(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "plugin" / ".claude-plugin"
    folder.mkdir(parents=True)
    (folder / "plugin.json").write_text(text)
    with pytest.raises(UsageError):
        read_plugin(tmp_path / "plugin")


def test_a_sub_agent_is_announced_with_its_task(program: Program, api: ScriptedApi) -> None:
    task = {"description": "Look", "prompt": "look", "subagent_type": "general-purpose"}
    api.replies[:] = [called(("t1", "Agent", task)), said("Seen."), said("Done.")]
    program.run(prompt())
    (started,) = [each for each in program.told("system") if each["subtype"] == "task_started"]
    assert started["tool_use_id"] == "t1"
    assert {name: started[name] for name in task} == task


def test_only_models_with_effort_levels_list_them(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_DEFAULT_OPUS_MODEL", "qwen3-coder")
    program.run()
    usual, *newest = program.responses()["0"]["response"]["models"]
    assert (usual["resolvedModel"], usual["supportedEffortLevels"]) == ("qwen3-coder", [])
    assert all("high" in each["supportedEffortLevels"] for each in newest)


def test_options_sent_with_initialize_count(program: Program, api: ScriptedApi) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    program.more = {
        "systemPrompt": ["Be brief.", "Be kind."],
        "appendSystemPrompt": "Be right.",
        "title": "the title",
        "jsonSchema": schema,
        "sdkMcpServers": ["shop"],
        "mcpServers": {"broken": {"command": "/does/not/exist"}},
    }
    program.respond = lambda request: {"mcp_response": {"error": {"code": 1, "message": "no"}}}
    api.replies[:] = [called(("t1", "StructuredOutput", {"name": "a"})), said("Done.")]
    program.run(prompt())
    system = json.dumps(api.requests[0].body["system"])
    assert all(text in system for text in ("Be brief.", "Be kind.", "Be right."))
    assert program.told("result")[0]["structured_output"] == {"name": "a"}
    assert {each["server_name"] for each in program.requests("mcp_message")} == {"shop"}
    assert any("broken" in each for each in program.complaints)
    (session,) = program.store.project_of(str(program.project)).glob("*.jsonl")
    assert '"the title"' in session.read_text("utf-8")


def test_an_empty_system_prompt_is_a_prompt(program: Program, api: ScriptedApi) -> None:
    program.more = {"systemPrompt": [""]}
    api.replies[:] = [said("Hello.")]
    program.run(prompt())
    assert "turnlog" not in json.dumps(api.requests[0].body["system"][0])


def test_a_prompt_of_blocks_is_not_sent_back(program: Program, api: ScriptedApi) -> None:
    api.replies[:] = [said("Hello.")]
    blocks = [{"type": "text", "text": "go"}]
    program.run({"type": "user", "message": {"role": "user", "content": blocks}})
    assert program.told("user") == []
    assert program.told("result")[0]["num_turns"] == 1


def test_feedback_of_a_stop_hook_counts_as_a_turn(program: Program, api: ScriptedApi) -> None:
    program.hooks = {"Stop": [{"hookCallbackIds": ["stop"]}]}
    replies = iter([{"decision": "block", "reason": "once more"}, {}])
    program.respond = lambda request: next(replies)
    api.replies[:] = [said("One."), said("Two.")]
    program.run(prompt())
    (result,) = program.told("result")
    assert (result["result"], result["num_turns"]) == ("Two.", 2)


def test_a_server_without_tools_is_connected(program: Program, api: ScriptedApi) -> None:
    def respond(request: Fields) -> Fields:
        message = request["message"]
        if message.get("method") != "initialize":
            return {"mcp_response": {"error": {"code": -32601, "message": "Method not found"}}}
        about = {"serverInfo": {"name": "shop", "version": "1"}, "capabilities": {}}
        version = message["params"]["protocolVersion"]
        return {"mcp_response": {"result": about | {"protocolVersion": version}}}

    program.more = {"sdkMcpServers": ["shop"]}
    program.respond = respond
    api.replies[:] = [said("Hello.")]
    program.run(asking("mcp_status"), prompt())
    (state,) = program.responses()["1"]["response"]["mcpServers"]
    assert (state["name"], state["status"]) == ("shop", "connected")


def test_a_server_is_asked_for_what_it_offers_and_its_status_lists_that(
    program: Program, api: ScriptedApi
) -> None:
    look = {"name": "look", "inputSchema": {"type": "object"}}
    hints = {"readOnlyHint": True, "destructiveHint": False}
    asked: set[str] = set()

    def respond(request: Fields) -> Fields:
        about: Fields = {
            "serverInfo": {"name": "shop", "version": "1"},
            "capabilities": {"tools": {}},
            "protocolVersion": "2025-06-18",
        }
        tools = [look | {"annotations": hints}, look | {"name": "buy"}]
        known: Fields = {"initialize": about, "tools/list": {"tools": tools}}
        method = request["message"].get("method")
        asked.add(method)
        if method in known:
            return {"mcp_response": {"result": known[method]}}
        return {"mcp_response": {"error": {"code": -32601, "message": "Method not found"}}}

    program.more = {"sdkMcpServers": ["shop"]}
    program.respond = respond
    api.replies[:] = [said("Hello.")]
    program.run(asking("mcp_status"), prompt())
    (state,) = program.responses()["1"]["response"]["mcpServers"]
    assert state["tools"] == [
        {"name": "look", "annotations": hints},
        {"name": "buy", "annotations": {}},
    ]
    # It offers neither prompts nor resources, and might never answer questions about them.
    assert not asked & {"prompts/list", "resources/list"}


@pytest.mark.parametrize(
    "odd", [None, "text", {}, {"result": 5}, {"error": {}}, {"method": "ping", "params": {}}]
)
def test_an_answer_of_a_server_that_is_no_response_fails_the_call_alone(
    program: Program, api: ScriptedApi, odd: object
) -> None:
    content = {"content": [{"type": "text", "text": "found"}]}
    answers: list[object] = [odd, {"result": content}]

    def respond(request: Fields) -> Fields:
        if request["subtype"] != "mcp_message":
            return {"behavior": "allow"}
        version = "2025-06-18"
        about: Fields = {
            "serverInfo": {"name": "shop", "version": "1"},
            "capabilities": {"tools": {}},
        }
        tools = [{"name": "look", "inputSchema": {"type": "object"}}]
        known: Fields = {
            "initialize": {"result": about | {"protocolVersion": version}},
            "tools/list": {"result": {"tools": tools}},
        }
        method = request["message"].get("method")
        if method == "tools/call":
            return {"mcp_response": answers.pop(0)}
        error = {"error": {"code": -32601, "message": "Method not found"}}
        return {"mcp_response": known.get(method, error)}

    program.more = {"sdkMcpServers": ["shop"]}
    program.respond = respond
    calls = [called((f"t{n}", "mcp__shop__look", {})) for n in (1, 2)]
    api.replies[:] = [*calls, said("Done.")]
    assert program.run(prompt()) == 0
    first, second = [each["message"]["content"][0] for each in program.told("user")]
    assert "not a response" in first["content"]
    assert second["content"] == content["content"]
