"""Effects of hooks on the screen, in a real terminal."""

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.scripted_api import ScriptedApi, said
from support.tmux import Pane, needs_tmux, terminal
from turnlog.format.json_values import Fields
from turnlog.store.paths import Store

pytestmark = needs_tmux


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNLOG_HOME", str(tmp_path / "own"))
    monkeypatch.delenv("TMUX", raising=False)


@contextmanager
def hooked(store: Store, project: Path, **handlers: Fields) -> Generator[Pane]:
    """A chat in a terminal, with hooks."""
    groups = {event: [{"hooks": [handler]}] for event, handler in handlers.items()}
    store.settings.write_text(json.dumps({"hooks": groups}))
    with terminal([sys.executable, "-m", "turnlog", "chat"], project, 80, 24) as pane:
        pane.see("asks before changes")
        yield pane


def until(path: Path, then: str) -> str:
    return f"until [ -e {path} ]; do sleep 0.05; done; {then}"


def test_a_hook_says_what_it_does_until_it_is_done(
    store: Store, project: Path, api: ScriptedApi, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    wait = {"type": "command", "command": until(go, "true"), "statusMessage": "Linting the shop"}
    with hooked(store, project, Stop=wait) as pane:
        pane.say("hello")
        pane.see("Done.", "Linting the shop")
        go.touch()
        pane.wait(lambda screen: "Linting" not in screen)


def test_a_hook_in_the_background_wakes_the_model(
    store: Store, project: Path, api: ScriptedApi, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    command = until(go, "echo 'the build broke' >&2; exit 2")
    rewake = {"type": "command", "command": command, "asyncRewake": True}
    api.replies[:] = [said("Done."), said("Mended.")]
    with hooked(store, project, UserPromptSubmit=rewake) as pane:
        pane.say("hello")
        pane.see("Done.")
        pane.wait(lambda screen: "esc to interrupt" not in screen)
        go.touch()
        pane.see("Mended.")
    assert "the build broke" in json.dumps(api.requests[1].body["messages"][-1])


def test_a_hook_may_set_the_title_of_the_terminal(
    store: Store, project: Path, api: ScriptedApi, tmp_path: Path
) -> None:
    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps({"terminalSequence": "\x1b]2;all done\x07"}))
    title = {"type": "command", "command": f"cat {answer}"}
    with hooked(store, project, Stop=title) as pane:
        pane.say("hello")
        pane.see("Done.")
        pane.wait(lambda _: "all done" in pane.run("display-message", "-p", "#{pane_title}"))


def test_hooks_of_all_kinds_are_listed(store: Store, project: Path, api: ScriptedApi) -> None:
    handlers: dict[str, Fields] = {
        "Stop": {"type": "http", "url": "http://127.0.0.1:1/stop"},
        "PreToolUse": {"type": "mcp_tool", "server": "shop", "tool": "check"},
        "PostToolUse": {"type": "prompt", "prompt": "All well?"},
    }
    with hooked(store, project, **handlers) as pane:
        pane.say("/hooks")
        pane.see("http://127.0.0.1:1/stop", "shop/check", "All well?")
