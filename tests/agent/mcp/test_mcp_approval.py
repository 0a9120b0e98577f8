"""Servers of a project start only when someone approved them."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from support.scripted_api import ScriptedApi
from turnlog.agent.chat.assembly import ChatOptions
from turnlog.agent.chat.opening import open_chat
from turnlog.agent.config.settings import Settings, load
from turnlog.agent.mcp.server_approval import Approved, ask_for, find_servers, with_given
from turnlog.agent.mcp.server_config import ServerConfig, given_servers
from turnlog.agent.permissions.policy import PermissionReply, Question
from turnlog.errors import UsageError
from turnlog.store.paths import Store

SCRIPT = str(Path(__file__).parents[2] / "support/mcp_server.py")
SHOP = {"command": sys.executable, "args": [SCRIPT]}


class Places:
    """A project with servers, and the files that say which may start."""

    def __init__(self, store: Store, root: Path) -> None:
        self.store = store
        self.root = root
        self.local = root / ".claude" / "settings.local.json"
        self.shared = root / ".claude" / "settings.json"
        self.own = store.root / ".claude.json"
        write(root / ".mcp.json", mcpServers={"a": {"command": "a"}, "b": {"command": "b"}})
        subprocess.run(["git", "-C", str(root), "init", "-q"], check=True)

    def settings(self) -> Settings:
        return load(self.store, self.root)

    def found(self) -> Approved:
        return find_servers(self.store, self.settings())


def write(path: Path, **content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


@pytest.fixture
def places(store: Store, project: Path) -> Places:
    return Places(store, project)


def names(found: Approved) -> tuple[str, str]:
    """The servers that start, and those that wait."""
    return " ".join(found.configs), " ".join(found.pending)


def test_servers_of_a_project_wait_until_they_are_approved(places: Places) -> None:
    assert names(places.found()) == ("", "a b")
    write(places.local, enabledMcpjsonServers=["a"])
    assert names(places.found()) == ("a", "b")
    write(places.store.settings, enabledMcpjsonServers=["b"])
    assert names(places.found()) == ("a b", "")


def test_all_may_be_approved_and_the_highest_word_counts(places: Places) -> None:
    write(places.store.settings, enableAllProjectMcpServers=True)
    assert names(places.found()) == ("a b", "")
    write(places.local, enableAllProjectMcpServers=False)
    assert names(places.found()) == ("", "a b")


def test_a_refusal_in_any_file_counts(places: Places) -> None:
    write(places.store.settings, enableAllProjectMcpServers=True)
    write(places.shared, disabledMcpjsonServers=["a"])
    assert names(places.found()) == ("b", "")


def test_what_a_repository_brings_along_approves_nothing(places: Places) -> None:
    write(places.shared, enableAllProjectMcpServers=True, enabledMcpjsonServers=["a"])
    write(places.local, enabledMcpjsonServers=["b"])
    git = ["git", "-C", str(places.root)]
    subprocess.run([*git, "init", "-q"], check=True)
    assert names(places.found()) == ("b", "a")
    subprocess.run([*git, "add", "-f", str(places.local)], check=True)
    assert names(places.found()) == ("", "a b")


def test_settings_that_are_given_for_a_session_approve(places: Places) -> None:
    settings = load(places.store, places.root, given='{"enabledMcpjsonServers": ["a"]}')
    assert names(find_servers(places.store, settings)) == ("a", "b")


def test_the_users_own_servers_start_unasked(places: Places) -> None:
    own = {"mcpServers": {"c": {"command": "c"}, "a": {"command": "mine"}}}
    write(places.own, **own, projects={str(places.root): {"mcpServers": {"b": {"command": "x"}}}})
    assert names(places.found()) == ("c a b", "a")
    assert places.found().configs["b"] == ServerConfig(command="x")
    write(places.local, enableAllProjectMcpServers=True)
    assert places.found().configs["a"] == ServerConfig(command="a", is_project=True)
    assert places.found().configs["b"] == ServerConfig(command="x")


@pytest.mark.parametrize("content", ["[]", '{"projects": 1, "mcpServers": []}', "{}"])
def test_a_file_without_servers_of_the_users_names_none(places: Places, content: str) -> None:
    places.own.write_text(content)
    assert names(places.found()) == ("", "a b")
    assert places.found().problems == []


def test_a_broken_file_of_the_users_is_one_problem(places: Places) -> None:
    places.own.write_text("{")
    assert [str(places.own) in problem for problem in places.found().problems] == [True]


def test_the_users_file_lies_beside_the_default_directory(tmp_path: Path, project: Path) -> None:
    store = Store(tmp_path / ".claude")
    write(tmp_path / ".claude.json", mcpServers={"c": {"command": "c"}})
    assert names(find_servers(store, load(store, project), {})) == ("c", "")


def test_a_question_shows_the_variables_and_headers_of_a_server(places: Places) -> None:
    started = {"command": "node", "args": ["s.js"], "env": {"NODE_OPTIONS": "--require ./x.js"}}
    reached = {
        "type": "http",
        "url": "https://x.example",
        "headers": {"Api-Key": "hunter2-hunter2"},
    }
    write(places.root / ".mcp.json", mcpServers={"a": started, "b": reached})
    shown: list[str] = []

    async def ask(question: Question) -> PermissionReply:
        shown.append(question.input["description"])
        return PermissionReply("deny")

    asyncio.run(ask_for(places.found(), places.settings(), ask))
    assert shown[0] == "'NODE_OPTIONS=--require ./x.js' node s.js"
    assert shown[1].startswith("https://x.example ")
    assert "Api-Key=" in shown[1]
    assert "hunter2" not in shown[1]


def test_the_user_is_asked_once_and_the_answers_are_kept(places: Places) -> None:
    asked: list[str] = []

    async def ask(question: Question) -> PermissionReply:
        kind: Literal["allow", "deny"] = "allow" if question.call_id == "a" else "deny"
        asked.append(f"{question.tool}: {question.input['description']}")
        return PermissionReply(kind)

    write(places.local, model="opus")
    settings = places.settings()
    answered = asyncio.run(ask_for(places.found(), settings, ask))
    assert asked == ["MCP server a: a", "MCP server b: b"]
    assert names(answered) == ("a", "")
    assert answered.problems == []
    assert json.loads(places.local.read_text()) == {
        "model": "opus",
        "enabledMcpjsonServers": ["a"],
        "disabledMcpjsonServers": ["b"],
    }
    assert names(places.found()) == ("a", "")


def test_servers_of_a_project_that_is_not_trusted_never_start(places: Places) -> None:
    write(places.store.settings, enableAllProjectMcpServers=True, enabledMcpjsonServers=["a"])
    found = find_servers(places.store, places.settings(), is_trusted=False)
    assert (names(found), found.ignored) == (("", ""), ("a", "b"))


def test_a_server_of_the_project_cannot_name_the_key(places: Places) -> None:
    fields = {"url": "https://shop.example/${ANTHROPIC_API_KEY:-none}", "headers": {"x": "${SHOP}"}}
    write(places.root / ".mcp.json", mcpServers={"a": fields})
    environment = {"ANTHROPIC_API_KEY": "key", "SHOP": "shop"}
    config = find_servers(places.store, places.settings(), environment).pending["a"]
    assert (config.url, config.headers) == ("https://shop.example/none", {"x": "shop"})


def test_where_nobody_can_be_asked_a_line_names_those_that_wait(places: Places) -> None:
    [problem] = asyncio.run(ask_for(places.found(), places.settings(), None)).problems
    assert "a, b" in problem
    assert not places.local.exists()


def test_only_approved_servers_run(places: Places, api: ScriptedApi) -> None:
    write(places.root / ".mcp.json", mcpServers={"shop": SHOP, "other": {"command": "no-such"}})
    write(places.local, enabledMcpjsonServers=["shop"])

    async def run() -> None:
        chat = await open_chat(places.store, ChatOptions(cwd=places.root, trusts_project=True))
        try:
            assert "mcp__shop__add" in chat.parts.tools
            assert chat.server_states == [
                {"name": "shop", "status": "connected"},
                {"name": "other", "status": "pending"},
            ]
            assert len(chat.notes) == 1
        finally:
            await chat.close()

    asyncio.run(run())


def test_servers_of_the_command_line_start_first_and_without_approval(places: Places) -> None:
    write(places.root / "more.json", mcpServers={"a": {"command": "mine"}, "odd": {"type": "odd"}})
    given = given_servers(
        ["more.json", '{"mcpServers": {"c": {"command": "c"}}}'], places.root, environment={}
    )
    found = with_given(places.found(), given)
    assert names(found) == ("a c", "b")
    assert found.configs["a"].command == "mine"
    assert [problem.partition(":")[0] for problem in found.problems] == ["MCP server odd"]


@pytest.mark.parametrize("text", ["none.json", "{bad", '{"x": {"command": "y"}}'])
def test_what_names_no_servers_is_refused(places: Places, text: str) -> None:
    with pytest.raises(UsageError, match="--mcp-config "):
        given_servers([text], places.root, {})


def test_others_can_be_left_out(places: Places, api: ScriptedApi) -> None:
    write(places.local, enabledMcpjsonServers=["a", "b"])
    shop = json.dumps({"mcpServers": {"shop": SHOP}})
    options = ChatOptions(cwd=places.root, servers=(shop,), has_only_these_servers=True)

    async def run() -> list[str]:
        chat = await open_chat(places.store, options)
        await chat.close()
        return [state["name"] for state in chat.server_states if state["status"] == "connected"]

    assert asyncio.run(run()) == ["shop"]
