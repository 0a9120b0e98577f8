"""Programs that ask something: prompts, streams, options of the model, system prompts, tools."""

import json
from collections.abc import AsyncIterator

from claude_agent_sdk import (
    AssistantMessage,
    RateLimitEvent,
    StreamEvent,
    SystemMessage,
    ThinkingBlock,
    UserMessage,
)

from support.scripted_api import answered_by, called, said
from support.sdk_rig import (
    Fields,
    Outcome,
    Rig,
    asked,
    calls,
    ended,
    kinds,
    last,
    program,
    result_text,
    results,
    said_to,
    started,
    texts,
)

LS = ("t1", "Bash", {"command": "ls"})
MODEL = "claude-sonnet-4-5"


def prompt(text: str, **more: object) -> Fields:
    return {"type": "user", "message": {"role": "user", "content": text}} | more


@program
async def simple_query(rig: Rig) -> Outcome:
    rig.script(said("Hello."))
    messages = await rig.ask("hi")
    return kinds(messages), ended(messages), texts(messages), asked(rig.bodies[0])[:1]


@program
async def blocks_and_ids(rig: Rig) -> Outcome:
    rig.script(said("Hello."))
    messages = await rig.ask("hi")
    answers = [each for each in messages if isinstance(each, AssistantMessage)]
    thinking = [b for each in answers for b in each.content if isinstance(b, ThinkingBlock)]
    return {
        "one message": len({each.message_id for each in answers}),
        "uuids": len({each.uuid for each in answers if each.uuid}),
        "thinking": [(each.thinking, each.signature) for each in thinking],
        "model": answers[0].model,
        "sessions": {each.session_id for each in answers} == {last(messages).session_id},
    }


@program
async def usage_of_requested_models(rig: Rig) -> Outcome:
    """Results and sessions count the model that was requested, not the name that answered."""
    found: list[Fields] = []
    for model in (MODEL, f"{MODEL}[1m]", "opus[1m]"):
        rig.script(answered_by("a-name-without-a-price", said("Hello.")))
        result = last(await rig.ask("hi", model=model))
        (session,) = (rig.home / "claude" / "projects").rglob(f"{result.session_id}.jsonl")
        lines = [json.loads(line) for line in session.read_text().splitlines()]
        totals = [line for line in lines if line["type"] == "cost-state"][-1]
        named = list(result.model_usage or {}), list(totals["modelUsage"])
        found.append({"named": named, "cost": round(result.total_cost_usd or 0, 9)})
    return found


@program
async def result_figures(rig: Rig) -> Outcome:
    rig.script(said("Hello."))
    result = last(await rig.ask("hi"))
    assert result.usage
    assert result.model_usage
    assert result.total_cost_usd
    (usage,) = result.model_usage.values()
    return {
        "tokens": [result.usage["input_tokens"], result.usage["output_tokens"]],
        "model": list(result.model_usage),
        "per model": [usage["inputTokens"], usage["outputTokens"], usage["contextWindow"]],
        "cost": round(result.total_cost_usd, 9),
        "errors": result.errors,
        "status": result.api_error_status,
    }


@program
async def several_turns(rig: Rig) -> Outcome:
    rig.script(said("One."), said("Two."))
    async with rig.connect() as client:
        first = await said_to(client, "first")
        second = await said_to(client, "second")
    same = last(first).session_id == last(second).session_id
    cost = round((last(second).total_cost_usd or 0) / (last(first).total_cost_usd or 1))
    return ended(first), ended(second), same, cost, "assistant: One." in asked(rig.bodies[1])


@program
async def streamed_prompts(rig: Rig) -> Outcome:
    async def prompts() -> AsyncIterator[Fields]:
        yield prompt("one")
        yield prompt("two")

    rig.script(said("One."), said("Two."))
    messages = await rig.ask(prompts())
    return texts(messages), kinds(messages).count("ResultMessage")


@program
async def image_prompt(rig: Rig) -> Outcome:
    async def prompts() -> AsyncIterator[Fields]:
        content = [{"type": "text", "text": "look"}, {"type": "text", "text": "again"}]
        yield {"type": "user", "message": {"role": "user", "content": content}}

    rig.script(said("Seen."))
    messages = await rig.ask(prompts())
    return texts(messages), [each for each in asked(rig.bodies[0]) if each.startswith("user")][:2]


@program
async def partial_messages(rig: Rig) -> Outcome:
    rig.script(said("Hello there."))
    messages = await rig.ask("hi", include_partial_messages=True)
    events = [each.event for each in messages if isinstance(each, StreamEvent)]
    deltas = [each["delta"] for each in events if each["type"] == "content_block_delta"]
    text = "".join(each.get("text", "") for each in deltas)
    order = [each["type"] for each in events if not each["type"].endswith("delta")]
    return text, order, ended(messages)


@program
async def replayed_prompts(rig: Rig) -> Outcome:
    uuid = "aaaaaaaa-0000-4000-8000-000000000001"

    async def prompts() -> AsyncIterator[Fields]:
        yield prompt("one", uuid=uuid)

    rig.script(said("One."))
    messages = await rig.ask(prompts(), extra_args={"replay-user-messages": None})
    replayed = [each for each in messages if isinstance(each, UserMessage)]
    return [(each.content, each.uuid) for each in replayed]


@program
async def tool_call(rig: Rig) -> Outcome:
    rig.script(called(LS, text="Look."), said("Done."))
    messages = await rig.ask()
    told = [each.tool_use_result for each in messages if isinstance(each, UserMessage)]
    stdout = told[0]["stdout"] if isinstance(told[0], dict) else told[0]
    return kinds(messages), ended(messages), results(messages), result_text(messages, "t1"), stdout


@program
async def parallel_calls(rig: Rig) -> Outcome:
    read = ("t2", "Read", {"file_path": str(rig.work / "a.txt")})
    rig.script(called(LS, read), said("Done."))
    messages = await rig.ask()
    return sorted(results(messages)), ended(messages)


@program
async def failing_call(rig: Rig) -> Outcome:
    read = ("t1", "Read", {"file_path": str(rig.work / "none.txt")})
    rig.script(called(read), said("Gone."))
    messages = await rig.ask()
    return results(messages), ended(messages)


@program
async def unknown_tool(rig: Rig) -> Outcome:
    rig.script(called(("t1", "Nope", {})), said("Sorry."))
    messages = await rig.ask()
    return results(messages), "No such tool available: Nope" in result_text(messages, "t1")


@program
async def system_prompt_text(rig: Rig) -> Outcome:
    rig.script(said("Aye."))
    await rig.ask(system_prompt="Talk like a pirate.")
    return any(each["text"] == "Talk like a pirate." for each in rig.bodies[0]["system"])


@program
async def system_prompt_appended(rig: Rig) -> Outcome:
    rig.script(said("Aye."))
    preset = {"type": "preset", "preset": "claude_code", "append": "Talk like a pirate."}
    await rig.ask(system_prompt=preset)
    system = "\n".join(each["text"] for each in rig.bodies[0]["system"])
    return system.rstrip().endswith("Talk like a pirate."), len(system) > 500


@program
async def system_prompt_file(rig: Rig) -> Outcome:
    (rig.home / "pirate.md").write_text("Talk like a pirate.")
    rig.script(said("Aye."))
    await rig.ask(system_prompt={"type": "file", "path": str(rig.home / "pirate.md")})
    return any("Talk like a pirate." in each["text"] for each in rig.bodies[0]["system"])


@program
async def no_system_prompt(rig: Rig) -> Outcome:
    rig.script(said("Aye."))
    await rig.ask()
    return sum(len(each["text"]) for each in rig.bodies[0]["system"]) < 500


@program
async def chosen_model(rig: Rig) -> Outcome:
    rig.script(said("Hi."))
    messages = await rig.ask(model="sonnet")
    return rig.bodies[0]["model"], started(messages)["model"]


@program
async def effort_levels(rig: Rig) -> Outcome:
    rig.script(said("Hi."))
    for effort in ("low", "max"):
        await rig.ask(effort=effort)
    return [each["output_config"]["effort"] for each in rig.bodies]


@program
async def thinking_budget(rig: Rig) -> Outcome:
    rig.script(said("Hi."))
    thinking = {"type": "enabled", "budget_tokens": 5000}
    await rig.ask(model=MODEL, thinking=thinking)
    await rig.ask(thinking=thinking)
    told = [each["thinking"] for each in rig.bodies]
    return [(each["type"], each.get("budget_tokens")) for each in told]


@program
async def adaptive_thinking(rig: Rig) -> Outcome:
    rig.script(said("Hi."))
    await rig.ask(thinking={"type": "adaptive"})
    return rig.bodies[0]["thinking"]["type"]


@program
async def beta_features(rig: Rig) -> Outcome:
    rig.script(said("Hi."))
    await rig.ask(model="sonnet", betas=["context-1m-2025-08-07"])
    return "context-1m-2025-08-07" in rig.api.requests[0].headers["anthropic-beta"].split(",")


@program
async def task_budget(rig: Rig) -> Outcome:
    rig.script(said("Hi."))
    await rig.ask(task_budget={"total": 50_000})
    named = "task-budgets-2026-03-13" in rig.api.requests[0].headers["anthropic-beta"]
    return rig.bodies[0]["output_config"]["task_budget"], named


@program
async def listed_tools(rig: Rig) -> Outcome:
    write = ("t1", "Write", {"file_path": str(rig.work / "w.txt"), "content": "w"})
    rig.script(called(write), said("Sorry."))
    messages = await rig.ask(tools=["Read", "Bash"], permission_mode="bypassPermissions")
    # A placeholder stands for tools that the client would load later.
    offered = sorted(
        each["name"] for each in rig.bodies[0]["tools"] if "Placeholder" not in each["name"]
    )
    exists = (rig.work / "w.txt").exists()
    return sorted(started(messages)["tools"]), offered, results(messages), exists


@program
async def no_tools(rig: Rig) -> Outcome:
    rig.script(said("Hi."))
    messages = await rig.ask(tools=[])
    return started(messages)["tools"], rig.bodies[0].get("tools") or []


@program
async def disallowed_tools(rig: Rig) -> Outcome:
    rig.script(called(LS), said("Sorry."))
    messages = await rig.ask(disallowed_tools=["Bash", "WebFetch"])
    told = started(messages)["tools"]
    return "Bash" in told, "WebFetch" in told, "Read" in told, results(messages), calls(messages)


@program
async def additional_directory(rig: Rig) -> Outcome:
    other = rig.home / "other"
    other.mkdir()
    (other / "b.txt").write_text("beta\n")
    rig.script(called(("t1", "Read", {"file_path": str(other / "b.txt")})), said("Read."))
    with_it = await rig.ask(add_dirs=[other])
    return results(with_it), "beta" in result_text(with_it, "t1")


@program
async def environment_of_commands(rig: Rig) -> Outcome:
    rig.script(called(("t1", "Bash", {"command": "echo is $SHIP"})), said("Done."))
    messages = await rig.ask(env={"SHIP": "sloop"}, allowed_tools=["Bash"])
    return result_text(messages, "t1")


@program
async def init_message(rig: Rig) -> Outcome:
    rig.script(said("Hi."))
    data = started(await rig.ask())
    named = ("cwd", "model", "permissionMode", "apiKeySource", "output_style", "mcp_servers")
    version = str(data["claude_code_version"]).split(".")[0]
    return [data[each] for each in named], version, "general-purpose" in data["agents"]


@program
async def rate_limits_are_quiet(rig: Rig) -> Outcome:
    rig.script(said("Hi."))
    messages = await rig.ask()
    odd = [each for each in messages if isinstance(each, RateLimitEvent)]
    told = [each.subtype for each in messages if type(each) is SystemMessage]
    return len(odd), "init" in told


@program
async def verbatim_prompt(rig: Rig) -> Outcome:
    rig.script(said("Hi."))
    await rig.ask("/compact is a word", verbatim_prompts=True)
    return "user: /compact is a word" in asked(rig.bodies[0])
