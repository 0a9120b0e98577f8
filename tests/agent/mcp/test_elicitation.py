"""Requests of MCP servers for input: hooks answer first, then whoever can be asked."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from support.plugins import write_json
from support.scripted_api import ScriptedApi, called, said
from turnlog.agent.chat.assembly import PRINTED, ChatOptions
from turnlog.agent.chat.opening import open_chat
from turnlog.agent.mcp.elicitation import AskForInput, ElicitAnswer, Elicitation
from turnlog.agent.permissions import ApprovalMode
from turnlog.agent.terminal.elicitation_form import is_presentable, read_value
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store

SERVER = str(Path(__file__).parents[2] / "support/asking_server.py")
SERVERS = json.dumps({"mcpServers": {"lab": {"command": sys.executable, "args": [SERVER]}}})
BOB = {"name": "bob", "age": 7}
Ask = Callable[..., Fields]


@pytest.fixture
def ask(store: Store, project: Path, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Let the model call a tool that asks; return what the server was answered."""
    monkeypatch.setenv("IS_SANDBOX", "1")  # it may be root who runs the tests

    def run(tool: str = "ask", elicit: AskForInput | None = None) -> Fields:
        api.replies[:] = [called(("t1", f"mcp__lab__{tool}", {})), said("Done.")]
        options = ChatOptions(
            cwd=project, entrypoint=PRINTED, servers=(SERVERS,), mode=ApprovalMode.BYPASS
        )

        async def chat() -> None:
            opened = await open_chat(store, options, elicit=elicit)
            assert opened.notes == []
            async for _ in opened.send("go"):
                pass
            await opened.close()

        asyncio.run(chat())
        (result,) = api.requests[-1].body["messages"][-1]["content"]
        return json.loads(result["content"][0]["text"])

    return run


def hook(store: Store, heard: Path, **answers: str) -> None:
    """Configure hooks that record their payloads and then run a command."""
    groups = {
        event: [{"hooks": [{"type": "command", "command": f"cat >> {heard}.{event}; {then}"}]}]
        for event, then in answers.items()
    }
    write_json(store.settings, hooks=groups)


def told(heard: Path, event: str) -> list[Fields]:
    path = heard.with_name(f"{heard.name}.{event}")
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def specific(event: str, **answer: object) -> str:
    return f"echo '{json.dumps({'hookSpecificOutput': {'hookEventName': event, **answer}})}'"


def answering(answer: ElicitAnswer, asked: list[Elicitation]) -> AskForInput:
    async def reply(request: Elicitation) -> ElicitAnswer:
        asked.append(request)
        return answer

    return reply


def test_a_person_answers_a_server(ask: Ask) -> None:
    asked: list[Elicitation] = []
    answer = answering(ElicitAnswer("accept", BOB), asked)
    assert ask(elicit=answer) == {"action": "accept", "content": BOB}
    assert (asked[0].server, asked[0].message) == ("lab", "Who are you?")
    assert asked[0].schema["required"] == ["name"]
    assert ask("visit", answering(ElicitAnswer("accept"), asked)) == {"action": "accept"}
    assert (asked[1].mode, asked[1].url) == ("url", "https://example.com/login?a=1")


def test_where_nobody_can_be_asked_a_request_is_cancelled(
    ask: Ask, store: Store, tmp_path: Path
) -> None:
    heard = tmp_path / "heard"
    hook(store, heard, Elicitation="true", ElicitationResult="true", Notification="true")
    assert ask() == {"action": "cancel"}
    (request,), (result,) = told(heard, "Elicitation"), told(heard, "ElicitationResult")
    assert (request["mcp_server_name"], request["mode"]) == ("lab", "form")
    assert request["requested_schema"]["required"] == ["name"]
    assert (result["action"], "content" in result) == ("cancel", False)
    notes = [each["notification_type"] for each in told(heard, "Notification")]
    assert notes == ["elicitation_response"]


def test_a_hook_answers_for_the_user(ask: Ask, store: Store, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    accepting = specific("Elicitation", action="accept", content=BOB)
    hook(store, heard, Elicitation=accepting, ElicitationResult="true")
    asked: list[Elicitation] = []
    answer = answering(ElicitAnswer("decline"), asked)
    assert ask(elicit=answer) == {"action": "accept", "content": BOB}
    assert (asked, told(heard, "ElicitationResult")) == ([], [])
    hook(store, heard, Elicitation="exit 2")
    assert ask(elicit=answer) == {"action": "decline"}
    assert asked == []


def test_a_hook_changes_or_holds_back_an_answer(ask: Ask, store: Store, tmp_path: Path) -> None:
    heard, bob = tmp_path / "heard", answering(ElicitAnswer("accept", BOB), [])
    eve = {"name": "eve"}
    hook(
        store, heard, ElicitationResult=specific("ElicitationResult", action="accept", content=eve)
    )
    assert ask(elicit=bob) == {"action": "accept", "content": eve}
    assert told(heard, "ElicitationResult")[0]["content"] == BOB
    hook(store, heard, ElicitationResult="exit 2")
    assert ask(elicit=bob) == {"action": "decline"}


def test_a_server_that_is_refused_gets_no_values(ask: Ask) -> None:
    assert ask(elicit=answering(ElicitAnswer("decline", BOB), [])) == {"action": "decline"}


@pytest.mark.parametrize(
    "request_",
    [
        Elicitation("lab", "Look", "url", {}, "javascript:alert(1)"),
        Elicitation("lab", "Look", "url", {}, "https://example.com/" + "a" * 5_000),
        Elicitation("lab", "Say", "form", {"properties": {str(n): {} for n in range(99)}}),
        Elicitation("lab", "Say", "form", {"properties": {"a": {"enum": ["b"] * 999}}}),
        Elicitation("lab", f"Do you agree? {'.' * 4_000} All files are deleted then."),
        Elicitation("lab", "Look", schema={"properties": {"a": {"description": "a" * 401}}}),
        Elicitation("lab", "Look", schema={"properties": {"a": {"enum": ["a" * 401]}}}),
    ],
)
def test_what_cannot_be_shown_as_a_whole_is_declined(request_: Elicitation) -> None:
    assert not is_presentable(request_)
    assert is_presentable(Elicitation("lab", "Look", "url", {}, "https://example.com/"))
    assert is_presentable(Elicitation("lab", "Look " * 200))


@pytest.mark.parametrize(
    ("field", "text", "problem"),
    [
        ({"type": "integer"}, "1.5", "whole number"),
        ({"type": "integer", "minimum": 2}, "1", "2 or more"),
        ({"type": "number", "maximum": 2}, "2.5", "2 or less"),
        ({"type": "number"}, "nan", "not a number"),
        ({"type": "number"}, "9" * 5_000, "not a number"),
        ({"type": "string", "minLength": 2}, "a", "at least 2"),
        ({"type": "string", "maxLength": 2}, "abc", "at most 2 characters"),
        ({"type": "array", "items": {"enum": ["a"]}}, "a, b", "is not one of: a"),
    ],
)
def test_values_must_fit_the_form(field: Fields, text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_value(field, text)


@pytest.mark.parametrize(("action", "times"), [("decline", 3), ("cancel", 3), ("accept", 10)])
def test_a_server_that_is_refused_again_and_again_stops_being_shown(
    ask: Ask, action: Literal["decline", "cancel", "accept"], times: int
) -> None:
    seen: list[Elicitation] = []

    async def elicit(request: Elicitation) -> ElicitAnswer:
        seen.append(request)
        return ElicitAnswer(action)

    last = "accept" if action == "accept" else "cancel"
    assert (ask("insist", elicit)["action"], len(seen)) == (last, times)
