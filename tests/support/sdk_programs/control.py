"""Programs that steer a running client, and those whose work fails."""

import asyncio
import json
import os
import signal

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeSDKClient,
    Message,
    PermissionResultAllow,
    ResultError,
    ResultMessage,
    ToolPermissionContext,
    query,
)

from support.scripted_api import called, refused, said
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
    request_of,
    result_text,
    results,
    said_to,
    texts,
    until,
    write_line,
)

SCHEMA = {
    "type": "json_schema",
    "schema": {
        "type": "object",
        "properties": {"answer": {"type": "number"}},
        "required": ["answer"],
    },
}


@program
async def interrupted_answer(rig: Rig) -> Outcome:
    rig.script(said("A long story and more of it.")._replace(hold_after=9), said("Again."))
    async with rig.connect() as client:
        await client.query("go")
        stopping = asyncio.create_task(_interrupt(client, rig))
        first = [message async for message in client.receive_response()]
        await stopping
        second = await said_to(client, "more")
    outcome = ended(first)
    return outcome["subtype"], outcome["is_error"], outcome["terminal_reason"], ended(second)


async def _interrupt(client: ClaudeSDKClient, rig: Rig) -> None:
    await until(rig.api.holding.is_set)
    await client.interrupt()


@program
async def interrupted_call(rig: Rig) -> Outcome:
    rig.script(called(SLOW), said("Again."))
    messages: list[Message] = []
    async with rig.connect(allowed_tools=["Bash"]) as client:
        await client.query("go")
        async for message in client.receive_response():
            messages.append(message)
            if isinstance(message, AssistantMessage):
                await asyncio.sleep(1)
                await client.interrupt()
        more = await said_to(client, "more")
    outcome = ended(messages)
    return outcome["subtype"], outcome["terminal_reason"], results(messages), texts(more)


@program
async def interrupted_question(rig: Rig) -> Outcome:
    was_cancelled = asyncio.Event()
    was_asked = asyncio.Event()

    async def judge(tool: str, given: Fields, context: ToolPermissionContext) -> object:
        was_asked.set()
        try:
            await asyncio.sleep(60)
        finally:
            was_cancelled.set()
        return PermissionResultAllow()

    rig.script(called(("t1", "Bash", {"command": "touch new"})), said("Again."))
    async with rig.connect(can_use_tool=judge) as client:
        await client.query("go")
        stopping = asyncio.create_task(_interrupt_when(client, was_asked))
        messages = [message async for message in client.receive_response()]
        await stopping
        await asyncio.wait_for(was_cancelled.wait(), 20)
    return ended(messages)["subtype"], (rig.work / "new").exists()


async def _interrupt_when(client: ClaudeSDKClient, event: asyncio.Event) -> None:
    await event.wait()
    await client.interrupt()


@program
async def nothing_to_interrupt(rig: Rig) -> Outcome:
    rig.script(said("Hi."))
    async with rig.connect() as client:
        await client.interrupt()
        return ended(await said_to(client, "hi"))


@program
async def model_switched(rig: Rig) -> Outcome:
    rig.script(said("One."), said("Two."), said("Three."))
    async with rig.connect() as client:
        await said_to(client, "one")
        await client.set_model("sonnet")
        await said_to(client, "two")
        await client.set_model(None)
        await said_to(client, "three")
    return [each["model"] for each in rig.bodies]


@program
async def server_info(rig: Rig) -> Outcome:
    async with rig.connect() as client:
        info = await client.get_server_info()
    assert info
    names = [each["name"] for each in info["commands"]]
    models = [each["value"] for each in info["models"]]
    keys = ("commands", "agents", "models", "account", "output_style", "pid")
    return "compact" in names, {"sonnet", "opus"} <= set(models), [key in info for key in keys]


@program
async def context_usage(rig: Rig) -> Outcome:
    rig.script(said("Hi."))
    async with rig.connect() as client:
        await said_to(client, "hi")
        usage = await client.get_context_usage()
    named: list[Fields] = [dict(each) for each in usage["categories"]]
    names = {str(each["name"]) for each in named}
    return usage["maxTokens"], usage["totalTokens"] > 0, {"Messages", "Free space"} <= names


@program
async def odd_requests(rig: Rig) -> Outcome:
    told: list[str] = []
    async with rig.connect() as client:
        for request in ({"subtype": "wat"}, {"subtype": "set_permission_mode", "mode": "wat"}):
            try:
                await request_of(client, request)
            except Exception as error:  # the SDK raises nothing more specific
                told.append(str(error).split(":")[0])
        rig.script(said("Hi."))
        after = await said_to(client, "hi")
    return told, ended(after)["result"]


@program
async def thinking_switched_off(rig: Rig) -> Outcome:
    rig.script(said("Hi."))
    async with rig.connect(model="claude-sonnet-4-5", max_thinking_tokens=4000) as client:
        await said_to(client, "one")
        request = {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 0}
        await request_of(client, request)
        await said_to(client, "two")
    told = [each.get("thinking") or {"type": "disabled"} for each in rig.bodies]
    return [(each["type"], each.get("budget_tokens")) for each in told]


@program
async def maximum_of_turns(rig: Rig) -> Outcome:
    rig.script(called(("t1", "Bash", {"command": "ls"})))
    messages, error = await rig.failing(max_turns=1)
    return ended(messages), last(messages).errors, error


@program
async def maximum_budget(rig: Rig) -> Outcome:
    rig.script(called(("t1", "Bash", {"command": "ls"})))
    messages, error = await rig.failing(max_budget_usd=0.00001)
    return ended(messages)["subtype"], last(messages).errors, error


@program
async def refused_request(rig: Rig) -> Outcome:
    rig.script(refused(400, "bad thing", "invalid_request_error"))
    messages, error = await rig.failing()
    (answer,) = [each for each in messages if isinstance(each, AssistantMessage)]
    result = last(messages)
    return {
        "error": error,
        "answer": answer.error,
        "subtype": result.subtype,
        "is_error": result.is_error,
        "status": result.api_error_status,
        "reason": result.terminal_reason,
        "text": (result.result or "").startswith("API Error: 400"),
    }


@program
async def error_and_then_success(rig: Rig) -> Outcome:
    bad = refused(400, "bad thing", "invalid_request_error")
    # By the prompt and not in order: the client asks again in another way.
    rig.api.choose = lambda body: None if "user: two" in asked(body) else bad
    rig.script(said("Better."))
    async with rig.connect() as client:
        first = await said_to(client, "one")
        second = await said_to(client, "two")
    return ended(first)["is_error"], ended(second)


@program
async def result_error(rig: Rig) -> Outcome:
    rig.script(called(("t1", "Bash", {"command": "ls"})))
    try:
        async for _ in query(prompt="go", options=rig.options(max_turns=1)):
            pass
    except ResultError as error:
        return error.exit_code, "maximum number of turns" in str(error)
    return None


@program
async def retried_request(rig: Rig) -> Outcome:
    rig.script(refused(529, "Overloaded", "overloaded_error"), said("At last."))
    messages = await rig.ask()
    told = [each["error_status"] for each in noted(messages, "api_retry")]
    return told, ended(messages)["result"]


@program
async def fallback_model(rig: Rig) -> Outcome:
    busy = refused(529, "Overloaded", "overloaded_error")
    rig.script(busy, busy, busy, said("From the other."))
    messages = await rig.ask(fallback_model="sonnet")
    models = [each["model"] for each in rig.bodies]
    told = [each["fallback_model"] for each in noted(messages, "model_fallback")]
    return models, ended(messages)["result"], told


@program
async def structured_output(rig: Rig) -> Outcome:
    rig.script(called(("t1", "StructuredOutput", {"answer": 42})), said("never"))
    messages = await rig.ask(output_format=SCHEMA)
    result = last(messages)
    return result.structured_output, result.result, ended(messages), len(rig.bodies)


@program
async def structured_output_corrected(rig: Rig) -> Outcome:
    wrong = ("t1", "StructuredOutput", {"answer": "many"})
    rig.script(called(wrong), called(("t2", "StructuredOutput", {"answer": 7})))
    messages = await rig.ask(output_format=SCHEMA)
    return last(messages).structured_output, results(messages)


@program
async def structured_output_demanded(rig: Rig) -> Outcome:
    rig.script(said("It is 42."), called(("t1", "StructuredOutput", {"answer": 42})))
    messages = await rig.ask(output_format=SCHEMA)
    return last(messages).structured_output, len(rig.bodies)


@program
async def killed_client(rig: Rig) -> Outcome:
    rig.script(said("A long story and more of it.")._replace(hold_after=9))
    has_result = False
    try:
        async with rig.connect() as client:
            info = await client.get_server_info()
            assert info
            await client.query("go")
            await until(rig.api.holding.is_set)
            os.kill(info["pid"], signal.SIGKILL)
            async for message in client.receive_messages():
                has_result = has_result or isinstance(message, ResultMessage)
    except Exception as error:  # what a program gets is what is compared
        return type(error).__name__, has_result
    return None


@program
async def bad_line(rig: Rig) -> Outcome:
    try:
        async with rig.connect() as client:
            await write_line(client, "this is not JSON")
            async for _ in client.receive_messages():
                pass
    except Exception as error:  # what a program gets is what is compared
        return type(error).__name__
    return "ended"


@program
async def unknown_message_type(rig: Rig) -> Outcome:
    rig.script(said("Hi."))
    async with rig.connect() as client:
        await write_line(client, json.dumps({"type": "keep_alive"}))
        return ended(await said_to(client, "hi"))["result"]


@program
async def stderr_of_the_client(rig: Rig) -> Outcome:
    _, error = await rig.failing(extra_args={"no-such-option": None})
    return error, any("no-such-option" in each for each in rig.complaints)


@program
async def early_exit(rig: Rig) -> Outcome:
    rig.script(called(("t1", "Bash", {"command": "ls"})), said("Done."))
    seen = 0
    async with rig.connect() as client:
        await client.query("go")
        async for message in client.receive_messages():
            seen += 1
            if isinstance(message, AssistantMessage):
                break
    return seen > 0


@program
async def queued_prompts(rig: Rig) -> Outcome:
    rig.script(said("One."), said("Two."))
    async with rig.connect() as client:
        await client.query("first")
        await client.query("second")
        first = [message async for message in client.receive_response()]
        second = [message async for message in client.receive_response()]
    return texts(first), texts(second)


@program
async def large_result(rig: Rig) -> Outcome:
    (rig.work / "big.txt").write_text("word \n" * 1_500)
    call = ("t1", "Read", {"file_path": str(rig.work / "big.txt")})
    rig.script(called(call), said("Read."))
    messages = await rig.ask()
    return results(messages), len(result_text(messages, "t1")) > 7_000
