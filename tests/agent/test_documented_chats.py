"""Records of commands and compactions, as public documents describe them."""

import asyncio
from pathlib import Path

from support.chatting import chat, recorded, sound_session
from support.scripted_api import ScriptedApi, answered, said
from turnlog.agent.chat.prompt_expansion import Prompts
from turnlog.agent.config.custom_commands import CustomCommand
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.loop import Loop


def test_the_text_of_a_command_is_a_meta_line_behind_what_was_typed(parts: Parts) -> None:
    review = CustomCommand(
        name="review",
        body="Review $ARGUMENTS with care.",
        description="d",
        path=Path("/c/review.md"),
        origin="user",
    )

    async def type_it() -> None:
        loop = Loop(parts)
        prompt = await Prompts(loop, {"review": review}).read("/review the till")
        async for _ in loop.run(prompt):
            pass
        await parts.model.close()

    asyncio.run(type_it())
    whole = sound_session(parts)
    typed, expanded, *_ = whole.values(whole.tree.chain)
    assert "<command-name>/review</command-name>" in typed["message"]["content"]
    assert not typed.get("isMeta")
    assert (expanded["isMeta"], expanded["parentUuid"]) == (True, typed["uuid"])
    assert "Review the till with care." in str(expanded["message"]["content"])


def test_an_automatic_compaction_is_recorded_with_its_trigger_and_size(
    parts: Parts, api: ScriptedApi
) -> None:
    full = answered({"type": "text", "text": "Hello."}, input_tokens=990_000, output_tokens=1)
    api.replies[:] = [full, answered({"type": "text", "text": "They met."}), said("On.")]
    events = chat(parts, "hello", "and now")
    (boundary,) = [each for each in recorded(events) if each.get("subtype") == "compact_boundary"]
    told = boundary["compactMetadata"]
    assert (told["trigger"], told["preTokens"]) == ("auto", 990_001)
    assert (boundary["parentUuid"], boundary["content"]) == (None, "Conversation compacted")
