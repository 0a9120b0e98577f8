"""Sub-agents: the same loop, a file of their own, and a report to the call that started them."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.chatting import chat, ended, make_parts, make_tool, recorded, rules_of, sound_session
from support.scripted_api import Reply, ScriptedApi, answered, called, refused, said
from turnlog.agent.config.agent_definitions import BUILT_IN, AgentDefinition
from turnlog.agent.config.settings import Settings
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.events import CallStarted, Event, Inside, Notice, Printed, TurnEnded
from turnlog.agent.loop.loop import Loop
from turnlog.agent.loop.notifications import NOTICE, listen, next_notice
from turnlog.agent.permissions import ApprovalMode, VerdictKind
from turnlog.agent.permissions.consent import Consent
from turnlog.agent.permissions.policy import PermissionReply as Consented
from turnlog.agent.permissions.policy import Question
from turnlog.agent.session.entry_builders import STOPPED_AT_CALL
from turnlog.agent.subagents.overrides import rules_for
from turnlog.agent.subagents.runner import NAME, Agents
from turnlog.agent.tools.task_output import TASK_OUTPUT
from turnlog.agent.tools.task_stop import TASK_STOP
from turnlog.agent.workspace.tool import ToolOutcome
from turnlog.conversation.session import open_session
from turnlog.edit.check.checks import check_session
from turnlog.format.json_values import Fields
from turnlog.format.survey import survey_file
from turnlog.store.paths import Store, subagent_meta, subagents_folder

READER = AgentDefinition("reader", "Reads.", "You read.", tools=("Echo",), model="haiku")


@pytest.fixture
def parts(store: Store, project: Path, api: ScriptedApi) -> Parts:
    """A conversation that may start sub-agents."""
    parts = make_parts(store, project)
    kinds = {each.name: each for each in (*BUILT_IN, READER)}
    parts.tools[NAME] = Agents(parts.recorder.path, parts, kinds).tool()
    return parts


def start(call_id: str, task: str, kind: str = "general-purpose") -> tuple[str, str, Fields]:
    return (call_id, NAME, {"description": "Do it", "prompt": task, "subagent_type": kind})


def script(api: ScriptedApi, **answers: list[Reply]) -> None:
    """Give each conversation its own answers, by the first word that it was asked."""

    def choose(body: Fields) -> Reply:
        first = body["messages"][0]["content"][0]["text"].split()[0]
        given = answers[first]
        return given.pop(0) if len(given) > 1 else given[0]

    api.choose = choose


def files_of(parts: Parts) -> list[Path]:
    return sorted(subagents_folder(parts.recorder.path).glob("agent-*.jsonl"))


def test_a_sub_agent_works_by_itself_and_reports(parts: Parts, api: ScriptedApi) -> None:
    work = [
        called(("s1", "Echo", {"text": "found"})),
        answered({"type": "text", "text": "It is so."}, input_tokens=40, output_tokens=2),
    ]
    script(api, go=[called(start("t1", "look around")), said("Done.")], look=work)
    events = chat(parts, "go")
    (result,) = [each for each in recorded(events) if "toolUseResult" in each]
    data = result["toolUseResult"]
    assert result["message"]["content"][0]["content"] == [{"type": "text", "text": "It is so."}]
    told = ("status", "agentType", "prompt", "totalToolUseCount", "totalTokens")
    assert [data[name] for name in told] == ["completed", "general-purpose", "look around", 1, 42]
    (path,) = files_of(parts)
    assert path.stem == f"agent-{data['agentId']}"
    lines = [json.loads(raw) for raw in path.read_bytes().splitlines()]
    assert {(each["isSidechain"], each["agentId"], each["sessionId"]) for each in lines} == {
        (True, data["agentId"], parts.recorder.facts.session_id)
    }
    assert not any("toolUseResult" in each for each in lines)
    meta = json.loads(subagent_meta(path).read_bytes())
    assert meta["finished"]
    assert (meta["agentType"], meta["toolUseId"], meta["spawnDepth"]) == (
        "general-purpose",
        "t1",
        1,
    )
    assert check_session(open_session(path)) == []
    (agent,) = sound_session(parts).subagents
    assert agent.path == path


def test_what_it_takes_counts_for_the_turn(parts: Parts, api: ScriptedApi) -> None:
    script(api, go=[called(start("t1", "look")), said("Done.")], look=[said("Seen.")])
    end = ended(chat(parts, "go"))
    assert (end.requests, end.usage["input_tokens"]) == (2, 3)


def test_what_happens_in_it_is_told_with_its_call(parts: Parts, api: ScriptedApi) -> None:
    script(
        api,
        go=[called(start("t1", "look")), said("Done.")],
        look=[called(("s1", "Echo", {"text": "x"})), said("Seen.")],
    )
    inside = [event for event in chat(parts, "go") if isinstance(event, Inside)]
    assert {event.call_id for event in inside} == {"t1"}
    assert CallStarted("s1", "Echo", {"text": "x"}) in [event.event for event in inside]
    assert isinstance(inside[-1].event, TurnEnded)
    news = [
        each
        for each in parts.recorder.path.read_text("utf-8").splitlines()
        if "agent_progress" in each
    ]
    assert len(news) == 3
    survey = survey_file(parts.recorder.path)
    assert [name for name, is_known in survey.count_fields() if not is_known] == []


def test_a_notice_about_its_work_is_told_with_its_call(parts: Parts, api: ScriptedApi) -> None:
    failing = {"type": "command", "command": "echo oops >&2; exit 1"}
    parts.hooks.add({"PreToolUse": [{"matcher": "Echo", "hooks": [failing]}]})
    script(
        api,
        go=[called(start("t1", "look")), said("Done.")],
        look=[called(("s1", "Echo", {"text": "x"})), said("Seen.")],
    )
    events = chat(parts, "go")
    inside = [event.event for event in events if isinstance(event, Inside)]
    (notice,) = [event for event in inside if isinstance(event, Notice)]
    assert "oops" in notice.text
    assert notice not in events


def test_it_knows_only_its_task_and_has_its_own_prompt_and_model(
    parts: Parts, api: ScriptedApi
) -> None:
    script(api, go=[called(start("t1", "look", "reader")), said("Done.")], look=[said("Seen.")])
    chat(parts, "go")
    body = api.requests[1].body
    assert [each["content"][0]["text"] for each in body["messages"]] == ["look"]
    assert body["system"][0]["text"] == "You read."
    assert (body["model"], [tool["name"] for tool in body["tools"]]) == (
        "claude-haiku-5-5",
        ["Echo"],
    )


def test_several_run_side_by_side(parts: Parts, api: ScriptedApi) -> None:
    both = asyncio.Event()
    waiting: list[int] = []

    async def meet(value: Fields, output: Callable[[str], None]) -> ToolOutcome:
        waiting.append(1)
        if len(waiting) == 2:
            both.set()
        await both.wait()
        return ToolOutcome("met")

    parts.tools["Meet"] = make_tool("Meet", meet)
    script(
        api,
        go=[called(start("t1", "one"), start("t2", "two")), said("Done.")],
        one=[called(("s1", "Meet", {})), said("First.")],
        two=[called(("s2", "Meet", {})), said("Second.")],
    )
    events = chat(parts, "go")
    results = [
        each["toolUseResult"]["content"][0]["text"]
        for each in recorded(events)
        if "toolUseResult" in each
    ]
    assert results == ["First.", "Second."]
    assert len(files_of(parts)) == 2


def test_one_may_start_another_but_not_without_end(parts: Parts, api: ScriptedApi) -> None:
    def choose(body: Fields) -> Reply:
        has_tool = any(tool["name"] == NAME for tool in body["tools"])
        is_new = len(body["messages"]) == 1
        number = len(api.requests)
        return (
            called(start(f"t{number}", f"task {number}")) if is_new and has_tool else said("Done.")
        )

    api.choose = choose
    chat(parts, "go")
    depths = [
        json.loads(subagent_meta(path).read_bytes())["spawnDepth"] for path in files_of(parts)
    ]
    assert sorted(depths) == [1, 2, 3]


def test_one_that_fails_is_an_error_of_its_call(parts: Parts, api: ScriptedApi) -> None:
    script(
        api, go=[called(start("t1", "look")), said("Done.")], look=[refused(400, "no such thing")]
    )
    events = chat(parts, "go")
    (result,) = [each for each in recorded(events) if "toolUseResult" in each]
    assert result["message"]["content"][0]["is_error"]
    assert "no such thing" in result["toolUseResult"]


def test_an_unknown_kind_is_told_with_those_there_are(parts: Parts, api: ScriptedApi) -> None:
    script(api, go=[called(start("t1", "look", "nope")), said("Done.")])
    events = chat(parts, "go")
    (result,) = [each for each in recorded(events) if "toolUseResult" in each]
    assert "available: general-purpose, Explore, reader" in result["toolUseResult"]


def test_its_permissions_are_asked_for_in_its_name(parts: Parts, api: ScriptedApi) -> None:
    asked: list[Question] = []

    async def deny(question: Question) -> Consented:
        asked.append(question)
        return Consented("deny")

    rules_of(parts).kinds["Echo"] = VerdictKind.ASK
    parts.ask = deny
    script(
        api,
        go=[called(start("t1", "look")), said("Done.")],
        look=[called(("s1", "Echo", {"text": "x"})), said("Could not.")],
    )
    assert ended(chat(parts, "go")).reason == "done"
    (question,) = asked
    assert f"agent-{question.agent_id}" == files_of(parts)[0].stem


def test_interrupting_the_conversation_interrupts_it(parts: Parts, api: ScriptedApi) -> None:
    async def hang(value: Fields, output: Callable[[str], None]) -> Any:
        output("here")
        await asyncio.Event().wait()

    parts.tools["Hang"] = make_tool("Hang", hang)
    script(api, go=[called(start("t1", "look"))], look=[called(("s1", "Hang", {}))])

    async def run() -> None:
        loop = Loop(parts)
        async for event in loop.run("go"):
            if isinstance(event, Inside) and isinstance(event.event, Printed):
                loop.interrupt()
        await parts.model.close()

    asyncio.run(run())
    for path in (parts.recorder.path, *files_of(parts)):
        session = open_session(path)
        assert check_session(session) == []
        assert session.context()[-2]["content"][-1]["text"] == STOPPED_AT_CALL


def test_its_mode_is_that_of_its_definition_unless_the_conversation_allows_more_or_plans(
    parts: Parts,
) -> None:
    def mode_in(conversation: ApprovalMode, named: str | None) -> ApprovalMode:
        parts.rules.mode = conversation
        definition = AgentDefinition("x", "X.", "You x.", permission_mode=named)
        return rules_for(definition, parts.rules, None).mode

    assert mode_in(ApprovalMode.DEFAULT, "acceptEdits") is ApprovalMode.ACCEPT_EDITS
    assert mode_in(ApprovalMode.DEFAULT, "plan") is ApprovalMode.PLAN
    assert mode_in(ApprovalMode.PLAN, "manual") is ApprovalMode.PLAN
    assert mode_in(ApprovalMode.PLAN, "bypassPermissions") is ApprovalMode.PLAN
    assert mode_in(ApprovalMode.PLAN, None) is ApprovalMode.PLAN
    assert mode_in(ApprovalMode.DEFAULT, "auto") is ApprovalMode.DEFAULT
    assert mode_in(ApprovalMode.BYPASS, "plan") is ApprovalMode.BYPASS
    assert mode_in(ApprovalMode.ACCEPT_EDITS, "default") is ApprovalMode.ACCEPT_EDITS


def define(parts: Parts, **fields: Any) -> None:
    """Let there be one kind of sub-agent."""
    definition = AgentDefinition("own", "Own.", "You are.", **fields)
    parts.tools[NAME] = Agents(parts.recorder.path, parts, {"own": definition}).tool()


def test_it_follows_when_the_user_changes_the_mode(tmp_path: Path) -> None:
    rules = Consent(Settings(tmp_path, ()), ApprovalMode.ACCEPT_EDITS)
    definition = AgentDefinition("x", "X.", "You x.", permission_mode="acceptEdits")
    child = rules_for(definition, rules, tmp_path / "notes")
    inner = rules_for(definition, child, tmp_path / "notes")
    for mode in (ApprovalMode.ACCEPT_EDITS, ApprovalMode.PLAN, ApprovalMode.DEFAULT):
        rules.mode = mode
        assert child.mode is inner.mode is mode


def test_its_own_mode_ends_when_the_user_plans(tmp_path: Path) -> None:
    rules = Consent(Settings(tmp_path, ()), ApprovalMode.DEFAULT)
    definition = AgentDefinition("x", "X.", "You x.", permission_mode="acceptEdits")
    child = rules_for(definition, rules, None)
    assert child.mode is ApprovalMode.ACCEPT_EDITS
    rules.mode = ApprovalMode.PLAN
    assert child.mode is ApprovalMode.PLAN


@pytest.mark.parametrize("mode", [ApprovalMode.DEFAULT, ApprovalMode.ACCEPT_EDITS])
def test_one_that_does_not_ask_is_refused_what_would_be_asked_about(
    parts: Parts, api: ScriptedApi, mode: ApprovalMode
) -> None:
    async def ask(question: Question) -> Consented:
        return Consented("allow")

    parts.ask = ask
    rules_of(parts).kinds["Echo"] = VerdictKind.ASK
    rules_of(parts).mode = mode
    define(parts, permission_mode="dontAsk")
    work = [called(("s1", "Echo", {"text": "x"})), said("No.")]
    script(api, go=[called(start("t1", "look", "own")), said("Done.")], look=work)
    chat(parts, "go")
    assert api.requests[2].body["messages"][-1]["content"][0]["is_error"] is True


def test_one_whose_skills_are_unknown_starts_without_them(parts: Parts, api: ScriptedApi) -> None:
    define(parts, skills=("deploy",))
    script(api, go=[called(start("t1", "look", "own")), said("Done.")], look=[said("Seen.")])
    chat(parts, "go")
    (told,) = api.requests[-1].body["messages"][-1]["content"][0]["content"]
    assert told["text"] == "Seen."


def test_one_that_comes_to_its_limit_is_told_to_have_been_stopped(
    parts: Parts, api: ScriptedApi
) -> None:
    define(parts, max_turns=1)
    work = [called(("s1", "Echo", {"text": "x"}), text="First this.")]
    script(api, go=[called(start("t1", "look", "own")), said("Done.")], look=work)
    chat(parts, "go")
    (told,) = api.requests[-1].body["messages"][-1]["content"][0]["content"]
    assert told["text"].startswith("First this.\n\nNOTE: it was stopped at its limit of 1 answers")


def test_one_without_any_tool_that_it_names_is_not_started(parts: Parts, api: ScriptedApi) -> None:
    define(parts, tools=("Nope",))
    script(api, go=[called(start("t1", "look", "own")), said("Done.")])
    chat(parts, "go")
    told = api.requests[1].body["messages"][-1]["content"][0]
    assert told["is_error"] is True
    assert "Agent own has no usable tools; it lists: Nope" in told["content"]


def test_a_variable_names_the_model_of_all(
    parts: Parts, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_SUBAGENT_MODEL", "sonnet")
    script(api, go=[called(start("t1", "look", "reader")), said("Done.")], look=[said("Seen.")])
    chat(parts, "go")
    assert api.requests[1].body["model"] == "claude-sonnet-5-5"


def test_a_variable_names_the_model_of_a_family(
    parts: Parts, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_DEFAULT_HAIKU_MODEL", "claude-haiku-4-5")
    script(api, go=[called(start("t1", "look", "reader")), said("Done.")], look=[said("Seen.")])
    chat(parts, "go")
    assert api.requests[1].body["model"] == "claude-haiku-4-5"


async def turns_of(parts: Parts, *prompts: str) -> list[Event]:
    """Send prompts, and what notifies the model in between."""
    loop, news = Loop(parts), asyncio.Event()
    listen(parts, news.set)
    events = [event for prompt in prompts async for event in loop.run(prompt)]
    while parts.workspace.shells.running:
        async with asyncio.timeout(30):
            await news.wait()
        news.clear()
    while notice := next_notice(parts):
        events += [event async for event in loop.run(notice, NOTICE)]
    await parts.workspace.shells.close()
    return events


def in_background(call_id: str, task: str) -> tuple[str, str, Fields]:
    _, name, given = start(call_id, task)
    return call_id, name, given | {"run_in_background": True}


def test_an_agent_in_the_background_reports_later(parts: Parts, api: ScriptedApi) -> None:
    script(
        api,
        go=[called(in_background("t1", "look")), said("Started."), said("I heard of it.")],
        look=[called(("s1", "Echo", {"text": "x"})), said("Seen.")],
    )
    events = asyncio.run(turns_of(parts, "go"))
    (result,) = [each for each in recorded(events) if "toolUseResult" in each]
    data = result["toolUseResult"]
    assert (data["status"], data["isAsync"]) == ("async_launched", True)
    (notice,) = [each for each in recorded(events) if each.get("promptSource") == "system"]
    text = notice["message"]["content"]
    assert f"<task-id>{data['agentId']}</task-id>" in text
    assert "<result>Seen.</result>" in text
    assert '<summary>Agent "Do it" finished</summary>' in text
    ends = [event for event in events if isinstance(event, TurnEnded)]
    # Two requests of the first turn, one of the second, and two of the agent.
    assert sum(end.usage["input_tokens"] for end in ends) == 5
    sound_session(parts)


def test_an_agent_in_the_background_can_be_waited_for_and_stopped(
    parts: Parts, api: ScriptedApi
) -> None:
    parts.tools |= {tool.name: tool for tool in (TASK_OUTPUT, TASK_STOP)}
    never = said("never")._replace(hold_after=1)
    script(
        api,
        go=[
            called(in_background("t1", "look"), in_background("t2", "hang")),
            said("Both run."),
        ],
        look=[said("Seen.")],
        hang=[never],
    )

    async def run() -> tuple[str, str, list[str]]:
        loop = Loop(parts)
        _ = [event async for event in loop.run("go")]
        shells, place = parts.workspace.shells, parts.workspace
        first, second = shells.jobs
        read = TASK_OUTPUT.read({"task_id": first, "timeout": 30_000})
        waited = await TASK_OUTPUT.run(read, place, lambda text: None)
        brief = TASK_OUTPUT.read({"task_id": second, "timeout": 1})
        running = await TASK_OUTPUT.run(brief, place, lambda text: None)
        await TASK_STOP.run(TASK_STOP.read({"task_id": second}), place, lambda text: None)
        states = [job.status for job in shells.jobs.values()]
        await shells.close()
        return str(waited.content), str(running.content), states

    waited, running, states = asyncio.run(run())
    assert "<status>completed</status>" in waited
    assert "Seen." in waited
    assert "<retrieval_status>timeout</retrieval_status>" in running
    assert states == ["completed", "killed"]
