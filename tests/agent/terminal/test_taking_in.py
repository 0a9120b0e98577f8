"""Input that the loop and the recorder take from the screen."""

import asyncio
import json

from support.chatting import sound_session
from support.scripted_api import ScriptedApi, called, said
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.events import Event, Notice
from turnlog.agent.loop.lifecycle_hooks import SHELL, Prompt
from turnlog.agent.loop.loop import Loop
from turnlog.agent.terminal.input_dispatch import shell_prompt
from turnlog.agent.workspace.tool import ToolOutcome


def run(parts: Parts, prompt: Prompt, *meanwhile: Prompt, source: str = "typed") -> list[Event]:
    """Run a prompt, while which others are typed."""

    async def all_of_it() -> list[Event]:
        loop = Loop(parts)
        waiting = list(meanwhile)
        loop.more = lambda: [(waiting.pop(0), "queued")] if waiting else []
        events = [event async for event in loop.run(prompt, source)]
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
    assert Notice("not that", is_error=True) in events
    assert len(api.requests) == 2


def test_a_shell_command_of_the_user_is_part_of_the_conversation(
    parts: Parts, api: ScriptedApi
) -> None:
    hook = {"hooks": [{"type": "command", "command": "echo no >&2; exit 2"}]}
    heard = parts.recorder.path.with_suffix(".heard")
    listener = {"hooks": [{"type": "command", "command": f"cat > {heard}"}]}
    parts.hooks._groups = {"UserPromptSubmit": [hook], "Stop": [listener]}
    run(parts, shell_prompt("ls", ToolOutcome("a.txt", {"stdout": "a.txt"})), source=SHELL)
    told = [block["text"].strip() for block in api.requests[0].body["messages"][0]["content"]]
    assert told == [
        "<bash-input>ls</bash-input>",
        "<bash-stdout>a.txt</bash-stdout><bash-stderr></bash-stderr>",
    ]
    sound_session(parts)
    last, totals = map(json.loads, parts.recorder.path.read_text().splitlines()[-2:])
    assert (last["type"], last["lastPrompt"]) == ("last-prompt", "! ls")
    assert totals["type"] == "cost-state"
    assert json.loads(heard.read_text())["prompt_id"] == parts.recorder.chain[0]["promptId"]


def test_what_a_failed_command_printed_is_an_error() -> None:
    failed = ToolOutcome("Exit code 1\nno", "Error: Exit code 1\nno", is_error=True)
    told = shell_prompt("false", failed)[1]["text"]
    assert told == "<bash-stdout></bash-stdout><bash-stderr>Exit code 1\nno</bash-stderr>"
