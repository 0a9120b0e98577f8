"""Programs with hooks."""

import json
from typing import Any

from claude_agent_sdk import (
    AgentDefinition,
    HookEventMessage,
    HookMatcher,
    PermissionResultAllow,
    ToolPermissionContext,
)

from support.scripted_api import answered, called, said
from support.sdk_rig import (
    Fields,
    Outcome,
    Rig,
    asked,
    ended,
    program,
    result_text,
    results,
    said_to,
)

LS = ("t1", "Bash", {"command": "ls"})
TASK = {"description": "Look", "prompt": "look", "subagent_type": "spy", "run_in_background": False}
SPY = {"spy": AgentDefinition(description="Spies", prompt="You spy.", tools=["Bash"])}


class Listener:
    """A hook that gives the same output each time, and keeps its inputs."""

    def __init__(self, output: Fields | None = None) -> None:
        self.output = output or {}
        self.inputs: list[Fields] = []
        self.tool_uses: list[str | None] = []

    async def __call__(self, given: Any, tool_use_id: str | None, context: Any) -> Any:
        self.inputs.append(given)
        self.tool_uses.append(tool_use_id)
        return self.output


def hooks(event: str, *listeners: Listener, matcher: str | None = None) -> Any:
    return {event: [HookMatcher(matcher=matcher, hooks=list(listeners))]}


@program
async def pre_tool_use(rig: Rig) -> Outcome:
    listener = Listener()
    rig.script(called(LS), said("Done."))
    messages = await rig.ask(hooks=hooks("PreToolUse", listener, matcher="Bash"))
    (given,) = listener.inputs
    named = ("hook_event_name", "tool_name", "tool_input", "tool_use_id", "permission_mode", "cwd")
    return [given[each] for each in named], listener.tool_uses, ended(messages)


@program
async def pre_tool_use_denies(rig: Rig) -> Outcome:
    output = {"hookEventName": "PreToolUse", "permissionDecision": "deny"}
    output["permissionDecisionReason"] = "not this one"
    rig.script(called(LS), said("Sorry."))
    messages = await rig.ask(
        hooks=hooks("PreToolUse", Listener({"hookSpecificOutput": output})), allowed_tools=["Bash"]
    )
    return results(messages), "not this one" in result_text(messages, "t1")


@program
async def pre_tool_use_allows(rig: Rig) -> Outcome:
    output = {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
    rig.script(called(("t1", "Bash", {"command": "touch new"})), said("Done."))
    await rig.ask(hooks=hooks("PreToolUse", Listener({"hookSpecificOutput": output})))
    return (rig.work / "new").exists()


@program
async def pre_tool_use_changes_input(rig: Rig) -> Outcome:
    output: Fields = {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
    output["updatedInput"] = {"command": "touch other"}
    rig.script(called(("t1", "Bash", {"command": "touch new"})), said("Done."))
    await rig.ask(hooks=hooks("PreToolUse", Listener({"hookSpecificOutput": output})))
    return (rig.work / "new").exists(), (rig.work / "other").exists()


@program
async def hooks_that_do_not_match(rig: Rig) -> Outcome:
    listener = Listener()
    rig.script(called(LS), said("Done."))
    await rig.ask(hooks=hooks("PreToolUse", listener, matcher="Write|Edit"))
    return len(listener.inputs)


@program
async def post_tool_use(rig: Rig) -> Outcome:
    listener = Listener()
    rig.script(called(LS), said("Done."))
    await rig.ask(hooks=hooks("PostToolUse", listener))
    (given,) = listener.inputs
    return given["tool_name"], given["tool_response"]["stdout"], listener.tool_uses


@program
async def post_tool_use_adds_context(rig: Rig) -> Outcome:
    output = {"hookEventName": "PostToolUse", "additionalContext": "mind the gap"}
    rig.script(called(LS), said("Done."))
    await rig.ask(hooks=hooks("PostToolUse", Listener({"hookSpecificOutput": output})))
    return "mind the gap" in json.dumps(rig.bodies[1]["messages"])


@program
async def post_tool_use_failure(rig: Rig) -> Outcome:
    listener = Listener()
    read = ("t1", "Read", {"file_path": str(rig.work / "none.txt")})
    rig.script(called(read), said("Gone."))
    await rig.ask(hooks=hooks("PostToolUseFailure", listener))
    return [(each["tool_name"], bool(each["error"])) for each in listener.inputs]


@program
async def user_prompt_submit(rig: Rig) -> Outcome:
    output = {"hookEventName": "UserPromptSubmit", "additionalContext": "it rains"}
    listener = Listener({"hookSpecificOutput": output})
    rig.script(said("Wet."))
    await rig.ask("how is it", hooks=hooks("UserPromptSubmit", listener))
    return listener.inputs[0]["prompt"], "it rains" in json.dumps(rig.bodies[0]["messages"])


@program
async def blocked_prompt(rig: Rig) -> Outcome:
    listener = Listener({"decision": "block", "reason": "not now"})
    rig.script(said("never"))
    messages = await rig.ask(hooks=hooks("UserPromptSubmit", listener))
    return ended(messages)["subtype"], len(rig.bodies)


@program
async def stop_hook_goes_on(rig: Rig) -> Outcome:
    class Once(Listener):
        async def __call__(self, given: Any, tool_use_id: str | None, context: Any) -> Any:
            await super().__call__(given, tool_use_id, context)
            again = {"decision": "block", "reason": "also count"}
            return again if len(self.inputs) == 1 else {}

    listener = Once()
    rig.script(said("One."), said("Two."))
    messages = await rig.ask(hooks=hooks("Stop", listener))
    active = [each["stop_hook_active"] for each in listener.inputs]
    return active, ended(messages)["result"], "also count" in json.dumps(rig.bodies[1]["messages"])


@program
async def stop_hook_ends(rig: Rig) -> Outcome:
    listener = Listener()
    rig.script(said("One."))
    await rig.ask(hooks=hooks("Stop", listener))
    return [(each["hook_event_name"], each["last_assistant_message"]) for each in listener.inputs]


@program
async def hook_ends_the_turn(rig: Rig) -> Outcome:
    listener = Listener({"continue_": False, "stopReason": "enough"})
    rig.script(called(LS), said("never"))
    messages = await rig.ask(hooks=hooks("PostToolUse", listener))
    return ended(messages)["subtype"], len(rig.bodies)


@program
async def sub_agent_hooks(rig: Rig) -> Outcome:
    start, stop, call = Listener(), Listener(), Listener()
    every = hooks("SubagentStart", start) | hooks("SubagentStop", stop) | hooks("PreToolUse", call)
    rig.script(called(("t1", "Agent", TASK)), called(("s1", *LS[1:])), said("Seen."), said("Done."))
    await rig.ask(hooks=every, agents=SPY, permission_mode="bypassPermissions")
    inner = [each.get("agent_type") for each in call.inputs if each["tool_name"] == "Bash"]
    same = start.inputs[0]["agent_id"] == stop.inputs[0]["agent_id"]
    return [each["agent_type"] for each in start.inputs], len(stop.inputs), inner, same


@program
async def pre_compact(rig: Rig) -> Outcome:
    listener = Listener()
    summary = answered({"type": "text", "text": "<summary>They said hello.</summary>"})
    rig.script(said("Hello."), summary)
    async with rig.connect(hooks=hooks("PreCompact", listener)) as client:
        await said_to(client, "hi")
        await said_to(client, "/compact briefly")
    return [(each["trigger"], each["custom_instructions"]) for each in listener.inputs]


@program
async def permission_request_hook(rig: Rig) -> Outcome:
    decision = {"behavior": "allow"}
    output = {"hookEventName": "PermissionRequest", "decision": decision}
    listener = Listener({"hookSpecificOutput": output})
    rig.script(called(("t1", "Bash", {"command": "touch new"})), said("Done."))
    await rig.ask(hooks=hooks("PermissionRequest", listener))
    return [each["tool_name"] for each in listener.inputs], (rig.work / "new").exists()


@program
async def hook_before_the_question(rig: Rig) -> Outcome:
    order: list[str] = []

    async def judge(tool: str, given: Fields, context: ToolPermissionContext) -> Any:
        order.append("asked")
        return PermissionResultAllow()

    async def hook(given: Any, tool_use_id: str | None, context: Any) -> Any:
        order.append("hook")
        output = {"hookEventName": "PreToolUse", "permissionDecision": "ask"}
        return {"hookSpecificOutput": output}

    rig.script(called(LS), said("Done."))
    matchers = {"PreToolUse": [HookMatcher(hooks=[hook])]}
    async with rig.connect(can_use_tool=judge, hooks=matchers) as client:
        await said_to(client, "go")
    return order


@program
async def failing_hook_is_ignored(rig: Rig) -> Outcome:
    async def hook(given: Any, tool_use_id: str | None, context: Any) -> Any:
        raise ValueError("broken")

    rig.script(called(LS), said("Done."))
    messages = await rig.ask(hooks={"PreToolUse": [HookMatcher(hooks=[hook])]})
    return results(messages), ended(messages)["result"]


@program
async def failing_hook_blocks(rig: Rig) -> Outcome:
    async def hook(given: Any, tool_use_id: str | None, context: Any) -> Any:
        raise ValueError("broken")

    rig.script(called(LS), said("Sorry."))
    messages = await rig.ask(hooks={"PreToolUse": [HookMatcher(hooks=[hook], on_failure="block")]})
    return results(messages)


@program
async def events_of_other_hooks(rig: Rig) -> Outcome:
    folder = rig.work / ".claude"
    folder.mkdir()
    command = {"type": "command", "command": "echo from the project"}
    settings = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [command]}]}}
    (folder / "settings.json").write_text(json.dumps(settings))
    rig.script(called(LS), said("Done."))
    messages = await rig.ask(include_hook_events=True, setting_sources=["project"])
    events = [each for each in messages if isinstance(each, HookEventMessage)]
    return [
        (each.subtype, each.hook_event_name, each.data.get("exit_code"), each.data.get("stdout"))
        for each in events
    ]


@program
async def hooks_of_settings_and_program(rig: Rig) -> Outcome:
    listener = Listener()
    command = {"type": "command", "command": "touch by-settings"}
    given = {"hooks": {"PreToolUse": [{"hooks": [command]}]}}
    rig.script(called(LS), said("Done."))
    await rig.ask(hooks=hooks("PreToolUse", listener), settings=json.dumps(given))
    return len(listener.inputs), (rig.work / "by-settings").exists(), len(asked(rig.bodies[0])) > 0
