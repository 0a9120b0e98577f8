"""TaskCreated and TaskCompleted hooks in whole chats, and lists that sessions keep."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from support.scripted_api import Reply, ScriptedApi, called, said
from turnlog.agent.chat.assembly import ChatOptions
from turnlog.agent.chat.opening import open_chat
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store

CREATE = called(("t1", "TaskCreate", {"subject": "Do A", "description": "The A thing"}))
COMPLETE = called(("t2", "TaskUpdate", {"taskId": "1", "status": "completed"}))
LIST = called(("t3", "TaskList", {}))


@pytest.fixture(autouse=True)
def offered(monkeypatch: pytest.MonkeyPatch, api: ScriptedApi) -> None:
    monkeypatch.setenv("CLAUDE_CODE_ENABLE_TODO_TOOLS", "1")


def hook(store: Store, event: str, command: str) -> None:
    path = store.root / "settings.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    settings: Fields = json.loads(path.read_text()) if path.exists() else {"hooks": {}}
    settings["hooks"][event] = [{"hooks": [{"type": "command", "command": command}]}]
    path.write_text(json.dumps(settings))


def hold(store: Store, api: ScriptedApi, options: ChatOptions, *replies: Reply) -> Path:
    """Let the model make some calls; return the session file."""
    api.replies[:] = [*replies, said("Done.")]

    async def run() -> Path:
        chat = await open_chat(store, options)
        async for _ in chat.send("go"):
            pass
        await chat.close()
        return chat.parts.recorder.path

    return asyncio.run(run())


def results(path: Path) -> list[tuple[Any, Any]]:
    """Return the results of calls: the text for the model, and the recorded data."""
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    found = [entry for entry in entries if "toolUseResult" in entry]
    return [(each["message"]["content"][0]["content"], each["toolUseResult"]) for each in found]


def test_hooks_are_given_the_task(store: Store, project: Path, api: ScriptedApi) -> None:
    for event in ("TaskCreated", "TaskCompleted"):
        hook(store, event, f"cat > {event}.json")
    path = hold(store, api, ChatOptions(cwd=project), CREATE, COMPLETE)
    for event in ("TaskCreated", "TaskCompleted"):
        payload = json.loads((project / f"{event}.json").read_text())
        about = {"task_id": "1", "task_subject": "Do A", "task_description": "The A thing"}
        common = {"session_id": path.stem, "transcript_path": str(path), "cwd": str(project)}
        assert payload.pop("prompt_id")
        assert payload == common | {"hook_event_name": event} | about


def test_a_blocked_task_is_removed(store: Store, project: Path, api: ScriptedApi) -> None:
    command = "echo no way >&2; exit 2"
    hook(store, "TaskCreated", command)
    created, listed = results(hold(store, api, ChatOptions(cwd=project), CREATE, LIST))
    why = f"TaskCreated hook feedback:\n[{command}]: no way"
    assert created == (why, f"Error: {why}")
    assert listed == ("No tasks found", {"tasks": []})


def test_a_task_that_may_not_be_completed_keeps_its_status(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    hook(store, "TaskCompleted", """echo '{"decision": "block", "reason": "tests fail"}'""")
    path = hold(store, api, ChatOptions(cwd=project), CREATE, COMPLETE, LIST)
    _, completed, listed = results(path)
    why = "TaskCompleted hook feedback:\ntests fail"
    about: Fields = {"success": False, "taskId": "1", "updatedFields": [], "error": why}
    assert completed == (why, about)
    assert listed[0] == "#1 [pending] Do A"


def test_continue_false_has_no_effect(store: Store, project: Path, api: ScriptedApi) -> None:
    hook(store, "TaskCreated", """echo '{"continue": false, "stopReason": "halt"}'""")
    path = hold(store, api, ChatOptions(cwd=project), CREATE, LIST)
    assert [text for text, _ in results(path)][1] == "#1 [pending] Do A"


def test_a_resumed_session_keeps_its_list_and_a_copy_starts_without(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    path = hold(store, api, ChatOptions(cwd=project), CREATE)
    assert (store.root / "tasks" / path.stem / "1.json").is_file()
    hold(store, api, ChatOptions(cwd=project, resume=path), LIST)
    assert results(path)[-1][0] == "#1 [pending] Do A"
    copy = hold(store, api, ChatOptions(cwd=project, resume=path, is_fork=True), LIST)
    assert results(copy)[-1][0] == "No tasks found"


def test_sub_agents_share_the_list_and_hooks_name_them(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    hook(store, "TaskCreated", "cat > created.json")
    agent = {"description": "Look", "prompt": "sub work", "subagent_type": "general-purpose"}
    work = [CREATE, said("Report.")]
    talk = [called(("a1", "Agent", agent)), LIST, said("Done.")]
    api.choose = lambda body: (work if "sub work" in str(body["messages"][0]) else talk).pop(0)
    path = hold(store, api, ChatOptions(cwd=project))
    assert results(path)[-1][0] == "#1 [pending] Do A"
    assert json.loads((project / "created.json").read_text())["agent_type"] == "general-purpose"


def test_a_shared_list_stays_among_the_lists(
    store: Store, project: Path, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_TASK_LIST_ID", "../../shared")
    hold(store, api, ChatOptions(cwd=project), CREATE)
    path = hold(store, api, ChatOptions(cwd=project), LIST)
    assert results(path)[-1][0] == "#1 [pending] Do A"
    assert [each.name for each in (store.root / "tasks").iterdir()] == ["------shared"]


@pytest.mark.parametrize(
    "offer",
    [
        ("claude-opus-4-7", "1", ["TaskCreate", "TaskUpdate", "TaskGet", "TaskList"]),
        ("claude-opus-4-7", "0", ["TodoWrite"]),
        ("claude-opus-5-5", "1", []),
    ],
)
def test_the_model_decides_whether_it_is_offered_a_list(
    offer: tuple[str, str, list[str]],
    store: Store,
    project: Path,
    api: ScriptedApi,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, legacy, expected = offer
    monkeypatch.delenv("CLAUDE_CODE_ENABLE_TODO_TOOLS")
    monkeypatch.setenv("CLAUDE_CODE_ENABLE_TASKS", legacy)
    hold(store, api, ChatOptions(cwd=project, model=model))
    names = [tool["name"] for tool in api.requests[0].body["tools"]]
    tracking = ("TaskCreate", "TaskUpdate", "TaskGet", "TaskList", "TodoWrite")
    assert [name for name in names if name in tracking] == expected


def test_a_to_do_list_is_there_again_in_a_resumed_session(
    store: Store, project: Path, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_ENABLE_TASKS", "0")
    steps = [{"content": "Do A", "status": "pending", "activeForm": "Doing A"}]
    path = hold(store, api, ChatOptions(cwd=project), called(("t1", "TodoWrite", {"todos": steps})))
    hold(
        store,
        api,
        ChatOptions(cwd=project, resume=path),
        called(("t2", "TodoWrite", {"todos": []})),
    )
    assert results(path)[-1][1] == {"oldTodos": steps, "newTodos": []}


@pytest.mark.parametrize("model", ["claude-opus-4-7", "claude-opus-5-5"])
def test_a_model_that_repeats_calls_of_an_old_session_can_call_any_of_the_tools(
    store: Store, project: Path, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    monkeypatch.delenv("CLAUDE_CODE_ENABLE_TODO_TOOLS")
    steps = [{"content": "Do A", "status": "pending", "activeForm": "Doing A"}]
    listing = called(("t1", "TodoWrite", {"todos": steps}))
    path = hold(store, api, ChatOptions(cwd=project, model=model), listing, CREATE)
    (_, replaced), (created, _) = results(path)
    assert replaced == {"oldTodos": [], "newTodos": steps}
    assert created == "Task #1 created successfully: Do A"
    assert "TodoWrite" not in [tool["name"] for tool in api.requests[0].body["tools"]]


@pytest.mark.parametrize(("tools", "deny"), [(None, ("TodoWrite",)), (("Bash",), ())])
def test_a_tool_that_the_user_leaves_out_is_not_accepted(
    store: Store,
    project: Path,
    api: ScriptedApi,
    tools: tuple[str, ...] | None,
    deny: tuple[str, ...],
) -> None:
    steps = [{"content": "Do A", "status": "pending", "activeForm": "Doing A"}]
    listing = called(("t1", "TodoWrite", {"todos": steps}))
    options = ChatOptions(cwd=project, tools=tools, deny=deny)
    ((text, _),) = results(hold(store, api, options, listing))
    assert "No such tool available" in text


def test_a_rule_denies_the_tools(store: Store, project: Path, api: ScriptedApi) -> None:
    (store.root / "settings.json").parent.mkdir(parents=True, exist_ok=True)
    (store.root / "settings.json").write_text('{"permissions": {"deny": ["TaskCreate"]}}')
    ((text, _),) = results(hold(store, api, ChatOptions(cwd=project), CREATE))
    assert "not allowed" in text
    assert not (store.root / "tasks").exists()
