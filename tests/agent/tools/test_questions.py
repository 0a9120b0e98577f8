"""Questions to the user are never answered by rules or modes, nor if nobody can be asked."""

import asyncio
import json
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

SESSION = "5c9f1f0e-5d0e-4c39-8f5e-0f6f3f0f7a11"
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


@pytest.mark.parametrize("slug", ["../CLAUDE", "{tmp}/taken", "a/../../CLAUDE"])
def test_a_session_file_does_not_choose_where_a_plan_is_saved(
    store: Store, project: Path, api: ScriptedApi, tmp_path: Path, slug: str
) -> None:
    (tmp_path / "taken.md").write_text("mine", "utf-8")
    options = ChatOptions(cwd=project, session_id=SESSION)
    asyncio.run(run(store, options, None))
    path = store.project_of(str(project)) / f"{SESSION}.jsonl"
    entries = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    hostile = slug.format(tmp=tmp_path)
    lines = [json.dumps(each | {"slug": hostile} if "slug" in each else each) for each in entries]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    api.replies[:] = [called(PLAN), said("Done.")]
    resumed = ChatOptions(cwd=project, resume=path, mode=ApprovalMode.PLAN)
    assert asyncio.run(run(store, resumed, PermissionReply("allow"))) is ApprovalMode.DEFAULT
    (saved,) = store.plans.iterdir()
    assert saved.read_text("utf-8") == "Do it."
    assert (tmp_path / "taken.md").read_text("utf-8") == "mine"
    assert not (store.root / "CLAUDE.md").exists()


@pytest.mark.parametrize("answers", [None, {"Deploy?": "No"}])
def test_the_model_does_not_answer_its_own_question(
    store: Store, project: Path, api: ScriptedApi, answers: dict[str, str] | None
) -> None:
    """A program that only allows the call has not answered it."""
    options = [{"label": label, "description": ""} for label in ("Yes", "No")]
    asked = {"questions": [{"question": "Deploy?", "header": "Deploy", "options": options}]}
    own = {"answers": {"Deploy?": "Yes, all"}, "annotations": {"Deploy?": {"notes": "mine"}}}
    api.replies[:] = [called(("t1", "AskUserQuestion", asked | own)), said("Done.")]
    updated = asked | {"answers": answers} if answers else None
    reply = PermissionReply("allow", updated_input=updated)
    asyncio.run(run(store, ChatOptions(cwd=project), reply))
    result = str(api.requests[-1].body["messages"][-1]["content"])
    assert "Yes, all" not in result
    assert ('"Deploy?"="No"' if answers else "The user gave no answer") in result


def test_a_question_needs_options() -> None:
    with pytest.raises(ToolError):
        ASK_USER_QUESTION.read({"questions": [{"question": "?", "header": "?", "options": []}]})
