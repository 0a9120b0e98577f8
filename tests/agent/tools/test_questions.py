"""Questions to the user are never answered by rules, modes or nobody."""

import asyncio
from pathlib import Path

import pytest

from support.scripted_api import ScriptedApi, called, said
from turnlog.agent.chat.assembly import ChatOptions
from turnlog.agent.chat.opening import open_chat
from turnlog.agent.permissions import ApprovalMode
from turnlog.agent.permissions.policy import PermissionReply, Question
from turnlog.agent.tools.ask_user_question import ASK_USER_QUESTION
from turnlog.agent.workspace.tool import ToolError
from turnlog.store.paths import Store

PLAN = ("t1", "ExitPlanMode", {"plan": "Do it."})


async def run(store: Store, options: ChatOptions, reply: PermissionReply | None) -> ApprovalMode:
    """Send a prompt; return the mode afterwards."""

    async def answer(question: Question) -> PermissionReply:
        assert reply
        return reply

    chat = await open_chat(store, options, answer if reply else None)
    async for _ in chat.send("go"):
        pass
    await chat.close()
    return chat.parts.rules.mode


@pytest.mark.parametrize("rule", [("ExitPlanMode",), ()])
def test_a_plan_is_approved_by_a_person_only(
    store: Store, project: Path, api: ScriptedApi, rule: tuple[str, ...]
) -> None:
    options = ChatOptions(cwd=project, mode=ApprovalMode.PLAN, allow=rule)
    api.replies[:] = [called(PLAN), said("Done.")]
    assert (
        asyncio.run(run(store, options, PermissionReply("deny", feedback="no")))
        is ApprovalMode.PLAN
    )
    api.replies[:] = [called(PLAN), said("Done.")]
    assert asyncio.run(run(store, options, PermissionReply("allow"))) is ApprovalMode.DEFAULT


def test_where_nobody_can_be_asked_no_question_is_offered(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    asyncio.run(run(store, ChatOptions(cwd=project), None))
    offered = {tool["name"] for tool in api.requests[0].body["tools"]}
    assert not offered & {"AskUserQuestion", "EnterPlanMode", "ExitPlanMode"}


def test_a_plan_is_not_saved_through_a_link(
    store: Store, project: Path, api: ScriptedApi, tmp_path: Path
) -> None:
    store.root.mkdir(exist_ok=True)
    store.plans.symlink_to(tmp_path)
    api.replies[:] = [called(PLAN), said("Done.")]
    asyncio.run(
        run(store, ChatOptions(cwd=project, mode=ApprovalMode.PLAN), PermissionReply("allow"))
    )
    assert not list(tmp_path.glob("*.md"))


def test_a_question_needs_options() -> None:
    with pytest.raises(ToolError):
        ASK_USER_QUESTION.read({"questions": [{"question": "?", "header": "?", "options": []}]})
