"""A model may call a tool by its former name: `Task` for `Agent`."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.chatting import chat, hold_chat, lines_in, make_parts, make_tool, recorded
from support.scripted_api import ScriptedApi, called, said
from turnlog.agent.chat.assembly import ChatOptions
from turnlog.agent.config.agent_definitions import BUILT_IN, AgentDefinition
from turnlog.agent.subagents.runner import NAME, Agents
from turnlog.agent.workspace.tool import ToolOutcome
from turnlog.conversation.session import open_session
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store, subagent_meta, subagents_folder


def task(
    call_id: str, prompt: str = "look", kind: str = "general-purpose"
) -> tuple[str, str, Fields]:
    return (call_id, "Task", {"description": "Do", "prompt": prompt, "subagent_type": kind})


def results_in(path: Path) -> list[Fields]:
    """Return the blocks with the results of calls."""
    lines = [line for line in lines_in(path) if "toolUseResult" in line]
    return [block for line in lines for block in line["message"]["content"]]


def test_a_call_of_task_starts_a_sub_agent_with_a_file_of_its_own(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    api.replies[:] = [called(task("t1")), said("Found."), said("Done.")]
    session = hold_chat(store, ChatOptions(cwd=project), "go")
    (path,) = subagents_folder(session).glob("agent-*.jsonl")
    assert lines_in(path)[0]["message"]["content"] == "look"
    assert json.loads(subagent_meta(path).read_bytes())["toolUseId"] == "t1"
    (agent,) = open_session(session).subagents
    assert agent.path == path
    (result,) = [line["toolUseResult"] for line in lines_in(session) if "toolUseResult" in line]
    assert (result["status"], f"agent-{result['agentId']}") == ("completed", path.stem)


def test_a_call_is_recorded_by_the_name_it_was_made_by_and_one_name_is_offered(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    api.replies[:] = [called(task("t1")), said("Found."), said("Done.")]
    session = hold_chat(store, ChatOptions(cwd=project), "go")
    answers = [
        line["message"]["content"][0] for line in lines_in(session) if line["type"] == "assistant"
    ]
    assert [block["name"] for block in answers if block["type"] == "tool_use"] == ["Task"]
    offered = [tool["name"] for tool in api.requests[0].body["tools"]]
    assert ("Agent" in offered, "Task" in offered) == (True, False)


@pytest.mark.parametrize("rule", ["Task", "Agent", "Task(Explore)", "Agent(Explore)"])
def test_rules_by_either_name_decide_about_a_call_of_task(
    store: Store, project: Path, api: ScriptedApi, rule: str
) -> None:
    api.replies[:] = [called(task("t1", kind="Explore")), said("Done.")]
    session = hold_chat(store, ChatOptions(cwd=project, deny=(rule,)), "go")
    (result,) = results_in(session)
    # A tool that is denied as a whole is not even offered.
    expected = "Agent is not allowed" if "(" in rule else "No such tool available"
    assert expected in result["content"]
    assert not subagents_folder(session).exists()


@pytest.mark.parametrize("matcher", ["Task", "Agent", "Bash|Task", "^Task$", "^Agent$", "T.sk", ""])
def test_hooks_by_either_name_hear_of_the_tool_by_its_name_of_today(
    store: Store, project: Path, api: ScriptedApi, matcher: str
) -> None:
    heard = project / "heard"
    hook = {
        "matcher": matcher,
        "hooks": [{"type": "command", "command": f"cat >> {heard}; echo >> {heard}"}],
    }
    store.settings.parent.mkdir(parents=True, exist_ok=True)
    store.settings.write_text(json.dumps({"hooks": {"PreToolUse": [hook], "PostToolUse": [hook]}}))
    api.replies[:] = [called(task("t1")), said("Found."), said("Done.")]
    hold_chat(store, ChatOptions(cwd=project), "go")
    told = [json.loads(line) for line in heard.read_text().splitlines() if line]
    assert [(each["hook_event_name"], each["tool_name"]) for each in told] == [
        ("PreToolUse", "Agent"),
        ("PostToolUse", "Agent"),
    ]


def test_a_matcher_of_another_tool_does_not_hear_of_it(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    refuse = [{"type": "command", "command": "exit 2"}]
    groups = [{"matcher": name, "hooks": refuse} for name in ("TaskCreate", "Tas", "^Tas$")]
    store.settings.parent.mkdir(parents=True, exist_ok=True)
    store.settings.write_text(json.dumps({"hooks": {"PreToolUse": groups}}))
    api.replies[:] = [called(task("t1")), said("Found."), said("Done.")]
    session = hold_chat(store, ChatOptions(cwd=project), "go")
    assert [result.get("is_error") for result in results_in(session)] == [None]


def test_calls_of_task_run_side_by_side(store: Store, project: Path, api: ScriptedApi) -> None:
    both = asyncio.Barrier(2)

    async def meet(value: Fields, output: Callable[[str], None]) -> ToolOutcome:
        async with asyncio.timeout(10), both:
            return ToolOutcome("met")

    parts = make_parts(store, project)
    kinds = {each.name: each for each in BUILT_IN}
    parts.tools |= {"Meet": make_tool("Meet", meet)}
    parts.tools[NAME] = Agents(parts.recorder.path, parts, kinds).tool()
    meeting = called(("s1", "Meet", {}))
    api.replies[:] = [called(task("t1"), task("t2")), meeting, meeting, said("Met.")]
    lines = recorded(chat(parts, "go"))
    texts = [
        line["toolUseResult"]["content"][0]["text"] for line in lines if "toolUseResult" in line
    ]
    assert texts == ["Met.", "Met."]


@pytest.mark.parametrize("name", ["Task", "Agent", "Task(Explore)"])
def test_the_tools_of_an_agent_may_name_it_so(
    store: Store, project: Path, api: ScriptedApi, name: str
) -> None:
    parts = make_parts(store, project)
    lead = AgentDefinition("lead", "Leads.", "You lead.", tools=(name,))
    kinds = {each.name: each for each in (lead, *BUILT_IN)}
    parts.tools[NAME] = Agents(parts.recorder.path, parts, kinds).tool()
    api.replies[:] = [called(task("t1", kind="lead")), called(task("s1")), said("Done.")]
    chat(parts, "go")
    assert [tool["name"] for tool in api.requests[1].body["tools"]] == ["Agent"]
    assert len(list(subagents_folder(parts.recorder.path).glob("agent-*.jsonl"))) == 2


def test_a_tool_of_a_server_by_that_name_is_the_one_that_is_called(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    async def own(value: Fields, output: Callable[[str], None]) -> ToolOutcome:
        return ToolOutcome("own", {"own": True})

    parts = make_parts(store, project)
    parts.tools |= {"Task": make_tool("Task", own)}
    parts.tools[NAME] = Agents(parts.recorder.path, parts, {}).tool()
    api.replies[:] = [called(task("t1")), said("Done.")]
    lines = recorded(chat(parts, "go"))
    assert [line["toolUseResult"] for line in lines if "toolUseResult" in line] == [{"own": True}]


def test_a_call_of_task_where_no_agents_are_is_an_error_by_that_name(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    parts = make_parts(store, project)
    api.replies[:] = [called(task("t1")), said("Done.")]
    chat(parts, "go")
    told = api.requests[1].body["messages"][-1]["content"][0]
    assert "No such tool available: Task" in told["content"]
