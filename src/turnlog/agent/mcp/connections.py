"""Connect to MCP servers and offer their tools.

Servers start in parallel; one that fails does not affect the others. Each connection is opened and
closed in its own task, as the SDK's context managers require.
"""

import asyncio
import logging
import os
import re
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import turnlog
from turnlog.agent.mcp.elicitation import AskForInput, ElicitAnswer, read_request, result_of
from turnlog.agent.mcp.results import outcome_of
from turnlog.agent.mcp.server_config import HOST, ServerConfig
from turnlog.agent.mcp.server_offers import (
    ServerOffer,
    ServerPrompt,
    ServerResource,
    fetch_prompt,
    fetch_resource,
    list_offer,
)
from turnlog.agent.workspace.access import Uses
from turnlog.agent.workspace.project_environment import without_credentials
from turnlog.agent.workspace.tool import Grant, Output, Tool, ToolError, ToolOutcome
from turnlog.agent.workspace.workspace import Workspace
from turnlog.format.json_values import Fields

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client.session import ClientRequestContext, ElicitationFnT
    from mcp.types import ElicitRequestParams, ElicitResult
    from mcp.types import Tool as ServerTool

Streams = TypeVar("Streams")
OpenHost = Callable[[str], AbstractAsyncContextManager[Any]]
"""Returns the transport to a server of the host program, by name."""

LOG = logging.getLogger("turnlog.mcp")
SECONDS = 30.0
"""Seconds for a server to start and list its tools."""
OPENING = 5.0
"""Seconds for an abandoned server to open its transport and to exit."""
LONGEST_SILENCE = 86_400.0
"""Maximum seconds of silence on an SSE connection."""
METHOD_NOT_FOUND = -32601
PAGES = 100
EMPTY: Fields = {"type": "object", "properties": {}}
LONGEST_NAME = 128
LONGEST_DESCRIPTION = 2_048


@dataclass
class Connections:
    """Running MCP servers and their tools."""

    tools: list[Tool] = field(default_factory=list[Tool])
    problems: list[str] = field(default_factory=list[str])
    """Error messages of servers that did not start, one line each."""
    failed: dict[str, str] = field(default_factory=dict[str, str])
    """Servers that did not start, and why."""
    open_host: OpenHost | None = None
    """Connects to a server inside the host program."""
    elicit: AskForInput | None = None
    """Answers requests of servers for input; None if they may not ask."""
    servers: dict[str, "_StartingServer"] = field(default_factory=dict[str, "_StartingServer"])
    """Servers by name, including those that failed or were stopped."""
    _tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])
    _opening: list[tuple[asyncio.Task[None], asyncio.Event]] = field(
        default_factory=list[tuple[asyncio.Task[None], asyncio.Event]]
    )
    """Each server's task, with the event set when its transport is open."""

    async def start(
        self,
        configs: Mapping[str, ServerConfig],
        root: Path,
        variables: Mapping[str, str] = {},
        seconds: float = SECONDS,
        own_place: Path | None = None,
    ) -> None:
        """Start servers, and wait until each is ready or has failed.

        If several servers have a tool of the same name, the first server's is used.
        """
        place = _ServerPlace(root, variables, own_place or root)
        starts = (self._start(name, config, place, seconds) for name, config in configs.items())
        try:
            listed = await asyncio.gather(*starts)
        except asyncio.CancelledError:
            await self._abandon()
            raise
        for name, tools in zip(configs, listed, strict=True):
            self._add(name, tools)

    async def _abandon(self) -> None:
        """Stop servers that are still starting.

        Wait for each transport to open first: if the SDK's transport is cancelled while it starts
        a process, it waits forever for that process to end.
        """
        for task, is_open in self._opening:
            opened = asyncio.create_task(is_open.wait())
            await asyncio.wait((opened, task), timeout=OPENING, return_when=asyncio.FIRST_COMPLETED)
            opened.cancel()
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=OPENING)

    async def close(self) -> None:
        """Stop all servers."""
        # Not cancelled, as the SDK requires each task to exit its context managers itself.
        for server in self.servers.values():
            server.stop.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def stop(self, name: str) -> None:
        """Stop one server and drop its tools."""
        server = self.servers[name]
        server.is_disabled = True
        server.stop.set()
        if server.task:
            await asyncio.gather(server.task, return_exceptions=True)
        self.tools = [tool for tool in self.tools if tool.server != spelt(name)]

    @property
    def prompts(self) -> list[ServerPrompt]:
        """The prompts of all running servers."""
        return [each for server in self._running() for each in server.offer.prompts]

    @property
    def resources(self) -> list[ServerResource]:
        """The resources of all running servers."""
        return [each for server in self._running() for each in server.offer.resources]

    async def fetch_prompt(
        self, prompt: ServerPrompt, given: Sequence[str], folder: Path
    ) -> list[Fields]:
        """Return the content of a prompt as blocks; raise `ToolError` if the server fails."""
        return await fetch_prompt(prompt, given, self._client(prompt.server), folder)

    async def fetch_resource(self, server: str, uri: str, folder: Path) -> list[Fields]:
        """Return the content of a resource as blocks; raise `ToolError` if the server fails."""
        return await fetch_resource(server, uri, self._client(server), folder)

    def _running(self) -> "Iterator[_StartingServer]":
        return (server for server in self.servers.values() if server.client)

    def _client(self, name: str) -> "Client":
        server = self.servers.get(name)
        if server is None or server.client is None:
            raise ToolError(f"MCP server {name} is not running")
        return server.client

    async def restart(self, name: str, seconds: float = SECONDS) -> None:
        """Restart a server, and list its tools again."""
        await self.stop(name)
        server = self.servers[name]
        self.failed.pop(name, None)
        self._add(name, await self._start(name, server.config, server.place, seconds))

    def _add(self, name: str, tools: Sequence[Tool]) -> None:
        LOG.debug("%s: %d tools", name, len(tools))
        known = {tool.name for tool in self.tools}
        self.tools += [tool for tool in tools if tool.name not in known]
        # Names can clash: servers "a b" and "a_b", or tool c__d of server a and d of server a__c.
        if taken := [tool.name for tool in tools if tool.name in known]:
            why = f"left out, as another server has tools of these names: {', '.join(taken)}"
            self.problems.append(f"MCP server {name}: {why}")

    async def _start(
        self, name: str, config: ServerConfig, place: "_ServerPlace", seconds: float
    ) -> list[Tool]:
        ready: asyncio.Future[list[Tool]] = asyncio.get_running_loop().create_future()
        # A file, not a pipe: nobody reads stderr while the server runs, and a full pipe would
        # block the server.
        with TextIOWrapper(tempfile.TemporaryFile(), errors="replace") as complaints:
            server = _StartingServer(name, config, place, complaints, self.open_host, self.elicit)
            self.servers[name] = server
            server.task = task = asyncio.create_task(_serve(server, ready))
            self._tasks.append(task)
            self._opening.append((task, server.is_open))
            try:
                async with asyncio.timeout(seconds):
                    return await ready
            except TimeoutError:
                task.cancel()
                self._fail(name, f"was not ready within {seconds:g} s")
            except Exception as error:  # whatever a server does, the others keep running
                why = _last_line(complaints) or str(error) or type(error).__name__
                self._fail(name, f"did not start: {why}")
        return []

    def _fail(self, name: str, why: str) -> None:
        LOG.debug("%s %s", name, why)
        self.failed[name] = why
        self.problems.append(f"MCP server {name} {why}")


@dataclass
class _ServerPlace:
    """Working directory and environment of servers."""

    root: Path
    variables: Mapping[str, str]
    """Variables added to turnlog's environment."""
    own_place: Path
    """The working directory of the user's servers. In a stranger's repository,
    `python -m mcp_server_fetch` would run a file of that name, and `npx` a program in its
    `node_modules`."""


@dataclass
class _StartingServer:
    """A server about to start."""

    name: str
    config: ServerConfig
    place: _ServerPlace
    complaints: TextIO
    """Receives its stderr."""
    open_host: OpenHost | None = None
    elicit: AskForInput | None = None
    is_open: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the process is running or the URL was reached."""
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to end the connection."""
    is_disabled: bool = False
    """True if it was stopped on request."""
    task: asyncio.Task[None] | None = None
    info: Fields = field(default_factory=dict[str, Any])
    """Name and version that the server reports."""
    offered: list[Fields] = field(default_factory=list[Fields])
    """Name and annotations of its tools."""
    offer: ServerOffer = field(default_factory=ServerOffer)
    """Its prompts and resources."""
    client: "Client | None" = None
    """The connection, as long as it is open."""


async def _serve(server: _StartingServer, ready: asyncio.Future[list[Tool]]) -> None:
    """Keep the connection to a server open until it is stopped."""
    try:
        async with AsyncExitStack() as stack:
            client = await _connect(server, stack)
            listed, server.offer = await asyncio.gather(
                _list_tools(client), list_offer(server.name, client)
            )
            about = client.server_info
            server.info = {"name": about.name, "version": about.version} if about else {}
            server.offered = [_described(tool) for tool in listed]
            server.client = client
            ready.set_result([_tool(server.name, client, tool) for tool in listed])
            await server.stop.wait()
            server.client = None
    except Exception as error:
        # A connection that is lost later shows when one of its tools is called.
        if not ready.done():
            ready.set_exception(_first(error))


async def _connect(server: _StartingServer, stack: AsyncExitStack) -> "Client":
    from httpx2 import AsyncClient, Timeout
    from mcp import Client, StdioServerParameters, stdio_client
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.types import Implementation

    config = server.config
    if config.type == HOST:
        if server.open_host is None:
            raise ConnectionError("it runs inside a host program, but no program drives this chat")
        transport = server.open_host(server.name)
    elif config.command:
        parameters = StdioServerParameters(
            command=config.command,
            args=config.args,
            env=_environment(server),
            cwd=server.place.root if config.is_project else server.place.own_place,
        )
        transport = stdio_client(parameters, server.complaints)
    elif config.type == "sse":
        transport = sse_client(config.url or "", config.headers, SECONDS, LONGEST_SILENCE)
    else:
        timeout = Timeout(SECONDS, read=None)
        http = await stack.enter_async_context(AsyncClient(headers=config.headers, timeout=timeout))
        transport = streamable_http_client(config.url or "", http_client=http)
    about = Implementation(name="turnlog", version=turnlog.__version__)
    marked = _marking(transport, server.is_open)
    asking = _elicitor(server.name, server.elicit) if server.elicit else None
    client = Client(marked, client_info=about, elicitation_callback=asking)
    return await stack.enter_async_context(client)


def _elicitor(server: str, elicit: AskForInput) -> "ElicitationFnT":
    """Return the callback through which a server requests input from the user."""

    async def answer(
        context: "ClientRequestContext", params: "ElicitRequestParams"
    ) -> "ElicitResult":
        try:
            return result_of(await elicit(read_request(server, params)))
        except Exception:  # the SDK would print the traceback on the screen
            return result_of(ElicitAnswer("cancel"))

    return answer


@asynccontextmanager
async def _marking(
    transport: AbstractAsyncContextManager[Streams], is_open: asyncio.Event
) -> AsyncGenerator[Streams]:
    """Open a transport and set its event."""
    async with transport as streams:
        is_open.set()
        yield streams


def _described(tool: "ServerTool") -> Fields:
    notes = tool.annotations
    given: Fields = notes.model_dump(by_alias=True, exclude_none=True) if notes else {}
    return {"name": tool.name, "annotations": given}


def _environment(server: _StartingServer) -> dict[str, str]:
    """Return the environment of a server; a project's server does not get turnlog's credentials."""
    variables = os.environ | server.place.variables
    return (
        without_credentials(variables) if server.config.is_project else variables
    ) | server.config.env


async def _list_tools(client: "Client") -> "list[ServerTool]":
    from mcp import MCPError

    try:
        page = await client.list_tools()
    except MCPError as error:
        # A server without tools need not know the method; in-process servers do not.
        if error.code != METHOD_NOT_FOUND:
            raise
        return []
    tools = list(page.tools)
    # A server whose list never ends must not keep the chat from starting.
    for _ in range(PAGES):
        if page.next_cursor is None:
            break
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
    return tools


def _tool(server: str, client: "Client", tool: "ServerTool") -> Tool:
    async def run(given: Fields, workspace: Workspace, output: Output, grant: Grant) -> ToolOutcome:
        from mcp import MCPError

        try:
            result = await client.call_tool(tool.name, given)
        except MCPError as error:
            raise ToolError(f"MCP server {server}: {error}") from error
        return await asyncio.to_thread(outcome_of, result, workspace.folder)

    return Tool(
        tool_name(server, tool.name),
        # Truncated, as every request contains all descriptions.
        (tool.description or "")[:LONGEST_DESCRIPTION],
        EMPTY | tool.input_schema,
        _as_it_is,
        lambda given, workspace: [Uses(server=spelt(server))],
        run,
        is_parallel=bool(tool.annotations and tool.annotations.read_only_hint),
        server=spelt(server),
    )


def tool_name(server: str, tool: str) -> str:
    """Return the name under which the model calls a server's tool.

    >>> tool_name("my db", "query")
    'mcp__my_db__query'
    """
    return spelt(f"mcp__{server}__{tool}")[:LONGEST_NAME]


def spelt(name: str) -> str:
    """Return a name restricted to the characters that tool names allow."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)


def _as_it_is(given: Fields) -> Fields:
    return given


def _first(error: BaseException) -> BaseException:
    """Return the innermost error of nested exception groups."""
    inner: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    return _first(inner[0]) if inner else error


def _last_line(complaints: TextIO) -> str:
    complaints.seek(0)
    lines = complaints.read().strip().splitlines()
    return lines[-1].strip() if lines else ""
