"""Programs that use several features at once, as real ones do."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    HookMatcher,
    Message,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    StreamEvent,
    ToolPermissionContext,
    ToolUseBlock,
    UserMessage,
    create_sdk_mcp_server,
    tool,
)

from support.scripted_api import Reply, answered, called, refused, said
from support.sdk_rig import (
    SLOW,
    Fields,
    Outcome,
    Rig,
    asked,
    ended,
    last,
    noted,
    program,
    result_text,
    results,
    said_to,
    started,
    texts,
    until,
)

STEPS = "touch first"
WORDS = "Grüße, 世界 🌍 e\u0301 שלום"
NUMBER = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}


@program
async def hooks_and_judge_together(rig: Rig) -> Outcome:
    """A hook asks, the program changes the input and allows it, another hook sees the result."""
    seen: list[Any] = []

    async def before(given: Any, call: str | None, context: Any) -> Any:
        seen.append(["before", given["tool_input"]["command"], call])
        answer = {"hookEventName": "PreToolUse", "permissionDecision": "ask"}
        return {"hookSpecificOutput": answer | {"permissionDecisionReason": "who knows"}}

    async def judge(name: str, given: Fields, context: ToolPermissionContext) -> Any:
        seen.append(["judge", name, given["command"], context.tool_use_id])
        return PermissionResultAllow(updated_input=given | {"command": "echo second"})

    async def after(given: Any, call: str | None, context: Any) -> Any:
        seen.append(["after", given["tool_input"]["command"], given["tool_response"]["stdout"]])
        return {"systemMessage": "noted"}

    hooks = {
        "PreToolUse": [HookMatcher(matcher="Bash", hooks=[before])],
        "PostToolUse": [HookMatcher(matcher="Bash", hooks=[after])],
    }
    rig.script(called(("t1", "Bash", {"command": "ls"})), said("Done."))
    async with rig.connect(hooks=hooks, can_use_tool=judge) as client:
        messages = await said_to(client, "go")
    return seen, results(messages), result_text(messages, "t1"), ended(messages)


@program
async def hook_allows_what_the_judge_denies(rig: Rig) -> Outcome:
    asked_about: list[str] = []

    async def before(given: Any, call: str | None, context: Any) -> Any:
        allow = {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
        is_first = given["tool_input"]["command"] == STEPS
        return {"hookSpecificOutput": allow} if is_first else {}

    async def judge(name: str, given: Fields, context: ToolPermissionContext) -> Any:
        asked_about.append(given["command"])
        return PermissionResultDeny(message="not now")

    calls = [("t1", "Bash", {"command": STEPS}), ("t2", "Bash", {"command": "touch second"})]
    rig.script(called(*calls), said("Done."))
    hooks = {"PreToolUse": [HookMatcher(hooks=[before])]}
    async with rig.connect(hooks=hooks, can_use_tool=judge) as client:
        messages = await said_to(client, "go")
    made = [name for name in ("first", "second") if (rig.work / name).exists()]
    return asked_about, sorted(results(messages)), made, ended(messages)["denials"]


@program
async def interrupted_call_resumed_by_another_client(rig: Rig) -> Outcome:
    rig.script(called(SLOW, text="Wait."), said("Resumed."))
    messages: list[Message] = []
    async with rig.connect(allowed_tools=["Bash"]) as client:
        await client.query("go")
        async for message in client.receive_response():
            messages.append(message)
            if isinstance(message, AssistantMessage) and isinstance(
                message.content[0], ToolUseBlock
            ):
                await asyncio.sleep(1)
                await client.interrupt()
    resumed = await rig.ask("and now?", resume=last(messages).session_id)
    exchanged = json.dumps(rig.bodies[-1]["messages"])
    return (
        results(messages),
        ended(messages)["terminal_reason"],
        "[Request interrupted by user for tool use]" in exchanged,
        exchanged.count('"tool_result"'),
        ended(resumed),
    )


@program
async def structured_output_never_fits(rig: Rig) -> Outcome:
    wrong = called(("s1", "StructuredOutput", {"n": "many"}))
    replies = [
        wrong._replace(body=wrong.body | {"content": [_call(f"s{place}")]}) for place in range(9)
    ]
    rig.script(*replies, said("I give up."))
    messages: list[Message] = []
    error = ""
    output = {"type": "json_schema", "schema": NUMBER}
    messages, error = await rig.failing(output_format=output)
    found = [each for each in messages if isinstance(each, ResultMessage)]
    told = [(each.subtype, each.is_error, each.structured_output) for each in found]
    return told, error, len(rig.bodies), sorted({is_error for _, is_error in results(messages)})


def _call(name: str) -> Fields:
    return {"type": "tool_use", "id": name, "name": "StructuredOutput", "input": {"n": "many"}}


@program
async def structured_output_after_work(rig: Rig) -> Outcome:
    rig.script(
        called(("t1", "Read", {"file_path": str(rig.work / "a.txt")}), text="Look."),
        called(("s1", "StructuredOutput", {})),
        called(("s2", "StructuredOutput", {"n": 3.5})),
        said("Here you are."),
    )
    messages = await rig.ask(output_format={"type": "json_schema", "schema": NUMBER})
    found = last(messages)
    return found.structured_output, found.subtype, results(messages), len(rig.bodies)


@program
async def server_that_raises(rig: Rig) -> Outcome:
    """Three tools of a server in the program: one raises, one reports an error, one works."""

    @tool("boom", "Raise.", {"text": str})
    async def boom(given: dict[str, Any]) -> dict[str, Any]:
        raise ValueError(f"no {given['text']}")

    @tool("report", "Report an error.", {})
    async def report(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "out of stock"}], "is_error": True}

    @tool("several", "Several blocks.", {})
    async def several(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": each} for each in ("one", "two")]}

    server = create_sdk_mcp_server("shop", tools=[boom, report, several])
    names = [f"mcp__shop__{name}" for name in ("boom", "report", "several")]
    rig.script(
        called(("t1", names[0], {"text": "pears"})),
        called(("t2", names[1], {}), ("t3", names[2], {})),
        called(("t4", names[0], {})),
        said("Done."),
    )
    messages = await rig.ask(mcp_servers={"shop": server}, allowed_tools=names)
    # The client loads tools on demand, and explains that below an error.
    told = [result_text(messages, each).partition("\n")[0] for each in ("t1", "t2", "t3")]
    return sorted(results(messages)), told, ended(messages)


@program
async def fork_and_resume_at_a_message(rig: Rig) -> Outcome:
    rig.script(said("One."), said("Two."), said("Three."), said("Four."))
    async with rig.connect() as client:
        first = await said_to(client, "first")
        await said_to(client, "second")
    session = last(first).session_id
    (path,) = (rig.home / "claude" / "projects").glob(f"*/{session}.jsonl")
    before = path.read_bytes()
    at = [each.uuid for each in first if isinstance(each, AssistantMessage)][-1]
    fork = last(await rig.ask("third", resume=session, resume_session_at=at, fork_session=True))
    again = last(await rig.ask("fourth", resume=fork.session_id))
    known = asked(rig.bodies[-1])
    return (
        fork.session_id not in (None, session),
        again.session_id == fork.session_id,
        path.read_bytes() == before,
        [f"assistant: {each}" in known for each in ("One.", "Two.", "Three.")],
    )


@program
async def files_rewound_to_each_prompt(rig: Rig) -> Outcome:
    """Write, change and create files in three turns; go back to the second prompt."""
    path, new = rig.work / "a.txt", rig.work / "new.txt"

    def write(place: int, target: Path, content: str) -> Reply:
        return called((f"w{place}", "Write", {"file_path": str(target), "content": content}))

    read = called(("r1", "Read", {"file_path": str(path)}))
    rig.script(read, write(1, path, "one\n"), said("One."), write(2, new, "two\n"), said("Two."))
    marks: list[str] = []
    states: list[Any] = []
    more = {"replay-user-messages": None}
    async with rig.connect(
        enable_file_checkpointing=True, permission_mode="acceptEdits", extra_args=more
    ) as client:
        for prompt in ("first", "second"):
            told = await said_to(client, prompt)
            prompts = [each for each in told if isinstance(each, UserMessage)]
            marks += [each.uuid or "" for each in prompts if each.content == prompt]
        for mark in (marks[1], marks[0]):
            await client.rewind_files(mark)
            states.append([path.read_text(), new.exists()])
    return len(marks), states


@program
async def fallback_when_overloaded(rig: Rig) -> Outcome:
    def answer(body: Fields) -> Reply:
        busy = refused(529, "Overloaded", "overloaded_error")
        if body["model"] == "claude-opus-5-5":
            return busy
        return said("From the other.")._replace(
            body=said("From the other.").body | {"model": body["model"]}
        )

    rig.api.choose = answer
    messages = await rig.ask(model="claude-opus-5-5", fallback_model="claude-sonnet-4-5")
    models = list(dict.fromkeys(each["model"] for each in rig.bodies))
    answers = [each.model for each in messages if isinstance(each, AssistantMessage)]
    return models, sorted(set(answers)), sorted(last(messages).model_usage or {}), ended(messages)


@program
async def turns_run_out_and_the_client_goes_on(rig: Rig) -> Outcome:
    look = [called((f"t{place}", "Bash", {"command": "ls"})) for place in range(3)]
    rig.script(*look, said("Enough."))
    ends: list[Any] = []
    async with rig.connect(max_turns=2) as client:
        for prompt in ("first", "second"):
            await client.query(prompt)
            try:
                told = [each async for each in client.receive_response()]
                ends.append([ended(told)["subtype"], ended(told)["num_turns"]])
            except Exception as error:  # what a program gets is what is compared
                ends.append(type(error).__name__)
    return ends, len(rig.bodies)


@program
async def budget_of_several_turns(rig: Rig) -> Outcome:
    costly = [
        answered({"type": "text", "text": f"Turn {place}."}, output_tokens=10_000)
        for place in range(4)
    ]
    rig.script(*costly)
    ends: list[Any] = []
    async with rig.connect(max_budget_usd=0.4, model="claude-opus-5-5") as client:
        for prompt in ("first", "second", "third"):
            await client.query(prompt)
            told: list[Message] = []
            try:
                async for each in client.receive_response():
                    told.append(each)  # noqa: PERF401 - those before an error count
            except Exception as error:  # what a program gets is what is compared
                ends.append(type(error).__name__)
            found = [each for each in told if isinstance(each, ResultMessage)]
            ends += [[each.subtype, each.is_error] for each in found]
    return ends, len(rig.bodies)


@program
async def partial_messages_of_a_call(rig: Rig) -> Outcome:
    rig.script(called(("t1", "Bash", {"command": "ls -a"}), text="Look."), said("Done."))
    messages = await rig.ask(include_partial_messages=True)
    written = ""
    order: list[str] = []
    for each in messages:
        if isinstance(each, StreamEvent):
            delta = each.event.get("delta", {})
            written += delta.get("partial_json", "")
            order.append(delta.get("type") or each.event["type"])
        elif isinstance(each, AssistantMessage | UserMessage | ResultMessage):
            order.append(type(each).__name__)
    # One row for each run of the same kind: how texts are cut is the API's choice.
    short = [kind for place, kind in enumerate(order) if order[place - 1 : place] != [kind]]
    return json.loads(written), short


@program
async def agents_with_models_of_their_own(rig: Rig) -> Outcome:
    agents = {
        "reader": AgentDefinition(
            description="Reads.", prompt="Read carefully.", tools=["Read"], model="haiku"
        ),
        "writer": AgentDefinition(description="Writes.", prompt="Write well.", model="inherit"),
    }

    def answer(body: Fields) -> Reply:
        text = json.dumps(body["messages"])
        if "do the reading" in text and "Hand out" not in text:
            return said("Read.")
        if "do the writing" in text and "Hand out" not in text:
            return said("Written.")
        if '"tool_result"' in text:
            return said("All done.")
        tasks = [("t1", "reader", "do the reading"), ("t2", "writer", "do the writing")]
        return called(
            *(
                (call, "Agent", _task(agent, prompt) | {"run_in_background": False})
                for call, agent, prompt in tasks
            ),
            text="Hand out",
        )

    rig.api.choose = answer
    messages = await rig.ask(agents=agents, model="claude-sonnet-4-5")
    kinds: dict[str, Any] = {}
    for body in rig.bodies:
        text = json.dumps(body["messages"])
        for name in ("do the reading", "do the writing"):
            if name in text and "Hand out" not in text:
                system = json.dumps(body["system"])
                own = [each for each in ("Read carefully.", "Write well.") if each in system]
                tools = sorted({each["name"] for each in body["tools"]} & {"Read", "Bash", "Write"})
                kinds[name] = [body["model"], own, tools]
    parents = {
        each.parent_tool_use_id for each in messages if isinstance(each, AssistantMessage)
    } - {None}
    return kinds, sorted(map(str, parents)), sorted(results(messages)), ended(messages)["result"]


def _task(agent: str, prompt: str) -> Fields:
    return {"description": "Do it", "prompt": prompt, "subagent_type": agent}


@program
async def plugin_with_everything(rig: Rig) -> Outcome:
    """A directory with a command, a skill, an agent and a hook."""
    plugin = rig.home / "kit"
    files = {
        ".claude-plugin/plugin.json": json.dumps({"name": "kit", "version": "1.0.0"}),
        "commands/greet.md": "---\ndescription: Greet\n---\nGreet $ARGUMENTS warmly.",
        "skills/counting/SKILL.md": "---\nname: counting\ndescription: Count things\n---\nCount.",
        "agents/judge.md": "---\nname: judge\ndescription: Judges\n---\nJudge fairly.",
        "hooks/hooks.json": json.dumps({"hooks": {"Stop": [_hook(f"touch {rig.home}/stopped")]}}),
    }
    for name, content in files.items():
        path = plugin / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    rig.script(said("Hello."))
    messages = await rig.ask("/kit:greet Ann", plugins=[{"type": "local", "path": str(plugin)}])
    told = started(messages)
    return {
        "plugins": [each["name"] for each in told["plugins"] if each["name"] == "kit"],
        "commands": [each for each in told["slash_commands"] if each.startswith("kit:")],
        "skills": [each for each in told.get("skills", []) if each.startswith("kit:")],
        "agents": [each for each in told["agents"] if each.startswith("kit:")],
        "expanded": "Greet Ann warmly." in json.dumps(rig.bodies[0]["messages"]),
        "hook": (rig.home / "stopped").exists(),
    }


def _hook(command: str) -> Fields:
    return {"hooks": [{"type": "command", "command": command}]}


@program
async def model_switched_while_a_call_waits(rig: Rig) -> Outcome:
    async def judge(name: str, given: Fields, context: ToolPermissionContext) -> Any:
        await client.set_model("claude-haiku-4-5")
        return PermissionResultAllow()

    # The client asks a model for a word before it switches to it; that request has no tools.
    rig.api.choose = lambda body: None if body.get("tools") else said("Hi.")
    rig.script(called(("t1", "Bash", {"command": STEPS})), said("Done."), said("More."))
    async with rig.connect(can_use_tool=judge, model="claude-sonnet-4-5") as client:
        first = await said_to(client, "go")
        await said_to(client, "more")
    models = [each["model"] for each in rig.bodies if each.get("tools")]
    return models, ended(first)["result"]


@program
async def unknown_flag(rig: Rig) -> Outcome:
    messages, error = await rig.failing(extra_args={"no-such-flag": None})
    told = any("no-such-flag" in each for each in rig.complaints)
    return len(messages), error, told, len(rig.bodies)


@program
async def very_long_prompt(rig: Rig) -> Outcome:
    text = "".join(f"word{place} " for place in range(60_000))

    async def prompts() -> AsyncIterator[Fields]:
        yield {"type": "user", "message": {"role": "user", "content": text}}

    rig.script(said("Read."), said("Read again."))
    first = await rig.ask(text)
    second = await rig.ask(prompts(), resume=last(first).session_id)
    whole = [json.dumps(each["messages"]).count("word59999 ") for each in rig.bodies]
    return ended(first), texts(second), whole


@program
async def other_scripts(rig: Rig) -> Outcome:
    name = "naïve-ファイル.txt"
    path = rig.work / name
    rig.script(
        called(("t1", "Write", {"file_path": str(path), "content": WORDS})),
        called(("t2", "Bash", {"command": f"cat '{name}'; echo '{WORDS}'"})),
        said(WORDS),
    )
    messages = await rig.ask(WORDS, permission_mode="acceptEdits", allowed_tools=["Bash"])
    sent = any(WORDS in each for each in asked(rig.bodies[0]))
    return (
        ended(messages)["result"] == WORDS,
        path.read_text() == WORDS,
        sent,
        (result_text(messages, "t2") == WORDS * 2),
    )


@program
async def clients_in_parallel(rig: Rig) -> Outcome:
    def answer(body: Fields) -> Reply:
        text = json.dumps(body["messages"])
        return said(next(name for name in ("anna", "bela", "carl", "dora") if name in text))

    rig.api.choose = answer

    async def talk(name: str) -> list[Any]:
        async with rig.connect() as client:
            one = await said_to(client, f"I am {name}")
            two = await said_to(client, "and again")
        return [texts(one), texts(two), last(one).session_id, last(two).session_id]

    told = await asyncio.gather(*map(talk, ("anna", "bela", "carl", "dora")))
    paths = [*(rig.home / "claude" / "projects").glob("*/*.jsonl")]
    stay = [each[2] == each[3] for each in told]
    return [each[:2] for each in told], stay, len({each[2] for each in told}), len(paths)


@program
async def question_answered_by_the_program(rig: Rig) -> Outcome:
    question = {
        "question": "Which database?",
        "header": "Database",
        "multiSelect": False,
        "options": [
            {"label": "SQLite", "description": "One file"},
            {"label": "Postgres", "description": "A server"},
        ],
    }
    seen: list[Any] = []

    async def judge(name: str, given: Fields, context: ToolPermissionContext) -> Any:
        seen.append([name, [each["header"] for each in given["questions"]]])
        return PermissionResultAllow(
            updated_input=given | {"answers": {"Which database?": "Postgres"}}
        )

    rig.script(called(("q1", "AskUserQuestion", {"questions": [question]})), said("Fine."))
    async with rig.connect(can_use_tool=judge) as client:
        messages = await said_to(client, "go")
    return seen, results(messages), "Postgres" in result_text(messages, "q1"), texts(messages)


@program
async def plan_approved_by_the_program(rig: Rig) -> Outcome:
    seen: list[str] = []

    async def judge(name: str, given: Fields, context: ToolPermissionContext) -> Any:
        seen.append(name)
        return PermissionResultAllow()

    rig.script(
        called(("p1", "ExitPlanMode", {"plan": "# Plan\n\n1. Touch it"})),
        called(("t1", "Bash", {"command": STEPS})),
        said("Done."),
    )
    async with rig.connect(can_use_tool=judge, permission_mode="plan") as client:
        messages = await said_to(client, "go")
    modes = [each.get("permissionMode") for each in noted(messages, "status")]
    return seen, results(messages), (rig.work / "first").exists(), ended(messages)["result"], modes


@program
async def prompt_while_a_call_runs(rig: Rig) -> Outcome:
    rig.script(called(("t1", "Bash", {"command": f"touch {rig.home}/runs; sleep 3"})), said("A."))
    told: list[Message] = []
    async with rig.connect(allowed_tools=["Bash"]) as client:
        await client.query("first")
        await until((rig.home / "runs").exists)
        await client.query("meanwhile")
        async for each in client.receive_response():
            told.append(each)  # noqa: PERF401 - the SDK gives them one by one
    body = json.dumps(rig.bodies[1]["messages"])
    return "meanwhile" in body, results(told), len(rig.bodies)


@program
async def task_tools_follow_the_model(rig: Rig) -> Outcome:
    tracking = {"TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "TodoWrite"}
    rig.script(said("Hi."))
    listed: list[list[str]] = []
    async with rig.connect(model="claude-opus-5-5") as client:
        for model in ("claude-opus-5-5", "claude-sonnet-4-5", "claude-opus-5-5"):
            await client.set_model(model)
            told = started(await said_to(client, "go"))
            listed.append(sorted(tracking & set(told["tools"])))
    return listed


@program
async def commands_without_the_model(rig: Rig) -> Outcome:
    rig.script(said("From the model."))
    answers: list[Any] = []
    async with rig.connect(model="claude-opus-5-5") as client:
        for prompt in ("/context", "/cost", "/status", "/effort low", "/model", "/nonsense"):
            told = await said_to(client, prompt)
            outcome = ended(told)
            first = (outcome["result"] or "").partition("\n")[0].partition(" (")[0]
            answers.append([prompt, outcome["subtype"], outcome["num_turns"], first.rstrip(".")])
    shown = [each for each in answers if each[0] != "/model"]
    efforts = [body["output_config"]["effort"] for body in rig.bodies]
    return shown, [each[:3] for each in answers], efforts
