"""Programs about sessions: resuming, forking, mirroring, files and sub-agents."""

import json
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    AgentDefinition,
    AssistantMessage,
    InMemorySessionStore,
    TaskNotificationMessage,
    TaskStartedMessage,
    UserMessage,
)

from support.scripted_api import called, said
from support.sdk_rig import (
    Outcome,
    Rig,
    asked,
    ended,
    last,
    program,
    results,
    said_to,
    started,
    texts,
    until,
)

NAME = "5e551011-0000-4000-8000-000000000000"
OTHER = "5e551011-0000-4000-8000-000000000001"


def files(rig: Rig) -> list[Path]:
    return sorted((rig.home / "claude" / "projects").glob("*/*.jsonl"))


@program
async def resumed_session(rig: Rig) -> Outcome:
    rig.script(said("One."), said("Two."))
    first = last(await rig.ask("first"))
    second = last(await rig.ask("second", resume=first.session_id))
    known = asked(rig.bodies[1])
    both = "user: first" in known and "assistant: One." in known
    return first.session_id == second.session_id, both, len(files(rig))


@program
async def forked_session(rig: Rig) -> Outcome:
    rig.script(said("One."), said("Two."))
    first = last(await rig.ask("first"))
    second = last(await rig.ask("second", resume=first.session_id, fork_session=True))
    known = "assistant: One." in asked(rig.bodies[1])
    return first.session_id == second.session_id, known, len(files(rig))


@program
async def continued_session(rig: Rig) -> Outcome:
    rig.script(said("One."), said("Two."))
    first = last(await rig.ask("first"))
    second = last(await rig.ask("second", continue_conversation=True))
    return first.session_id == second.session_id, "assistant: One." in asked(rig.bodies[1])


@program
async def chosen_session_id(rig: Rig) -> Outcome:
    rig.script(said("One."))
    messages = await rig.ask(session_id=NAME)
    return last(messages).session_id, [each.stem for each in files(rig)]


@program
async def session_id_in_use(rig: Rig) -> Outcome:
    rig.script(said("One."))
    await rig.ask(session_id=NAME)
    messages, error = await rig.failing(session_id=NAME)
    return len(messages), error, bool(rig.complaints)


@program
async def unknown_session(rig: Rig) -> Outcome:
    _, error = await rig.failing(resume=OTHER)
    return error, any(OTHER in each for each in rig.complaints)


@program
async def resumed_at_an_answer(rig: Rig) -> Outcome:
    rig.script(said("One."), said("Two."), said("Three."))
    async with rig.connect() as client:
        first = await said_to(client, "first")
        await said_to(client, "second")
    at = [each.uuid for each in first if isinstance(each, AssistantMessage)][-1]
    session = last(first).session_id
    messages = await rig.ask("third", resume=session, resume_session_at=at, fork_session=True)
    known = asked(rig.bodies[2])
    return "assistant: One." in known, "assistant: Two." in known, texts(messages)


@program
async def resumed_at_nothing(rig: Rig) -> Outcome:
    rig.script(said("One."))
    first = last(await rig.ask("first"))
    _, error = await rig.failing(resume=first.session_id, resume_session_at=OTHER)
    return error


@program
async def working_directory(rig: Rig) -> Outcome:
    (rig.home / "elsewhere").mkdir()
    rig.script(called(("t1", "Bash", {"command": "pwd"})), said("There."))
    messages = await rig.ask(cwd=rig.home / "elsewhere")
    told = [each.tool_use_result for each in messages if isinstance(each, UserMessage)]
    return [each["stdout"] for each in told if isinstance(each, dict)]


@program
async def mirrored_session(rig: Rig) -> Outcome:
    store = InMemorySessionStore()
    rig.script(called(("t1", "Bash", {"command": "ls"})), said("Done."))
    session = last(await rig.ask(session_store=store)).session_id
    project = files(rig)[0].parent.name
    kept: Any = await store.load({"project_key": project, "session_id": session})
    wanted = [each for each in kept if each["type"] in ("user", "assistant")]
    on_disk = [json.loads(line) for line in files(rig)[0].read_text().splitlines()]
    uuids = [each["uuid"] for each in on_disk if each["type"] in ("user", "assistant")]
    return [each["type"] for each in wanted], [each["uuid"] for each in wanted] == uuids


@program
async def session_resumed_from_a_store(rig: Rig) -> Outcome:
    store = InMemorySessionStore()
    rig.script(said("One."), said("Two."))
    session = last(await rig.ask("first", session_store=store)).session_id
    for path in files(rig):
        path.unlink()
    messages = await rig.ask("second", session_store=store, resume=session)
    return "assistant: One." in asked(rig.bodies[1]), last(messages).session_id == session


@program
async def sub_agent(rig: Rig) -> Outcome:
    spy = AgentDefinition(description="Spies", prompt="You spy.", tools=["Bash"], model="haiku")
    task = {"description": "Look", "prompt": "look", "subagent_type": "spy"}
    task |= {"run_in_background": False}
    inner = ("s1", "Bash", {"command": "ls"})
    rig.script(called(("t1", "Agent", task)), called(inner), said("Seen."), said("Done."))
    messages = await rig.ask(agents={"spy": spy}, permission_mode="bypassPermissions")
    begun = [each for each in messages if isinstance(each, TaskStartedMessage)]
    done = [each for each in messages if isinstance(each, TaskNotificationMessage)]
    owned = [each for each in messages if getattr(each, "parent_tool_use_id", None) == "t1"]
    return {
        "models": [each["model"] for each in rig.bodies],
        "tools": [each["name"] for each in rig.bodies[1]["tools"]],
        "begun": [(each.task_type, each.description, each.tool_use_id) for each in begun],
        "done": [(each.status, each.summary, each.tool_use_id) for each in done],
        "same": begun[0].task_id == done[0].task_id,
        "results": results(owned),
        "end": ended(messages),
    }


@program
async def background_command(rig: Rig) -> Outcome:
    command = {"command": "echo hi; perl -e 'sleep 1'", "run_in_background": True}
    rig.script(called(("t1", "Bash", command)), said("Started."), said("Ended."))
    messages = await rig.ask(permission_mode="bypassPermissions")
    begun = [each for each in messages if isinstance(each, TaskStartedMessage)]
    done = [each for each in messages if isinstance(each, TaskNotificationMessage)]
    same = [each.task_id for each in begun] == [each.task_id for each in done]
    kinds = [(each.task_type, each.tool_use_id) for each in begun]
    return kinds, [each.status for each in done], same, texts(messages)


@program
async def stopped_task(rig: Rig) -> Outcome:
    command = {"command": "perl -e 'sleep 60'", "run_in_background": True}
    rig.script(called(("t1", "Bash", command)), said("Started."), said("Stopped."))
    async with rig.connect(permission_mode="bypassPermissions") as client:
        messages = await said_to(client, "go")
        (begun,) = [each for each in messages if isinstance(each, TaskStartedMessage)]
        await client.stop_task(begun.task_id)
        async for message in client.receive_messages():
            if isinstance(message, TaskNotificationMessage):
                return message.status, message.task_id == begun.task_id
    return None


@program
async def rewound_files(rig: Rig) -> Outcome:
    path = rig.work / "a.txt"
    edit = {"file_path": str(path), "old_string": "alpha", "new_string": "omega"}
    read = ("t0", "Read", {"file_path": str(path)})
    rig.script(called(read), called(("t1", "Edit", edit)), said("Done."))
    given: Any = {
        "enable_file_checkpointing": True,
        "permission_mode": "acceptEdits",
        "extra_args": {"replay-user-messages": None},
    }
    async with rig.connect(**given) as client:
        messages = await said_to(client, "go")
        changed = path.read_text()
        prompts = [each for each in messages if isinstance(each, UserMessage) and each.uuid]
        await client.rewind_files(prompts[0].uuid or "")
        await until(lambda: path.read_text() != changed)
    return changed, path.read_text()


@program
async def rewinding_is_off(rig: Rig) -> Outcome:
    async with rig.connect() as client:
        try:
            await client.rewind_files(OTHER)
        except Exception as error:  # the SDK raises nothing more specific
            return str(error)
    return None


@program
async def settings_given_as_json(rig: Rig) -> Outcome:
    rig.script(called(("t1", "Bash", {"command": "touch new"})), said("Done."))
    settings = json.dumps({"permissions": {"allow": ["Bash(touch new)"]}})
    messages = await rig.ask(settings=settings)
    return results(messages), (rig.work / "new").exists()


@program
async def denials_of_the_project(rig: Rig) -> Outcome:
    (rig.work / ".claude").mkdir()
    settings = json.dumps({"permissions": {"deny": ["Bash(ls)"]}})
    (rig.work / ".claude" / "settings.json").write_text(settings)
    call = ("t1", "Bash", {"command": "ls"})
    rig.script(called(call), said("Yes."), called(call), said("No."))
    without = await rig.ask(setting_sources=[])
    within = await rig.ask(setting_sources=["project"])
    return results(without), results(within)


@program
async def approvals_of_the_project(rig: Rig) -> Outcome:
    (rig.work / ".claude").mkdir()
    settings = json.dumps({"permissions": {"allow": ["Bash(touch new)"]}})
    (rig.work / ".claude" / "settings.json").write_text(settings)
    call = ("t1", "Bash", {"command": "touch new"})
    rig.script(called(call), said("No."), called(call), said("Yes."))
    without = await rig.ask(setting_sources=[])
    within = await rig.ask(setting_sources=["project"])
    return results(without), results(within)


@program
async def memory_of_the_project(rig: Rig) -> Outcome:
    (rig.work / "CLAUDE.md").write_text("The ship is a sloop.")
    rig.script(said("Hi."))
    await rig.ask(setting_sources=[])
    await rig.ask(setting_sources=["project"])
    return ["The ship is a sloop." in json.dumps(each) for each in rig.bodies]


@program
async def command_of_the_project(rig: Rig) -> Outcome:
    folder = rig.work / ".claude" / "commands"
    folder.mkdir(parents=True)
    (folder / "greet.md").write_text("Say hello to $ARGUMENTS.")
    rig.script(said("Hello."))
    await rig.ask("/greet Ann", setting_sources=["project"])
    return "Say hello to Ann." in json.dumps(rig.bodies[0]["messages"])


def plugin_in(folder: Path) -> Path:
    """A plugin with a command, an agent and a hook."""
    root = folder / "fleet"
    command = {"type": "command", "command": "touch ${CLAUDE_PLUGIN_ROOT}/hooked"}
    hooks = {"hooks": {"UserPromptSubmit": [{"hooks": [command]}]}}
    contents = {
        ".claude-plugin/plugin.json": json.dumps({"name": "fleet", "version": "1.0.0"}),
        "commands/sail.md": "Set sail for $ARGUMENTS.",
        "agents/mate.md": "---\nname: mate\ndescription: Helps\n---\nYou help.",
        "hooks/hooks.json": json.dumps(hooks),
    }
    for name, text in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@program
async def plugin(rig: Rig) -> Outcome:
    root = plugin_in(rig.home)
    rig.script(said("Aye."))
    plugins: Any = [{"type": "local", "path": str(root)}]
    messages = await rig.ask("/fleet:sail Rome", plugins=plugins)
    data = started(messages)
    return {
        "command": "fleet:sail" in data["slash_commands"],
        "agent": "fleet:mate" in data["agents"],
        "named": "fleet" in [each["name"] for each in data["plugins"]],
        "expanded": "Set sail for Rome." in json.dumps(rig.bodies[0]["messages"]),
        "hooked": (root / "hooked").exists(),
    }


@program
async def agent_of_a_plugin(rig: Rig) -> Outcome:
    task = {"description": "Help", "prompt": "help", "subagent_type": "fleet:mate"}
    rig.script(called(("t1", "Agent", task | {"run_in_background": False})), said("Helped."))
    plugins: Any = [{"type": "local", "path": str(plugin_in(rig.home))}]
    messages = await rig.ask(plugins=plugins, permission_mode="bypassPermissions")
    return results(messages), "You help." in json.dumps(rig.bodies[1]["system"])
