"""Commands about settings, health, themes, the status line and plugins, in a real terminal."""

import json
import re
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.scripted_api import ScriptedApi
from support.tmux import Pane, isolate_terminal, needs_tmux, terminal
from turnlog.store.paths import Store

pytestmark = needs_tmux
SERVER = str(Path(__file__).parents[2] / "support/mcp_offers.py")

KEY = "hunter2-hunter2"

Start = Callable[..., AbstractContextManager[Pane]]


@pytest.fixture
def start(
    api: ScriptedApi, store: Store, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Start:
    """Starts a chat in a terminal."""
    isolate_terminal(monkeypatch, tmp_path)
    store.root.mkdir(exist_ok=True)

    @contextmanager
    def run(*options: str) -> Generator[Pane]:
        command = [sys.executable, "-m", "turnlog", "chat", *options]
        with terminal(command, project, 120, 40) as pane:
            pane.see("% of 1M")
            yield pane

    return run


def settings(store: Store) -> dict[str, Any]:
    return json.loads(store.settings.read_text())


def flat(screen: str) -> str:
    """A screen without its line breaks: paths are of any length."""
    return " ".join(screen.split())


def has_light_prompt(screen: str) -> bool:
    return re.search(r"38;5;28m(\x1b\[[0-9;]*m)*❯", screen) is not None


def test_settings_are_shown_with_their_files_and_changed_in_the_users_own(
    start: Start, store: Store
) -> None:
    own = {"language": "French", "env": {"API_KEY": KEY}}
    store.settings.write_text(json.dumps(own))
    with start("--settings", '{"autoCompactEnabled": false}') as pane:
        pane.say("/config")
        pane.see("Settings", "language: French", "your settings", "autoCompactEnabled: false")
        pane.see("--settings")
        pane.type("env")
        screen = pane.wait(lambda screen: "language" not in screen)
        assert KEY not in screen
        pane.keys("Escape")
        pane.wait(lambda screen: "search:" not in screen)
        pane.say("/config language German")
        pane.wait(lambda screen: "language is German in" in flat(screen))
        pane.say("/config autoCompactEnabled true")
        pane.see("--settings takes precedence")
        pane.say("/config permissions.defaultMode plan")
        pane.wait(lambda screen: "permissions.defaultMode is plan" in flat(screen))
        pane.say("/config cleanupPeriodDays soon")
        pane.see("takes a number")
        pane.say("/config language default")
        pane.see("language is removed")
    assert settings(store) == {
        "env": {"API_KEY": KEY},
        "autoCompactEnabled": True,
        "permissions": {"defaultMode": "plan"},
    }


def test_a_setting_is_chosen_in_menus(start: Start, store: Store) -> None:
    with start() as pane:
        pane.say("/config")
        pane.see("search:")
        pane.type("effort")
        pane.wait(lambda screen: "❯ effortLevel" in screen)
        pane.keys("Enter")
        pane.see("1. low", "default")
        pane.keys("1")
        pane.see("the effort is low", "low effort")
    assert settings(store) == {"effortLevel": "low"}


def test_a_model_is_saved_for_new_sessions_unless_a_hook_refuses_it(
    start: Start, store: Store
) -> None:
    with start() as pane:
        pane.say("/model")
        pane.see("❯ 1. opus", "2. fable", "5. default")
        pane.keys("3")
        pane.see("the model is claude-sonnet-5-5, here and in new sessions")
        pane.wait(lambda _: settings(store) == {"model": "sonnet"})
        pane.say("/config model haiku")
        pane.see("the model is claude-haiku-5-5")
        pane.wait(lambda _: settings(store) == {"model": "haiku"})
        pane.say("/model default")
        pane.see("the model is claude-opus-5-5")
        pane.wait(lambda _: settings(store) == {})
    hook = {"type": "command", "command": "echo 'not that one' >&2; exit 2"}
    store.settings.write_text(json.dumps({"hooks": {"PreModelSwitch": [{"hooks": [hook]}]}}))
    with start() as pane:
        pane.say("/config model haiku")
        pane.see("the model stays claude-opus-5-5")
    assert "model" not in settings(store)


def test_a_theme_counts_at_once_and_in_the_next_chat(start: Start, store: Store) -> None:
    with start() as pane:
        assert "\x1b[1m\x1b[32m❯" in pane.screen("-e")
        pane.say("/theme")
        pane.see("Which theme?", "light-daltonized")
        pane.keys("3")
        pane.see("the theme is light")
        pane.wait(has_light_prompt, "-e")
        pane.say("/theme pink")
        pane.see("there is no theme 'pink'")
    assert settings(store) == {"theme": "light"}
    with start() as pane:
        pane.wait(has_light_prompt, "-e")


def test_vi_keys_count_at_once_and_in_the_next_chat(start: Start, store: Store) -> None:
    with start() as pane:
        pane.say("/vim")
        pane.see("vi keys are on", "· INSERT ·")
    assert settings(store) == {"editorMode": "vim"}
    with start() as pane:
        pane.see("· INSERT ·")
        pane.say("/config editorMode normal")
        pane.see("vi keys are off")
        pane.wait(lambda screen: "· INSERT ·" not in screen)
        pane.say("/config editorMode emacs")
        pane.see("'emacs' is not a valid value for editorMode")
    assert settings(store) == {"editorMode": "normal"}


def test_a_status_line_runs_only_after_it_was_confirmed(
    start: Start, store: Store, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    with start() as pane:
        pane.say("/statusline")
        pane.see("the status line has no command")
        pane.say(f"/statusline touch {mark}; echo ready")
        pane.see("Let this command write the status line?", "❯ 1. No")
        pane.keys("Enter")
        pane.see("stays as it is")
        assert not mark.exists()
        assert not store.settings.exists()
        pane.say(f"/statusline touch {mark}; echo ready")
        pane.see("❯ 1. No")
        pane.keys("2")
        pane.see("asks before changes · ready")
        pane.say("/statusline remove")
        pane.see("removed from", "% of 1M")
        pane.say("/statusline remove")
        pane.see("settings.json has none")
    assert mark.exists()
    assert settings(store) == {}


def test_the_doctor_names_what_is_wrong(
    start: Start, store: Store, project: Path, tmp_path: Path
) -> None:
    rules = {"allow": ["Bsh(ls)", "Read(/etc/x)"], "deny": ["mcp__nosuch"]}
    store.settings.write_text(json.dumps({"permissions": rules}))
    servers = {
        "shop": {"command": sys.executable, "args": [SERVER]},
        "gone": {"command": "/nosuch"},
    }
    with start("--mcp-config", json.dumps({"mcpServers": servers})) as pane:
        pane.say("/doctor")
        screen = flat(pane.see("findings"))
        for text in (
            "✓ installation turnlog",
            "✓ key ANTHROPIC_API_KEY",
            "there is no tool Bsh",
            "no MCP server nosuch is set up",
            "is written //etc/x",
            "shop: 1 tool",
            "gone: failed",
            "nothing is recorded yet",
        ):
            assert text in screen
        pane.say("hello")
        pane.see("Done.")
        store.settings.write_text('{"model": ')
        (project / ".mcp.json").write_text("[")
        pane.say("/doctor")
        screen = flat(pane.wait(lambda screen: "resumes in full" in screen))
        assert f"{store.settings} is not valid" in screen
        assert ".mcp.json" in screen


@pytest.mark.parametrize("command", ["/status", "/doctor"])
def test_the_password_of_a_gateway_is_masked(
    start: Start, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://ada:{KEY}@127.0.0.1:1")
    with start() as pane:
        pane.say(command)
        assert KEY not in flat(pane.see("http://ada:[url-password"))


def test_plugins_are_listed_with_what_they_contribute(
    start: Start, tmp_path: Path, api: ScriptedApi
) -> None:
    place = tmp_path / "plugin"
    for name, text in (
        (".claude-plugin/plugin.json", '{"name": "till"}'),
        ("commands/count.md", "Count the till."),
        ("agents/clerk.md", "---\nname: clerk\ndescription: Counts\n---\nCount."),
        ("hooks/hooks.json", '{"hooks": {"Stop": []}}'),
    ):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    with start("--plugin-dir", str(place)) as pane:
        pane.say("/plugin")
        pane.see("till", "1 command, 1 agent, 1 hook")
        pane.say("/plugin till")
        pane.see("till:count", "till:clerk", "Stop")
        pane.say("/plugin nosuch")
        pane.see("no plugin 'nosuch' is loaded")


def test_prompts_and_resources_of_servers_are_completed(start: Start, api: ScriptedApi) -> None:
    servers = {"shop": {"command": sys.executable, "args": [SERVER]}}
    with start("--mcp-config", json.dumps({"mcpServers": servers})) as pane:
        pane.type("/greet")
        pane.see("/mcp__shop__greet <name> [manner]", "Greet someone.")
        pane.keys("Enter")
        pane.say("Ann")
        pane.see("Done.")
        pane.type("see @shop:li")
        pane.see("shop:shop://list")
        pane.keys("Tab")
        pane.wait(lambda screen: "❯ see @shop:shop://list" in screen)
        pane.keys("Enter")
        pane.wait(lambda screen: screen.count("Done.") == 2)
        pane.say("/mcp")
        pane.see("shop connected", "add", "resources")
    first, second = (json.dumps(each.body["messages"]) for each in api.requests)
    assert "Greet Ann in a kind way." in first
    assert "apples" in second
