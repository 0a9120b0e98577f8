"""Settings about answers: they count from the user, and from a project once it is trusted."""

import asyncio
import json
from pathlib import Path

import pytest

from support.scripted_api import ScriptedApi, refused
from turnlog.agent.chat.assembly import PRINTED, ChatOptions
from turnlog.agent.chat.opening import Chat, open_chat
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store


def put(path: Path, content: str | Fields) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")


def send(store: Store, options: ChatOptions, *prompts: str) -> Chat:
    """Open a chat, send prompts and close it."""

    async def run() -> Chat:
        chat = await open_chat(store, options)
        for prompt in prompts:
            async for _ in chat.send(prompt):
                pass
        await chat.close()
        return chat

    return asyncio.run(run())


def test_settings_choose_effort_and_thinking(
    store: Store, project: Path, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store.settings, {"effortLevel": "low", "alwaysThinkingEnabled": False})
    older = ChatOptions(cwd=project, model="claude-sonnet-4-6", entrypoint=PRINTED)
    send(store, older, "go")
    assert api.requests[-1].body["output_config"] == {"effort": "low"}
    assert api.requests[-1].body["thinking"] == {"type": "disabled"}
    monkeypatch.setenv("CLAUDE_CODE_EFFORT_LEVEL", "max")
    send(store, ChatOptions(cwd=project, entrypoint=PRINTED), "go")
    assert api.requests[-1].body["output_config"] == {"effort": "max"}
    # Newer models cannot be kept from thinking.
    assert api.requests[-1].body["thinking"] == {"type": "adaptive", "display": "omitted"}


@pytest.mark.parametrize("is_trusted", [True, False])
def test_a_project_chooses_effort_only_if_it_is_trusted(
    store: Store, project: Path, api: ScriptedApi, is_trusted: bool
) -> None:
    put(project / ".claude" / "settings.json", {"effortLevel": "max"})
    chat = send(store, ChatOptions(cwd=project, trusts_project=is_trusted), "go")
    effort = api.requests[-1].body["output_config"]["effort"]
    assert effort == ("max" if is_trusted else "medium")
    assert any("effortLevel" in note for note in chat.notes) is not is_trusted


def test_the_fallback_model_gets_parameters_that_it_knows(
    store: Store, project: Path, api: ScriptedApi
) -> None:
    put(store.settings, {"fallbackModel": "qwen3"})
    overloaded = refused(529, "busy", "overloaded_error")
    api.choose = lambda body: overloaded if body["model"] == "claude-opus-5-5" else None
    send(store, ChatOptions(cwd=project), "go")
    last = api.requests[-1].body
    assert last["model"] == "qwen3"
    assert not {"thinking", "output_config"} & set(last)
