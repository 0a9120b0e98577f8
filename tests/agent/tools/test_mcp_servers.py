"""MCP servers: real ones, over their standard streams and over HTTP."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.tool_calls import Calls
from turnlog.agent.mcp.connections import Connections
from turnlog.agent.mcp.server_config import ServerConfig, Servers, read_servers
from turnlog.agent.workspace.tool import ToolError
from turnlog.format.image_size import pixels_of

SCRIPT = str(Path(__file__).parents[2] / "support/mcp_server.py")
SHOP = ServerConfig(command=sys.executable, args=[SCRIPT])
Configs = dict[str, ServerConfig]


def with_servers(
    calls: Calls, configs: Configs, use: Callable[[], Awaitable[None]], seconds: float = 60
) -> list[str]:
    """Start servers, use their tools, stop them; return the problems of some."""

    async def run() -> list[str]:
        connections = Connections()
        try:
            await connections.start(configs, calls.root, seconds=seconds)
            calls.tools |= {tool.name: tool for tool in connections.tools}
            await use()
        finally:
            await connections.close()
        return connections.problems

    return asyncio.run(run())


async def nothing() -> None:
    pass


def read(tmp_path: Path, servers: Any, **environment: str) -> Servers:
    path = tmp_path / ".mcp.json"
    path.write_text(servers if isinstance(servers, str) else json.dumps({"mcpServers": servers}))
    return read_servers(path, environment)


def test_servers_are_read_with_variables_put_in(tmp_path: Path) -> None:
    listed = {
        "db": {"command": "${BIN}/db", "args": ["--port=${PORT:-5432}"], "env": {"A": "${BIN}"}},
        "web": {"type": "http", "url": "https://x/mcp", "headers": {"Authorization": "${KEY:-}"}},
    }
    found = read(tmp_path, listed, BIN="/opt")
    assert found.configs == {
        "db": ServerConfig(command="/opt/db", args=["--port=5432"], env={"A": "/opt"}),
        "web": ServerConfig(type="http", url="https://x/mcp", headers={"Authorization": ""}),
    }
    assert found.problems == []


def test_what_is_wrong_with_a_server_concerns_no_other(tmp_path: Path) -> None:
    listed = {
        "good": {"command": "x"},
        "unset": {"command": "${NOWHERE}"},
        "empty": {},
        "odd": {"type": "carrier", "url": "https://x"},
        "wrong": {"command": 1},
    }
    found = read(tmp_path, listed)
    assert list(found.configs) == ["good"]
    for name, why in {"unset": "NOWHERE", "empty": "url", "odd": "carrier", "wrong": "str"}.items():
        [problem] = [line for line in found.problems if f"server {name}:" in line]
        assert why in problem


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_broken_file_is_one_problem(tmp_path: Path, text: str) -> None:
    found = read(tmp_path, text)
    assert found.configs == {}
    assert [str(tmp_path / ".mcp.json") in problem for problem in found.problems] == [True]
    assert read_servers(tmp_path / "none.json", {}) == Servers({}, [])


def test_tools_of_a_server_are_called(calls: Calls) -> None:
    async def use() -> None:
        added = await calls.start("mcp__shop__add", a=2, b=3)
        assert added.content == added.data == [{"type": "text", "text": "5"}]
        pictured = await calls.start("mcp__shop__picture")
        assert isinstance(pictured.content, list)
        (block,) = pictured.content
        assert pixels_of(block["source"]["data"]) == (2_000, 10)
        given = await calls.start("mcp__shop__resources")
        assert [block["text"] for block in given.data] == [
            "[resource shop://list]\napples",
            "[resource shop://a.zip, application/zip]",
            "[resource more: shop://more]",
        ]

    assert with_servers(calls, {"shop": SHOP}, use) == []
    tool = calls.tools["mcp__shop__add"]
    assert tool.description == "Add two numbers."
    assert tool.schema["required"] == ["a", "b"]
    assert tool.is_parallel
    assert not calls.tools["mcp__shop__picture"].is_parallel


def test_a_call_that_fails_is_told(calls: Calls) -> None:
    async def use() -> None:
        failed = await calls.start("mcp__shop__fail")
        assert failed.is_error
        assert "out of stock" in str(failed.content)

    assert with_servers(calls, {"shop": SHOP}, use) == []


def test_long_results_are_kept_beside_the_session(calls: Calls) -> None:
    async def use() -> None:
        [block] = (await calls.start("mcp__shop__long")).data
        assert block["text"].startswith("<persisted-output>\n")
        [kept] = (calls.workspace.folder / "tool-results").iterdir()
        assert kept.stat().st_size == 250_000

    assert with_servers(calls, {"shop": SHOP}, use) == []


def test_a_server_has_its_variables_and_works_in_the_project(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_HERE", "a")
    config = ServerConfig(command=sys.executable, args=[SCRIPT], env={"FROM_FILE": "b"})

    async def use() -> None:
        for name, value in {"FROM_HERE": "a", "FROM_FILE": "b"}.items():
            [block] = (await calls.start("mcp__shop__variable", name=name)).data
            assert block["text"] == f"{value} in {calls.root}"

    assert with_servers(calls, {"shop": config}, use) == []


@pytest.mark.parametrize(("is_project", "key"), [(True, ""), (False, "sk-1")])
def test_a_server_of_a_project_gets_no_credentials(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, is_project: bool, key: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-1")
    config = ServerConfig(command=sys.executable, args=[SCRIPT], is_project=is_project)

    async def use() -> None:
        [block] = (await calls.start("mcp__shop__variable", name="ANTHROPIC_API_KEY")).data
        assert block["text"] == f"{key} in {calls.root}"

    assert with_servers(calls, {"shop": config}, use) == []


def test_a_server_that_fails_is_a_line_and_the_others_work(calls: Calls) -> None:
    complains = "import sys; sys.exit('no license found')"
    configs = {
        "missing": ServerConfig(command="no-such-program"),
        "shop": SHOP,
        "broken": ServerConfig(command=sys.executable, args=["-c", complains]),
        "nowhere": ServerConfig(type="http", url="http://127.0.0.1:9/mcp"),
    }

    async def use() -> None:
        assert (await calls.start("mcp__shop__add", a=1, b=1)).data[0]["text"] == "2"

    problems = with_servers(calls, configs, use)
    assert len(problems) == 3
    assert any("missing" in line and "no-such-program" in line for line in problems)
    assert any("broken" in line and "no license found" in line for line in problems)
    assert any("nowhere" in line for line in problems)


def test_a_server_that_never_answers_is_given_up(calls: Calls) -> None:
    silent = ServerConfig(command="sleep", args=["60"])
    problems = with_servers(calls, {"silent": silent}, nothing, seconds=0.3)
    assert problems == ["MCP server silent was not ready within 0.3 s"]


def test_a_server_that_ends_in_a_call_is_told(calls: Calls) -> None:
    async def use() -> None:
        with pytest.raises(ToolError, match="MCP server shop"):
            await calls.start("mcp__shop__crash")
        with pytest.raises(ToolError, match="MCP server shop"):
            await calls.start("mcp__shop__add", a=1, b=1)

    assert with_servers(calls, {"shop": SHOP}, use) == []


def test_a_call_that_is_cancelled_leaves_the_server_in_use(calls: Calls) -> None:
    async def use() -> None:
        hanging = asyncio.create_task(calls.start("mcp__shop__hang"))
        assert (await calls.start("mcp__shop__add", a=1, b=1)).data[0]["text"] == "2"
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        assert (await calls.start("mcp__shop__add", a=1, b=2)).data[0]["text"] == "3"

    assert with_servers(calls, {"shop": SHOP}, use) == []


@contextmanager
def served(kind: str) -> Generator[int]:
    """The port of a server over HTTP, whose token is `open`."""
    argv = [sys.executable, SCRIPT, kind, "open"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as server:
        assert server.stdout
        yield int(server.stdout.readline())
        server.terminate()


@pytest.mark.parametrize(("kind", "path"), [("http", "mcp"), ("sse", "sse")])
def test_tools_are_called_over_http(calls: Calls, kind: str, path: str) -> None:
    async def use() -> None:
        assert (await calls.start("mcp__web__add", a=20, b=22)).data[0]["text"] == "42"

    with served(kind) as port:
        url = f"http://127.0.0.1:{port}/{path}"
        configs = {
            "web": ServerConfig(type=kind, url=url, headers={"Authorization": "Bearer open"}),
            "closed": ServerConfig(type=kind, url=url),
        }
        problems = with_servers(calls, configs, use)
    assert [line.split(":")[0] for line in problems] == ["MCP server closed did not start"]
