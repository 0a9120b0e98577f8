"""Programs that decide about calls."""

import json
from typing import Any

from claude_agent_sdk import (
    PermissionResultAllow,
    PermissionResultDeny,
    PermissionUpdate,
    ToolPermissionContext,
)
from claude_agent_sdk.types import PermissionRuleValue

from support.scripted_api import called, said
from support.sdk_rig import (
    Fields,
    Outcome,
    Rig,
    ended,
    program,
    result_text,
    results,
    said_to,
)

Answer = PermissionResultAllow | PermissionResultDeny


def touch(name: str, call_id: str = "t1") -> tuple[str, str, Fields]:
    return (call_id, "Bash", {"command": f"touch {name}"})


def made(rig: Rig) -> list[str]:
    return sorted(each.name for each in rig.work.iterdir() if each.is_file())


class Judge:
    """Answers in the same way each time, and records the questions."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, Fields, ToolPermissionContext]] = []

    async def __call__(self, tool: str, given: Fields, context: ToolPermissionContext) -> Answer:
        self.asked.append((tool, given, context))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@program
async def allowed_call(rig: Rig) -> Outcome:
    judge = Judge(PermissionResultAllow())
    rig.script(called(touch("new")), said("Done."))
    async with rig.connect(can_use_tool=judge) as client:
        messages = await said_to(client, "go")
    (tool, given, context) = judge.asked[0]
    return tool, given, context.tool_use_id, made(rig), ended(messages), results(messages)


@program
async def denied_call(rig: Rig) -> Outcome:
    judge = Judge(PermissionResultDeny(message="not today"))
    rig.script(called(touch("new")), said("Sorry."))
    async with rig.connect(can_use_tool=judge) as client:
        messages = await said_to(client, "go")
    return made(rig), ended(messages), results(messages), result_text(messages, "t1")


@program
async def denied_call_that_interrupts(rig: Rig) -> Outcome:
    judge = Judge(PermissionResultDeny(message="stop", interrupt=True))
    rig.script(called(touch("new")), said("never"))
    async with rig.connect(can_use_tool=judge) as client:
        messages = await said_to(client, "go")
    return made(rig), ended(messages), len(rig.bodies)


@program
async def changed_input(rig: Rig) -> Outcome:
    judge = Judge(PermissionResultAllow(updated_input={"command": "touch other"}))
    rig.script(called(touch("new")), said("Done."))
    async with rig.connect(can_use_tool=judge) as client:
        await said_to(client, "go")
    return made(rig)


@program
async def rules_for_the_session(rig: Rig) -> Outcome:
    rule = PermissionRuleValue("Bash", "touch two")
    update = PermissionUpdate("addRules", [rule], "allow", destination="session")
    judge = Judge(PermissionResultAllow(updated_permissions=[update]))
    rig.script(called(touch("one")), called(touch("two", "t2")), said("Done."))
    async with rig.connect(can_use_tool=judge) as client:
        await said_to(client, "go")
    return len(judge.asked), made(rig)


@program
async def rules_that_are_saved(rig: Rig) -> Outcome:
    rule = PermissionRuleValue("Bash", "touch one")
    update = PermissionUpdate("addRules", [rule], "allow", destination="localSettings")
    judge = Judge(PermissionResultAllow(updated_permissions=[update]))
    rig.script(called(touch("one")), said("Done."))
    async with rig.connect(can_use_tool=judge) as client:
        await said_to(client, "go")
    saved = json.loads((rig.work / ".claude/settings.local.json").read_text())
    return saved["permissions"]["allow"]


@program
async def rules_that_deny(rig: Rig) -> Outcome:
    rule = PermissionRuleValue("Bash", "touch two")
    update = PermissionUpdate("addRules", [rule], "deny", destination="session")
    judge = Judge(PermissionResultAllow(updated_permissions=[update]))
    rig.script(called(touch("one")), called(touch("two", "t2")), said("Done."))
    async with rig.connect(can_use_tool=judge) as client:
        messages = await said_to(client, "go")
    return len(judge.asked), made(rig), results(messages)


@program
async def mode_set_by_an_answer(rig: Rig) -> Outcome:
    update = PermissionUpdate("setMode", mode="acceptEdits", destination="session")
    judge = Judge(PermissionResultAllow(updated_permissions=[update]))
    write = [
        (f"t{n}", "Write", {"file_path": str(rig.work / f"w{n}"), "content": "w\n"}) for n in (1, 2)
    ]
    rig.script(called(write[0]), called(write[1]), said("Done."))
    async with rig.connect(can_use_tool=judge) as client:
        await said_to(client, "go")
    return len(judge.asked), made(rig)


@program
async def suggestion_taken(rig: Rig) -> Outcome:
    asked: list[Any] = []

    async def judge(tool: str, given: Fields, context: ToolPermissionContext) -> Answer:
        asked.append(context.suggestions[0].type)
        rules = [each for each in context.suggestions if each.type == "addRules"]
        return PermissionResultAllow(updated_permissions=rules)

    rig.script(called(touch("one.txt")), called(touch("one.txt", "t2")), said("Done."))
    async with rig.connect(can_use_tool=judge) as client:
        await said_to(client, "go")
    return asked, made(rig)


@program
async def deny_rules_win(rig: Rig) -> Outcome:
    judge = Judge(PermissionResultAllow())
    rig.script(called(touch("new")), said("Sorry."))
    async with rig.connect(can_use_tool=judge, disallowed_tools=["Bash(touch new)"]) as client:
        messages = await said_to(client, "go")
    return len(judge.asked), made(rig), results(messages)


@program
async def changed_input_that_is_denied(rig: Rig) -> Outcome:
    judge = Judge(PermissionResultAllow(updated_input={"command": "touch secret"}))
    rig.script(called(touch("new")), said("Sorry."))
    async with rig.connect(can_use_tool=judge, disallowed_tools=["Bash(touch never)"]) as client:
        await said_to(client, "go")
    return made(rig)


@program
async def broken_judge(rig: Rig) -> Outcome:
    async def judge(tool: str, given: Fields, context: ToolPermissionContext) -> Answer:
        raise ValueError("no idea")

    rig.script(called(touch("new")), said("Sorry."))
    async with rig.connect(can_use_tool=judge) as client:
        messages = await said_to(client, "go")
    return made(rig), results(messages), "no idea" in result_text(messages, "t1")


@program
async def nobody_to_ask(rig: Rig) -> Outcome:
    rig.script(called(touch("new")), said("Sorry."))
    messages = await rig.ask()
    return made(rig), ended(messages), results(messages)


@program
async def dont_ask_mode(rig: Rig) -> Outcome:
    judge = Judge(PermissionResultAllow())
    rig.script(called(touch("new")), said("Sorry."))
    async with rig.connect(can_use_tool=judge, permission_mode="dontAsk") as client:
        messages = await said_to(client, "go")
    return len(judge.asked), made(rig), results(messages)


@program
async def bypassed_permissions(rig: Rig) -> Outcome:
    rig.script(called(touch("new")), said("Done."))
    messages = await rig.ask(permission_mode="bypassPermissions")
    return made(rig), ended(messages)


@program
async def accepted_edits(rig: Rig) -> Outcome:
    path = str(rig.work / "w.txt")
    rig.script(called(("t1", "Write", {"file_path": path, "content": "w\n"})), said("Done."))
    messages = await rig.ask(permission_mode="acceptEdits")
    return made(rig), results(messages)


@program
async def allowed_tools(rig: Rig) -> Outcome:
    rig.script(called(touch("new")), said("Done."))
    messages = await rig.ask(allowed_tools=["Bash(touch new)", "Read"])
    return made(rig), results(messages)


@program
async def plan_mode_writes_nothing(rig: Rig) -> Outcome:
    path = str(rig.work / "w.txt")
    rig.script(called(("t1", "Write", {"file_path": path, "content": "w\n"})), said("A plan."))
    messages = await rig.ask(permission_mode="plan")
    return made(rig), results(messages)


@program
async def mode_switched_by_the_program(rig: Rig) -> Outcome:
    rig.script(called(touch("one")), said("Sorry."), called(touch("two", "t2")), said("Done."))
    async with rig.connect(permission_mode="bypassPermissions") as client:
        await client.set_permission_mode("default")
        first = await said_to(client, "go")
        await client.set_permission_mode("bypassPermissions")
        second = await said_to(client, "again")
    return made(rig), results(first), results(second)


@program
async def bypass_is_not_switched_on(rig: Rig) -> Outcome:
    rig.script(said("Hi."))
    async with rig.connect() as client:
        try:
            await client.set_permission_mode("bypassPermissions")
        except Exception as error:  # the SDK raises nothing more specific
            return str(error)
    return None
