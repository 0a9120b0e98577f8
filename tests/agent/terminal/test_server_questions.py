"""Questions of MCP servers, and hooks about a user who is away, in a real terminal."""

import json
import sys
from pathlib import Path

import pytest

from support.plugins import write_json
from support.scripted_api import ScriptedApi, called, said
from support.tmux import isolate_terminal, needs_tmux, terminal
from turnlog.store.paths import Store

pytestmark = needs_tmux
SERVER = str(Path(__file__).parents[2] / "support/asking_server.py")
SERVERS = json.dumps({"mcpServers": {"lab": {"command": sys.executable, "args": [SERVER]}}})


@pytest.fixture(autouse=True)
def isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate_terminal(monkeypatch, tmp_path)


def chat(*options: str) -> list[str]:
    return [sys.executable, "-m", "turnlog", "chat", *options]


def answer(api: ScriptedApi) -> object:
    (result,) = api.requests[-1].body["messages"][-1]["content"]
    return json.loads(result["content"][0]["text"])


def test_a_form_is_filled_in_and_shown_before_it_is_sent(api: ScriptedApi, project: Path) -> None:
    api.replies[:] = [called(("t1", "mcp__lab__ask", {})), said("All clear.")]
    options = ("--mcp-config", SERVERS, "--allowed-tools", "mcp__lab__ask", "Go.")
    with terminal(chat(*options), project) as pane:
        pane.see("MCP server lab asks", "Who are you?", "Your name", "1. Answer")
        pane.type("b")
        pane.keys("Enter")
        pane.see("not accepted: it needs at least 2 characters", "Answer: b")
        pane.type("ob")
        pane.see("Answer: bob")
        pane.keys("Enter")
        pane.see("age", "2. Leave it out")
        pane.keys("Down")
        pane.keys("Enter")
        pane.see("colour", "2. blue")
        pane.keys("2")
        pane.see("agrees", "1. Yes")
        pane.keys("1")
        pane.see("name: bob", "colour: blue", "agrees: True", "Send this to lab?")
        pane.keys("1")
        pane.see("All clear.")
    content = {"name": "bob", "colour": "blue", "agrees": True}
    assert answer(api) == {"action": "accept", "content": content}


def test_an_address_is_shown_and_can_be_declined(api: ScriptedApi, project: Path) -> None:
    api.replies[:] = [called(("t1", "mcp__lab__visit", {})), said("All clear.")]
    options = ("--mcp-config", SERVERS, "--allowed-tools", "mcp__lab__visit", "Go.")
    with terminal(chat(*options), project) as pane:
        pane.see("Please log in", "https://example.com/login?a=1", "2. Decline")
        pane.keys("2")
        pane.see("All clear.")
    assert answer(api) == {"action": "decline"}


def test_hooks_learn_that_the_user_is_away(
    api: ScriptedApi, project: Path, store: Store, tmp_path: Path
) -> None:
    heard = tmp_path / "heard"
    hook = {"type": "command", "command": f"cat >> {heard}"}
    group = {"matcher": "idle_prompt", "hooks": [hook]}
    write_json(store.settings, hooks={"Notification": [group]})
    write_json(store.root / ".claude.json", messageIdleNotifThresholdMs=300)
    with terminal(chat("Go."), project) as pane:
        pane.see("Done.")
        pane.wait(lambda screen: heard.exists() and heard.read_text().endswith("\n"))
    (told,) = [json.loads(line) for line in heard.read_text().splitlines()]
    assert told["notification_type"] == "idle_prompt"


def test_a_switch_of_the_model_may_need_a_word(
    api: ScriptedApi, project: Path, store: Store
) -> None:
    said_by_hook = {"hookEventName": "PreModelSwitch", "permissionDecision": "ask"}
    said_by_hook["permissionDecisionReason"] = "it is dear"
    script = f"echo '{json.dumps({'hookSpecificOutput': said_by_hook})}'"
    group = {"matcher": "claude-opus-4-8", "hooks": [{"type": "command", "command": script}]}
    write_json(store.settings, hooks={"PreModelSwitch": [group]})
    with terminal(chat(), project) as pane:
        pane.see("asks before changes")
        pane.say("/model claude-opus-4-8")
        pane.see("Switch to claude-opus-4-8?", "it is dear")
        pane.keys("2")
        pane.see("the model stays")
        pane.say("/model claude-haiku-5-5")
        pane.see("the model is claude-haiku-5-5")
        pane.say("/model claude-opus-4-8")
        pane.see("Switch to claude-opus-4-8?")
        pane.keys("1")
        pane.see("the model is claude-opus-4-8")
