"""Programs with MCP servers: inside the program, and outside."""

import asyncio
from typing import Any

from claude_agent_sdk import create_sdk_mcp_server, tool

from support.scripted_api import called, said
from support.sdk_rig import (
    Outcome,
    Rig,
    ended,
    program,
    result_text,
    results,
    said_to,
    started,
)


@tool("add", "Add two numbers", {"a": float, "b": float})
async def add(given: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": f"{given['a'] + given['b']:g}"}]}


@tool("boom", "Fail", {})
async def boom(given: dict[str, Any]) -> dict[str, Any]:
    raise ValueError("it broke")


def calculator() -> Any:
    return create_sdk_mcp_server("calc", "1.0", [add, boom])


SUM = ("t1", "mcp__calc__add", {"a": 1, "b": 2})


@program
async def in_process_server(rig: Rig) -> Outcome:
    rig.script(called(SUM), said("Three."))
    messages = await rig.ask(mcp_servers={"calc": calculator()}, allowed_tools=["mcp__calc__add"])
    data = started(messages)
    tools = [each for each in data["tools"] if each.startswith("mcp__")]
    states = [(each["name"], each["status"]) for each in data["mcp_servers"]]
    return tools, states, result_text(messages, "t1"), ended(messages)


@program
async def in_process_server_needs_permission(rig: Rig) -> Outcome:
    rig.script(called(SUM), said("Sorry."))
    messages = await rig.ask(mcp_servers={"calc": calculator()})
    return results(messages), ended(messages)["denials"]


@program
async def failing_server_tool(rig: Rig) -> Outcome:
    rig.script(called(("t1", "mcp__calc__boom", {})), said("Sorry."))
    messages = await rig.ask(mcp_servers={"calc": calculator()}, allowed_tools=["mcp__calc__boom"])
    return results(messages), "it broke" in result_text(messages, "t1")


@program
async def two_in_process_servers(rig: Rig) -> Outcome:
    servers = {"calc": calculator(), "other": create_sdk_mcp_server("other", "1", [add])}
    other = ("t2", "mcp__other__add", {"a": 2, "b": 2})
    rig.script(called(SUM, other), said("Done."))
    messages = await rig.ask(mcp_servers=servers, allowed_tools=["mcp__calc", "mcp__other"])
    return result_text(messages, "t1"), result_text(messages, "t2")


@program
async def server_states(rig: Rig) -> Outcome:
    rig.script(said("Hi."))
    async with rig.connect(mcp_servers={"calc": calculator()}) as client:
        await said_to(client, "hi")
        (state,) = (await client.get_mcp_status())["mcpServers"]
    tools = [each["name"] for each in state.get("tools", [])]
    return state["name"], state["status"], state.get("serverInfo"), tools


@program
async def server_switched_off(rig: Rig) -> Outcome:
    rig.script(said("Hi."), called(SUM), said("Sorry."))
    allowed = ["mcp__calc__add"]
    async with rig.connect(mcp_servers={"calc": calculator()}, allowed_tools=allowed) as client:
        await said_to(client, "hi")
        await client.toggle_mcp_server("calc", enabled=False)
        (off,) = (await client.get_mcp_status())["mcpServers"]
        messages = await said_to(client, "add")
    return off["status"], results(messages)


@program
async def server_switched_on_again(rig: Rig) -> Outcome:
    rig.script(said("Hi."), called(SUM), said("Three."))
    allowed = ["mcp__calc__add"]
    async with rig.connect(mcp_servers={"calc": calculator()}, allowed_tools=allowed) as client:
        await said_to(client, "hi")
        await client.toggle_mcp_server("calc", enabled=False)
        await client.toggle_mcp_server("calc", enabled=True)
        messages = await said_to(client, "add")
    return results(messages), result_text(messages, "t1")


@program
async def unknown_server(rig: Rig) -> Outcome:
    async with rig.connect() as client:
        try:
            await client.reconnect_mcp_server("nope")
        except Exception as error:  # the SDK raises nothing more specific
            return str(error)
    return None


@program
async def slow_server_tool(rig: Rig) -> Outcome:
    @tool("wait", "Wait", {})
    async def wait(given: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0.3)
        return {"content": [{"type": "text", "text": "waited"}]}

    servers = {"slow": create_sdk_mcp_server("slow", "1", [wait])}
    rig.script(called(("t1", "mcp__slow__wait", {})), said("Done."))
    messages = await rig.ask(mcp_servers=servers, allowed_tools=["mcp__slow__wait"])
    return result_text(messages, "t1")


@program
async def broken_server(rig: Rig) -> Outcome:
    servers: Any = {"gone": {"command": "/nonexistent/server", "args": []}}
    rig.script(said("Hi."))
    messages = await rig.ask(mcp_servers=servers)
    return [(each["name"], each["status"]) for each in started(messages)["mcp_servers"]]
