"""Prompts from what the user types to the request that the model gets."""

import asyncio
from pathlib import Path

import pytest

from support.chatting import rules_of, sound_session
from support.scripted_api import ScriptedApi
from turnlog.agent.chat.built_in_prompts import BUILT_IN
from turnlog.agent.chat.prompt_expansion import Prompts
from turnlog.agent.config.custom_commands import CustomCommand
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.loop import Loop
from turnlog.agent.permissions.policy import VerdictKind
from turnlog.agent.workspace.tool import ToolError
from turnlog.conversation.prompts import PromptKind


def command(name: str, body: str, **fields: object) -> CustomCommand:
    made = {"description": "d", "path": Path(f"/c/{name}.md"), "origin": "user"} | fields
    return CustomCommand(name=name, body=body, **made)  # pyright: ignore[reportArgumentType]


def run(parts: Parts, commands: list[CustomCommand], *texts: str) -> list[str]:
    """Type texts; return the models that were asked."""

    async def type_all() -> list[str]:
        loop = Loop(parts)
        prompts = Prompts(loop, {each.name: each for each in commands})
        models: list[str] = []
        for text in texts:
            prompt = await prompts.read(text)
            models.append(parts.choice.model)
            async for _ in loop.run(prompt):
                pass
        await parts.model.close()
        return models

    return asyncio.run(type_all())


def asked(api: ScriptedApi) -> str:
    """All that the user said in the last request."""
    content = [message["content"] for message in api.requests[-1].body["messages"]]
    return "\n".join(block["text"] for blocks in content for block in blocks if "text" in block)


def test_a_command_is_recorded_as_typed_and_the_model_is_told_its_text(
    parts: Parts, api: ScriptedApi
) -> None:
    run(parts, [command("hello", "Say hello to $ARGUMENTS.")], "/hello Bob")
    assert "Say hello to Bob." in asked(api)
    session = sound_session(parts)
    (turn,) = session.turns
    assert turn.kind is PromptKind.COMMAND
    (value,) = session.values([turn.nodes[0]])
    assert value["message"]["content"].splitlines() == [
        "<command-message>hello</command-message>",
        "<command-name>/hello</command-name>",
        "<command-args>Bob</command-args>",
    ]


@pytest.mark.parametrize("text", ["/unknown x", "/usr/bin/env does what?", "what is /hello?"])
def test_what_names_no_command_is_a_prompt(parts: Parts, api: ScriptedApi, text: str) -> None:
    run(parts, [command("hello", "Say hello.")], text)
    assert asked(api) == text


def test_a_built_in_command_tells_the_model_its_text(parts: Parts, api: ScriptedApi) -> None:
    run(parts, [], "/review 42")
    assert BUILT_IN["review"].write("42") in asked(api)
    (turn,) = sound_session(parts).turns
    assert turn.kind is PromptKind.COMMAND


def test_a_command_that_is_not_for_the_user_is_a_prompt(parts: Parts, api: ScriptedApi) -> None:
    run(parts, [command("hello", "Say hello.", for_user=False)], "/hello")
    assert asked(api) == "/hello"


def test_the_model_and_the_rules_of_a_command_hold_for_its_turn(parts: Parts) -> None:
    quick = command("quick", "Be quick.", model="haiku", allowed_tools=("Bash(ls:*)",))
    usual = parts.choice.model
    models = run(parts, [quick], "hi", "/quick", "hi again")
    assert models == [usual, "claude-haiku-5-5", usual]
    assert rules_of(parts).for_turn == ()


def test_the_rules_of_a_command_hold_while_its_turn_lasts(parts: Parts) -> None:
    run(parts, [command("quick", "Be quick.", allowed_tools=("Bash(ls:*)",))], "/quick")
    assert rules_of(parts).for_turn == ("Bash(ls:*)",)


def test_what_a_shell_command_prints_is_told(parts: Parts, api: ScriptedApi) -> None:
    run(parts, [command("now", "It is !`echo late`.")], "/now")
    assert "It is late." in asked(api)


def test_a_shell_command_that_may_not_run_stops_the_command(parts: Parts) -> None:
    rules_of(parts).kinds["Bash"] = VerdictKind.ASK
    with pytest.raises(ToolError, match="may not run"):
        run(parts, [command("now", "It is !`echo late`.")], "/now")
    assert not parts.recorder.path.exists()


def test_mentioned_files_go_along_and_the_prompt_stays_as_typed(
    parts: Parts, api: ScriptedApi, project: Path
) -> None:
    (project / "a.txt").write_text("alpha\n")
    run(parts, [], "look at @a.txt")
    assert "alpha" in asked(api)
    session = sound_session(parts)
    (value,) = session.values([session.turns[0].nodes[0]])
    assert value["message"]["content"] == "look at @a.txt"


def test_files_that_a_command_mentions_go_along(
    parts: Parts, api: ScriptedApi, project: Path
) -> None:
    (project / "a.txt").write_text("alpha\n")
    run(parts, [command("look", "Look at @a.txt")], "/look")
    assert "alpha" in asked(api)


def test_the_model_may_take_up_commands_that_are_for_it(parts: Parts) -> None:
    loop = Loop(parts)
    hidden = command("ship", "Ship it.", for_model=False)
    assert Prompts(loop, {"ship": hidden}).tool(parts) is None
    tool = Prompts(loop, {"ship": hidden, "pdf": command("pdf", "Fill forms.")}).tool(parts)
    assert tool

    async def call() -> str:
        taken = tool.read({"skill": "pdf"})
        return str((await tool.run(taken, parts.workspace, lambda text: None)).content)

    assert asyncio.run(call()) == "Fill forms."
