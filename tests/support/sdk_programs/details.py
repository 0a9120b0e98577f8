"""Programs about details: deferred calls, kinds of errors, joined prompts, states and options."""

import json
from threading import Event
from typing import Any

from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    HookMatcher,
    Message,
    PermissionResultAllow,
    ResultMessage,
    TaskNotificationMessage,
    TaskStartedMessage,
    ToolPermissionContext,
    ToolUseBlock,
    UserMessage,
)

from support.scripted_api import Reply, called, refused, said
from support.sdk_rig import (
    SECONDS,
    SLOW,
    Fields,
    Outcome,
    Rig,
    asked,
    ended,
    last,
    noted,
    program,
    request_of,
    results,
    said_to,
    started,
    until,
)

TOUCH = ("t1", "Bash", {"command": "touch new", "description": "Make a file"})
ERRORS = (
    (400, "invalid_request_error", "prompt is too long: 300000 tokens > 200000 maximum"),
    (400, "invalid_request_error", "Your credit balance is too low to access the API."),
    (400, "invalid_request_error", "messages.1.content.0: image exceeds 5 MB maximum"),
    (400, "invalid_request_error", "something else"),
    (403, "permission_error", "no"),
    (404, "not_found_error", "model: nothing"),
    (413, "request_too_large", "too large"),
)


def decides(decision: str, **more: str) -> Any:
    """Return a PreToolUse hook that decides about every call."""

    async def hook(given: Any, call: str | None, context: Any) -> Any:
        answer = {"hookEventName": "PreToolUse", "permissionDecision": decision}
        return {"systemMessage": "Careful.", "hookSpecificOutput": answer | more}

    return {"PreToolUse": [HookMatcher(hooks=[hook])]}


@program
async def denied_call_with_context(rig: Rig) -> Outcome:
    rig.script(called(TOUCH), said("Fine."))
    hooks = decides("deny", permissionDecisionReason="no", additionalContext="Use the other one.")
    messages = await rig.ask(hooks=hooks)
    told = [(each["content"], each["level"]) for each in noted(messages, "informational")]
    return "Use the other one." in json.dumps(rig.bodies[-1]["messages"]), told, results(messages)


@program
async def deferred_call(rig: Rig) -> Outcome:
    """A hook leaves a call to a later run, which another client makes."""
    rig.script(called(TOUCH), said("Done."))
    messages = await rig.ask(hooks=decides("defer"))
    before = (rig.work / "new").exists()
    call = last(messages).deferred_tool_use
    outcome = ended(messages), results(messages), call and [call.id, call.name, call.input]
    resumed = await rig.ask("go on", resume=last(messages).session_id, hooks=decides("allow"))
    exchanged = json.dumps(rig.bodies[-1]["messages"])
    after = (rig.work / "new").exists()
    return *outcome, before, after, exchanged.count('"tool_result"'), ended(resumed)["result"]


@program
async def call_deferred_twice(rig: Rig) -> Outcome:
    """A call that is deferred again has a result of its own; the prompt is answered after it."""
    rig.script(called(TOUCH), said("Done."), said("Still here."))
    session = last(await rig.ask(hooks=decides("defer"))).session_id
    again = await rig.ask("second prompt", resume=session, hooks=decides("defer"))
    endings = [
        (each.result, each.stop_reason, bool(each.deferred_tool_use))
        for each in again
        if isinstance(each, ResultMessage)
    ]
    exchanged = [block["text" if block["type"] == "text" else "content"] for block in _sent(rig)]
    third = await rig.ask("third prompt", resume=session, hooks=decides("allow"))
    has_second = "second prompt" in json.dumps(rig.bodies[-1]["messages"])
    return endings, exchanged, ended(third), has_second, (rig.work / "new").exists()


def _sent(rig: Rig) -> list[Fields]:
    """Return the blocks of the last message of the last request."""
    return rig.bodies[-1]["messages"][-1]["content"]


@program
async def two_deferred_calls(rig: Rig) -> Outcome:
    rig.script(called(TOUCH, ("t2", "Bash", {"command": "touch other"})), said("Done."))
    messages = await rig.ask(hooks=decides("defer"))
    call = last(messages).deferred_tool_use
    return ended(messages), results(messages), call and call.id, len(rig.bodies)


@program
async def interrupted_call_is_no_denial(rig: Rig) -> Outcome:
    rig.script(called(SLOW), said("Resumed."))
    messages: list[Message] = []
    async with rig.connect(allowed_tools=["Bash"]) as client:
        await client.query("go")
        async for message in client.receive_response():
            messages.append(message)
            if isinstance(message, AssistantMessage) and any(
                isinstance(block, ToolUseBlock) for block in message.content
            ):
                await client.interrupt()
    return ended(messages)["denials"], ended(messages)["subtype"]


@program
async def prompts_that_wait_join(rig: Rig) -> Outcome:
    """Prompts that wait for an answer to end get one answer together."""
    has_all = Event()

    def answer(body: Fields) -> Reply | None:
        has_all.wait(SECONDS)

    rig.api.choose = answer
    rig.script(said("One."), said("Two."))
    answers: list[str | None] = []
    async with rig.connect() as client:
        await client.query("first")
        await until(lambda: bool(rig.bodies))
        for text in ("second", "third", "fourth"):
            await client.query(text)
        # The response says that the client has read the prompts, too.
        await client.get_mcp_status()
        has_all.set()
        async for each in client.receive_messages():
            if isinstance(each, ResultMessage):
                answers.append(each.result)
                if each.result == "Two.":
                    break
    sent = [json.dumps(body["messages"]) for body in rig.bodies]
    return answers, [[text in body for body in sent] for text in ("second", "third", "fourth")]


@program
async def kinds_of_errors(rig: Rig) -> Outcome:
    found: list[Any] = []
    for status, kind, message in ERRORS:
        rig.script(refused(status, message, kind))
        messages, _ = await rig.failing()
        result = next(each for each in messages if isinstance(each, ResultMessage))
        answers = [each.error for each in messages if isinstance(each, AssistantMessage)]
        found.append([status, answers, result.api_error_status, result.terminal_reason])
    return found


@program
async def states_of_failed_servers(rig: Rig) -> Outcome:
    servers: Any = {
        "lost": {"command": "/nonexistent/server", "args": ["-v"]},
        "web": {"type": "http", "url": "http://127.0.0.1:9/mcp"},
    }
    rig.script(said("Hi."))
    async with rig.connect(mcp_servers=servers) as client:
        await said_to(client, "go")
        states = (await client.get_mcp_status())["mcpServers"]
    return [dict(each) | {"error": bool(each.get("error"))} for each in states]


@program
async def default_model(rig: Rig) -> Outcome:
    rig.api.choose = lambda body: None if body.get("tools") else said("Hi.")
    rig.script(said("Hi."))
    found: list[Any] = []
    async with rig.connect(model="claude-sonnet-4-5") as client:
        for model in ("haiku", None, "claude-sonnet-4-5", "default"):
            await client.set_model(model)
            found.append(started(await said_to(client, "go"))["model"])
    return found


@program
async def dry_run_of_a_rewind(rig: Rig) -> Outcome:
    path, new = rig.work / "a.txt", rig.work / "new.txt"
    rig.script(
        called(("r1", "Read", {"file_path": str(path)})),
        called(("w1", "Write", {"file_path": str(path), "content": "one\ntwo\nthree\n"})),
        called(("w2", "Write", {"file_path": str(new), "content": "new\n"})),
        said("Done."),
    )
    more = {"replay-user-messages": None}
    async with rig.connect(
        enable_file_checkpointing=True, permission_mode="acceptEdits", extra_args=more
    ) as client:
        told = await said_to(client, "go")
        mark = next(each.uuid for each in told if isinstance(each, UserMessage))
        about: Fields = {"subtype": "rewind_files", "user_message_id": mark}
        planned = await request_of(client, about | {"dry_run": True})
    return planned, new.exists()


@program
async def context_with_memory(rig: Rig) -> Outcome:
    (rig.work / "CLAUDE.md").write_text("Remember the milk.\n")
    rig.script(said("Hi."))
    async with rig.connect(setting_sources=["project"]) as client:
        await said_to(client, "go")
        usage = await client.get_context_usage()
    return [(each["type"], each["path"]) for each in usage["memoryFiles"]], usage.get("apiUsage")


@program
async def question_about_a_command(rig: Rig) -> Outcome:
    outside = rig.home / "outside.txt"
    outside.write_text("x\n")
    seen: list[Any] = []

    async def judge(name: str, given: Fields, context: ToolPermissionContext) -> Any:
        places = [each.destination for each in context.suggestions[:1]]
        seen.append([name, context.description, places])
        return PermissionResultAllow()

    path = str(rig.work / "made.txt")
    rig.script(
        called(TOUCH),
        called(("t2", "Write", {"file_path": path, "content": "x"})),
        called(("t3", "Read", {"file_path": str(outside)})),
        said("Done."),
    )
    async with rig.connect(can_use_tool=judge) as client:
        await said_to(client, "go")
    return seen


@program
async def stopped_command(rig: Rig) -> Outcome:
    call = {"command": "sleep 100", "description": "Wait", "run_in_background": True}
    rig.script(called(("t1", "Bash", call)), said("Started."), said("Noted."))
    told: list[Message] = []
    async with rig.connect(allowed_tools=["Bash"]) as client:
        first = await said_to(client, "go")
        (task,) = [each.task_id for each in first if isinstance(each, TaskStartedMessage)]
        await client.stop_task(task)
        async for message in client.receive_messages():
            told.append(message)
            if isinstance(message, TaskNotificationMessage):
                break
    notes = [each for each in told if isinstance(each, TaskNotificationMessage)]
    return [(each.status, each.summary) for each in notes]


@program
async def report_of_a_background_agent(rig: Rig) -> Outcome:
    task = {"description": "Work", "prompt": "do the work", "run_in_background": True}

    def answer(body: Fields) -> Reply:
        text = json.dumps(body["messages"])
        if "Off it goes" not in text and "do the work" in text:
            return said("It is 42.")
        if "Off it goes" not in text:
            call = ("t1", "Agent", task | {"subagent_type": "general-purpose"})
            return called(call, text="Off it goes")
        return said("Noted." if "<task-notification>" in text else "Waiting.")

    rig.api.choose = answer
    told: list[Message] = []
    async with rig.connect() as client:
        await client.query("go")
        async for message in client.receive_messages():
            told.append(message)
            if isinstance(message, ResultMessage) and message.result == "Noted.":
                break
    notes = [each for each in told if isinstance(each, TaskNotificationMessage)]
    return [(each.status, each.summary) for each in notes]


@program
async def options_that_are_ignored(rig: Rig) -> Outcome:
    rig.script(said("Hi."))
    gone = await rig.ask(add_dirs=["/nonexistent"])
    weird = await rig.ask(extra_args={"effort": "weird"})
    lone = await rig.failing(resume_session_at="11111111-1111-4111-8111-111111111111")
    told = any("weird" in each for each in rig.complaints)
    return started(gone)["additional_directories"], ended(weird)["result"], told, lone[1]


@program
async def commands_that_are_prompts(rig: Rig) -> Outcome:
    rig.script(said("Hi."))
    found: list[Any] = []
    for command in ("/init", "/security-review"):
        messages = await rig.ask(command)
        told = started(messages)["slash_commands"]
        is_sent_as_typed = f"user: {command}" in asked(rig.bodies[-1])
        found.append([ended(messages)["result"], command[1:] in told, is_sent_as_typed])
    return found, len(rig.bodies)


@program
async def agent_as_the_session(rig: Rig) -> Outcome:
    agents = {"judge": AgentDefinition(description="Judges.", prompt="Judge fairly.")}
    rig.script(said("Fair."))
    messages = await rig.ask(agents=agents, extra_args={"agent": "judge"})
    return "Judge fairly." in json.dumps(rig.bodies[0]["system"]), ended(messages)["result"]
