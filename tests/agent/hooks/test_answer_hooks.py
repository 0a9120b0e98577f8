"""Hooks about models, messages and setup, in whole chats."""

import asyncio
import json
from pathlib import Path

import pytest

from support.plugins import write_json
from support.scripted_api import ScriptedApi, called, said
from turnlog.agent.chat.assembly import INTERACTIVE, PRINTED, ChatOptions
from turnlog.agent.chat.opening import open_chat
from turnlog.agent.loop.events import Event, Recorded, Streamed, TurnEnded
from turnlog.agent.loop.model_switch import SwitchRefused, ask_to_switch, switch
from turnlog.agent.model.model_names import choose
from turnlog.agent.permissions import ApprovalMode
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store


class Hooked:
    """A user whose hooks record their payloads."""

    def __init__(self, store: Store, project: Path) -> None:
        self.store = store
        self.options = ChatOptions(cwd=project, entrypoint=PRINTED, model="opus")
        self.heard = project.parent / "heard"
        self.heard.mkdir()

    def hook(self, **answers: str) -> None:
        """Set a hook for each event, which records its input and then runs a command."""
        groups = {
            event: [{"hooks": [self._handler(event, then)]}] for event, then in answers.items()
        }
        write_json(self.store.settings, hooks=groups)

    def _handler(self, event: str, then: str) -> Fields:
        place = self.heard / event
        level = f'printf "%s" "$CLAUDE_EFFORT" > {place}.effort'
        return {"type": "command", "command": f"cat >> {place}; {level}; {then}", "timeout": 20}

    def told(self, event: str) -> list[Fields]:
        path = self.heard / event
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def chat(self, *prompts: str) -> list[Event]:
        async def run() -> list[Event]:
            chat = await open_chat(self.store, self.options)
            events = [event for prompt in prompts async for event in chat.send(prompt)]
            await chat.close()
            return events

        return asyncio.run(run())


@pytest.fixture
def hooked(store: Store, project: Path, api: ScriptedApi) -> Hooked:
    return Hooked(store, project)


def specific(event: str, **answer: object) -> str:
    return f"echo '{json.dumps({'hookSpecificOutput': {'hookEventName': event, **answer}})}'"


def texts(events: list[Event]) -> list[str]:
    entries = [each.entry for each in events if isinstance(each, Recorded)]
    answers = [each["message"]["content"] for each in entries if each["type"] == "assistant"]
    return [block["text"] for blocks in answers for block in blocks if "text" in block]


def streamed(events: list[Event]) -> str:
    deltas = [each.event.get("delta", {}) for each in events if isinstance(each, Streamed)]
    return "".join(delta.get("text", "") for delta in deltas)


def test_a_message_is_shown_in_other_words(hooked: Hooked, api: ScriptedApi) -> None:
    hooked.hook(MessageDisplay=specific("MessageDisplay", displayContent="[hidden]"))
    api.replies[:] = [said("The key is\nsecret.")]
    events = hooked.chat("go", "again")
    (told, _) = hooked.told("MessageDisplay")
    assert (told["index"], told["final"], told["delta"]) == (0, True, "The key is\nsecret.")
    assert texts(events)[0] == "[hidden]"
    assert [each.text for each in events if isinstance(each, TurnEnded)] == ["[hidden]"] * 2
    # The session and the model keep the original.
    (path,) = hooked.store.session_files()
    assert "[hidden]" not in path.read_text()
    assert "secret" in json.dumps(api.requests[-1].body["messages"])


def test_on_a_screen_lines_are_replaced_as_they_are_completed(
    hooked: Hooked, api: ScriptedApi
) -> None:
    upper = "tail -n 1 {} | tr a-z A-Z >/dev/null; true".format(hooked.heard / "MessageDisplay")
    hooked.hook(MessageDisplay=f"{upper}; {specific('MessageDisplay', displayContent='x')}")
    hooked.options = ChatOptions(cwd=hooked.options.cwd, entrypoint=INTERACTIVE, model="opus")
    api.replies[:] = [said("one\ntwo\nthree")]
    events = hooked.chat("go")
    told = hooked.told("MessageDisplay")
    assert "".join(each["delta"] for each in told) == "one\ntwo\nthree"
    assert [each["index"] for each in told] == list(range(len(told)))
    assert [each["final"] for each in told] == [False] * (len(told) - 1) + [True]
    assert len({each["message_id"] for each in told}) == 1
    assert texts(events) == ["x" * len(told)]
    # The last line is complete only with the recorded answer, which shows it.
    assert streamed(events) == "x" * (len(told) - 1)


def test_a_hook_that_fails_leaves_the_message_as_it_is(hooked: Hooked, api: ScriptedApi) -> None:
    hooked.hook(MessageDisplay="exit 2")
    api.replies[:] = [said("Fine.")]
    assert texts(hooked.chat("go")) == ["Fine."]


def test_hooks_about_calls_know_the_effort(hooked: Hooked, api: ScriptedApi) -> None:
    events = ("UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolBatch", "Stop")
    hooked.hook(**dict.fromkeys(events, "true"))
    api.replies[:] = [called(("t1", "Glob", {"pattern": "*"})), said("Done.")]
    hooked.chat("go")
    levels = {event: hooked.told(event)[0].get("effort") for event in events}
    assert levels == {"UserPromptSubmit": None} | {
        event: {"level": "medium"} for event in events[1:]
    }
    assert (hooked.heard / "Stop.effort").read_text() == "medium"
    assert (hooked.heard / "UserPromptSubmit.effort").read_text() == ""


@pytest.mark.parametrize(("mode", "runs"), [("plan", True), ("default", False), ("dontAsk", False)])
def test_a_denial_that_nobody_was_asked_about_runs_hooks(
    hooked: Hooked, api: ScriptedApi, mode: str, runs: bool
) -> None:
    hooked.hook(PermissionDenied=specific("PermissionDenied", retry=True))
    hooked.options = ChatOptions(
        cwd=hooked.options.cwd, entrypoint=PRINTED, model="opus", mode=ApprovalMode(mode)
    )
    api.replies[:] = [called(("t1", "Bash", {"command": "make"})), said("Done.")]
    hooked.chat("go")
    told = hooked.told("PermissionDenied")
    assert [(each["tool_name"], each["tool_use_id"]) for each in told] == [("Bash", "t1")] * runs
    assert all("needs permission" in each["reason"] for each in told)
    assert ("may try this call again" in json.dumps(api.requests[-1].body)) is runs


def test_setup_hooks_run_before_a_session_starts(hooked: Hooked, api: ScriptedApi) -> None:
    hooked.hook(Setup=specific("Setup", additionalContext="ignored"), SessionStart="true")
    hooked.chat("go")
    assert hooked.told("Setup") == []
    hooked.options = ChatOptions(
        cwd=hooked.options.cwd, entrypoint=PRINTED, model="opus", setup="maintenance"
    )
    hooked.chat("go")
    assert [each["trigger"] for each in hooked.told("Setup")] == ["maintenance"]
    assert "ignored" not in json.dumps(api.requests[-1].body)


def switched(hooked: Hooked, name: str) -> tuple[str, str]:
    """Switch the model between two prompts; return the model, and the words of the last request."""

    async def run() -> str:
        chat = await open_chat(hooked.store, hooked.options)
        async for _ in chat.send("one"):
            pass
        parts = chat.parts
        choice = choose(name, {}, parts.choice.tuning)
        await ask_to_switch(parts, choice, name, "command")
        switch(parts, choice, name, "command")
        while hooked.told("PreModelSwitch") and not hooked.told("PostModelSwitch"):
            await asyncio.sleep(0.05)
        await asyncio.gather(*parts.hooks._background)  # pyright: ignore[reportPrivateUsage]
        async for _ in chat.send("two"):
            pass
        await chat.close()
        return parts.choice.model

    return asyncio.run(run()), ""


def test_hooks_see_a_switch_of_the_model(hooked: Hooked, api: ScriptedApi) -> None:
    hooked.hook(PreModelSwitch="true", PostModelSwitch="echo be brief")
    model, _ = switched(hooked, "haiku")
    (before,), (after,) = hooked.told("PreModelSwitch"), hooked.told("PostModelSwitch")
    about = {"from_model": "claude-opus-5-5", "to_model": model, "requested_model": "haiku"}
    about |= {"source": "command", "cache_ttl": "5m", "prompt_cache_warm": True}
    assert {name: before[name] for name in about} == about
    assert {name: after[name] for name in about} == about
    assert before["context_tokens"] > 0
    assert "be brief" in json.dumps(api.requests[-1].body["messages"])
    assert api.requests[-1].body["model"] == model


@pytest.mark.parametrize(
    "then",
    [
        "echo too dear >&2; exit 2",
        specific("PreModelSwitch", permissionDecision="deny", permissionDecisionReason="too dear"),
        """echo '{"decision": "block", "reason": "too dear"}'""",
    ],
)
def test_a_hook_prevents_a_switch(hooked: Hooked, api: ScriptedApi, then: str) -> None:
    hooked.hook(PreModelSwitch=then, PostModelSwitch="true")
    with pytest.raises(SwitchRefused, match="too dear"):
        switched(hooked, "haiku")
    assert hooked.told("PostModelSwitch") == []


def test_a_late_hook_prevents_a_switch(hooked: Hooked, api: ScriptedApi) -> None:
    late = {"type": "command", "command": "sleep 30", "timeout": 0.1}
    write_json(hooked.store.settings, hooks={"PreModelSwitch": [{"hooks": [late]}]})
    with pytest.raises(SwitchRefused, match="timed out"):
        switched(hooked, "haiku")


def test_the_same_model_is_no_switch(hooked: Hooked, api: ScriptedApi) -> None:
    hooked.hook(PreModelSwitch="exit 2", PostModelSwitch="true")
    assert switched(hooked, "opus")[0] == "claude-opus-5-5"


def test_a_resumed_session_restores_its_model(hooked: Hooked, api: ScriptedApi) -> None:
    hooked.chat("one")
    (path,) = hooked.store.session_files()
    hooked.hook(PostModelSwitch="true")
    settings = json.loads(hooked.store.settings.read_text())
    write_json(hooked.store.settings, **settings, model="haiku")

    async def resume() -> None:
        options = ChatOptions(cwd=hooked.options.cwd, entrypoint=PRINTED, resume=path)
        chat = await open_chat(hooked.store, options)
        await asyncio.gather(*chat.parts.hooks._background)  # pyright: ignore[reportPrivateUsage]
        await chat.close()

    asyncio.run(resume())
    (told,) = hooked.told("PostModelSwitch")
    assert (told["source"], told["from_model"]) == ("resume", "claude-haiku-5-5")
    assert told["to_model"] == told["requested_model"] != told["from_model"]
