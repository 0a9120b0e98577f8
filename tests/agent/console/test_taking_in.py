"""What the loop and the recorder take in from the screen."""

import asyncio

from chatting import sound_session
from scripted_api import ScriptedApi, called, said
from turnlog.agent.events import Event, Noted
from turnlog.agent.loop import Loop
from turnlog.agent.turn.moments import Prompt
from turnlog.agent.turn.parts import Parts


def run(parts: Parts, prompt: str, *meanwhile: Prompt) -> list[Event]:
    """Run a prompt, while which others are typed."""

    async def all_of_it() -> list[Event]:
        loop = Loop(parts)
        waiting = list(meanwhile)
        loop.more = lambda: [waiting.pop(0)] if waiting else []
        events = [event async for event in loop.run(prompt)]
        await parts.model.close()
        return events

    return asyncio.run(all_of_it())


def test_what_is_typed_meanwhile_is_sent_with_the_results(parts: Parts, api: ScriptedApi) -> None:
    api.replies[:] = [called(("t1", "Echo", {"text": "hi"})), said("Done.")]
    run(parts, "first", "second")
    result, typed = api.requests[1].body["messages"][-1]["content"]
    assert (result["type"], typed["text"]) == ("tool_result", "second")
    sound_session(parts)
    sources = [entry["promptSource"] for entry in parts.recorder.chain if "promptSource" in entry]
    assert sources == ["typed", "queued"]


def test_what_a_hook_does_not_let_through_is_told_and_the_turn_goes_on(
    parts: Parts, api: ScriptedApi
) -> None:
    api.replies[:] = [called(("t1", "Echo", {"text": "hi"})), said("Done.")]
    command = "grep -q second && echo 'not that' >&2 && exit 2; exit 0"
    hook = {"hooks": [{"type": "command", "command": command}]}
    parts.hooks._groups = {"UserPromptSubmit": [hook]}
    events = run(parts, "first", "second")
    assert Noted("not that", is_error=True) in events
    assert len(api.requests) == 2


def test_a_shell_command_of_the_user_is_part_of_the_conversation(
    parts: Parts, api: ScriptedApi
) -> None:
    parts.recorder.shell("ls", "a.txt")
    run(parts, "what is it?")
    told = [block["text"].strip() for block in api.requests[0].body["messages"][0]["content"]]
    assert told == [
        "<bash-input>ls</bash-input>",
        "<bash-stdout>a.txt</bash-stdout><bash-stderr></bash-stderr>",
        "what is it?",
    ]
    sound_session(parts)
