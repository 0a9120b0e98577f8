"""Rules of a command apply to its turn, not to an agent that runs on in the background."""

import asyncio
from pathlib import Path
from threading import Event

import pytest

from support.scripted_api import Reply, ScriptedApi, called, said
from turnlog.agent.chat.assembly import ChatOptions
from turnlog.agent.chat.opening import Chat, open_chat
from turnlog.agent.permissions import ApprovalMode
from turnlog.agent.permissions.policy import PermissionReply, Question
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store

PATIENCE = 30
LAUNCH = {"description": "Do it", "prompt": "background work", "run_in_background": True}
COMMAND = "---\nallowed-tools: Bash(touch:*)\n---\nRelease it."
ACCEPT_EDITS = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}


async def send(chat: Chat, prompt: str) -> None:
    async for _ in chat.send(prompt):
        pass


async def work_late(
    store: Store,
    project: Path,
    api: ScriptedApi,
    reply: PermissionReply,
    prompts: tuple[str, ...] = ("go", "/release"),
) -> tuple[list[Question], ApprovalMode]:
    """Let an agent of the first prompt call Bash after the others; return the questions."""
    may_go_on = Event()
    launched = [called(("t1", "Agent", LAUNCH))]
    work = [called(("t2", "Bash", {"command": "touch taken"})), said("Worked.")]

    def choose(body: Fields) -> Reply:
        if "background work" in str(body["messages"][0]):
            may_go_on.wait(PATIENCE)
            return work.pop(0)
        return launched.pop() if launched else said("Done.")

    api.choose = choose
    asked: list[Question] = []

    async def ask(question: Question) -> PermissionReply:
        asked.append(question)
        return reply

    chat = await open_chat(store, ChatOptions(cwd=project), ask)
    for prompt in prompts:
        await send(chat, prompt)
    (agent,) = chat.parts.workspace.shells.jobs.values()
    may_go_on.set()
    await asyncio.wait_for(agent.watch, PATIENCE)
    await chat.close()
    return asked, chat.parts.rules.mode


@pytest.fixture(autouse=True)
def release(store: Store) -> None:
    path = store.root / "commands" / "release.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(COMMAND, "utf-8")


def test_a_background_agent_does_not_get_the_rules_of_a_later_command(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    refusal = PermissionReply("deny", feedback="no")
    asked, _ = asyncio.run(work_late(store, project, api, refusal))
    assert [each.input for each in asked] == [{"command": "touch taken"}]
    assert not (project / "taken").exists()


@pytest.mark.parametrize(
    ("prompts", "is_asked"), [(("/release",), False), (("/release", "Now something else."), True)]
)
def test_a_background_agent_keeps_the_rules_of_its_command_until_the_next_turn(
    store: Store, project: Path, api: ScriptedApi, prompts: tuple[str, ...], is_asked: bool
) -> None:
    refusal = PermissionReply("deny", feedback="no")
    asked, _ = asyncio.run(work_late(store, project, api, refusal, prompts))
    assert bool(asked) is is_asked
    assert (project / "taken").exists() is not is_asked


def test_an_answer_to_it_switches_the_mode_of_the_conversation(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    """So that the user can switch it back."""
    reply = PermissionReply("allow", updates=(ACCEPT_EDITS,))
    _, mode = asyncio.run(work_late(store, project, api, reply))
    assert mode is ApprovalMode.ACCEPT_EDITS
    assert (project / "taken").exists()
