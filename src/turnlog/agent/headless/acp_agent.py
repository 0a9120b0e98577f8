"""Serve turnlog as an editor's agent with the Agent Client Protocol (agentclientprotocol.com).

One process serves any number of sessions. They are recorded like sessions in a terminal, so each
can be resumed there and in Claude Code.
"""

import asyncio
import functools
import json
import os
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast
from uuid import UUID

from acp.agent.connection import AgentSideConnection
from acp.exceptions import RequestError
from acp.interfaces import Agent
from acp.meta import PROTOCOL_VERSION
from acp.schema import (
    AgentCapabilities,
    AuthenticateResponse,
    ClientCapabilities,
    CloseSessionResponse,
    ForkSessionResponse,
    HttpMcpServer,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    McpServerStdio,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionAdditionalDirectoriesCapabilities,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionForkCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
    SseMcpServer,
)
from msgspec.structs import replace

from turnlog.agent.chat.assembly import ChatOptions
from turnlog.agent.headless.acp_prompts import read_prompt
from turnlog.agent.headless.acp_session import AcpSession, open_acp_session
from turnlog.agent.headless.acp_transport import LineTransport
from turnlog.agent.headless.control_channel import ControlError
from turnlog.errors import ModelError, NotFound, TurnlogError
from turnlog.format.json_values import Fields
from turnlog.secrets import mask
from turnlog.store.catalog import SessionFile, describe, list_sessions
from turnlog.store.paths import Store
from turnlog.store.session_lookup import find_session
from turnlog.text import one_line

TERMINAL_OUTPUT = "terminal_output"
"""Set in `_meta` by clients that show output in a terminal without running the command."""
PAGE = 50
"""Sessions per page of `session/list`."""
INTERNAL_ERROR = -32603

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def reported(
    method: Callable[Given, Awaitable[Answer]],
) -> Callable[Given, Awaitable[Answer]]:
    """Decorate a method to convert turnlog's exceptions to errors of the protocol."""

    @functools.wraps(method)
    async def answer(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
        try:
            return await method(*args, **kwargs)
        except ModelError as error:
            raise RequestError.auth_required({"details": mask(error.line)}) from error
        except NotFound as error:
            raise RequestError.resource_not_found(mask(error.line)) from error
        except ControlError as error:
            raise RequestError.invalid_params({"details": mask(str(error))}) from error
        except TurnlogError as error:
            raise RequestError(INTERNAL_ERROR, mask(error.line)) from error

    return answer


class AcpAgent:
    """Answers the requests of a client."""

    def __init__(self, store: Store, options: ChatOptions, complain: Callable[[str], None]) -> None:
        self._store = store
        self._options = options
        """The options of each session, from the command line."""
        self._complain = complain
        self._client: AgentSideConnection | None = None
        self._has_terminals = False
        self._sessions: dict[str, AcpSession] = {}
        self._environment = dict(os.environ)
        self._opening = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def on_connect(self, conn: AgentSideConnection) -> None:
        """Store the connection to the client."""
        self._client = conn

    @reported
    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        **_: Any,
    ) -> InitializeResponse:
        """Agree on a protocol version, and declare what turnlog supports."""
        from turnlog import __version__

        extensions = client_capabilities.field_meta if client_capabilities else None
        self._has_terminals = (extensions or {}).get(TERMINAL_OUTPUT) is True
        return InitializeResponse(
            # The latest version that both sides know; 0 is not a version.
            protocol_version=min(protocol_version, PROTOCOL_VERSION) or PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=True, sse=True),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(),
                    resume=SessionResumeCapabilities(),
                    fork=SessionForkCapabilities(),
                    close=SessionCloseCapabilities(),
                    additional_directories=SessionAdditionalDirectoriesCapabilities(),
                ),
            ),
            auth_methods=[],
            agent_info=Implementation(name="turnlog", title="turnlog", version=__version__),
        )

    @reported
    async def authenticate(self, method_id: str, **_: Any) -> AuthenticateResponse:
        """Refuse: credentials come from the environment, so there is no method to choose."""
        details = "turnlog takes its key from the environment (set ANTHROPIC_API_KEY)"
        raise RequestError.invalid_params({"details": details})

    @reported
    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: Sequence[Any] | None = None,
        **_: Any,
    ) -> NewSessionResponse:
        """Open a new session."""
        session = await self._open(_placed(cwd, additional_directories, mcp_servers))
        return NewSessionResponse(
            session_id=session.id, modes=session.modes, config_options=session.options
        )

    @reported
    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: Sequence[Any] | None = None,
        additional_directories: list[str] | None = None,
        **_: Any,
    ) -> LoadSessionResponse:
        """Open a recorded session and replay it to the client."""
        given = _placed(cwd, additional_directories, mcp_servers)
        session = await self._open(given | {"resume": self._recorded(session_id)})
        await session.replay()
        return LoadSessionResponse(modes=session.modes, config_options=session.options)

    @reported
    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: Sequence[Any] | None = None,
        **_: Any,
    ) -> ResumeSessionResponse:
        """Open a recorded session without replaying it, as the client still shows it."""
        given = _placed(cwd, additional_directories, mcp_servers)
        session = await self._open(given | {"resume": self._recorded(session_id)})
        return ResumeSessionResponse(modes=session.modes, config_options=session.options)

    @reported
    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: Sequence[Any] | None = None,
        **_: Any,
    ) -> ForkSessionResponse:
        """Open a copy of a recorded session."""
        given = _placed(cwd, additional_directories, mcp_servers)
        source = {"resume": self._recorded(session_id), "is_fork": True}
        session = await self._open(given | source)
        return ForkSessionResponse(
            session_id=session.id, modes=session.modes, config_options=session.options
        )

    @reported
    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> ListSessionsResponse:
        """List one page of sessions, of a directory or all; `cursor` continues the last page."""
        start = int(cursor) if cursor and cursor.isdecimal() else 0
        # The first page has no cursor, so 0 is invalid as well.
        if cursor and not start:
            raise RequestError.invalid_params({"details": f"{cursor} is not a cursor"})
        found = await asyncio.to_thread(list_sessions, self._store, cwd)
        listed = found[start : start + PAGE]
        # Describing reads the session's file, so do it for this page only, outside the event loop.
        infos = await asyncio.to_thread(lambda: list(map(_info, listed)))
        end = start + PAGE
        return ListSessionsResponse(
            sessions=[info for info in infos if info.cwd],
            next_cursor=str(end) if end < len(found) else None,
        )

    @reported
    async def prompt(self, session_id: str, prompt: Sequence[Any], **_: Any) -> PromptResponse:
        """Run a turn."""
        return await self._session(session_id).prompt(read_prompt(prompt))

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Interrupt the turn of a session."""
        if session := self._sessions.get(session_id):
            session.cancel()

    @reported
    async def set_session_mode(
        self, session_id: str, mode_id: str, **_: Any
    ) -> SetSessionModeResponse:
        """Switch the permission mode of a session."""
        await self._session(session_id).set_mode(mode_id)
        return SetSessionModeResponse()

    @reported
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> SetSessionConfigOptionResponse:
        """Set the mode or the model of a session."""
        session = self._session(session_id)
        await session.set_option(config_id, str(value))
        return SetSessionConfigOptionResponse(config_options=session.options)

    @reported
    async def close_session(self, session_id: str, **_: Any) -> CloseSessionResponse:
        """Close a session; it can be loaded again."""
        session = self._session(session_id)
        # Removed first, so that a prompt arriving meanwhile does not reach a closing session.
        del self._sessions[session_id]
        await session.close()
        return CloseSessionResponse()

    async def close(self) -> None:
        """Close all sessions."""
        sessions, self._sessions = self._sessions, {}
        await asyncio.gather(*(each.close() for each in sessions.values()), *self._tasks)

    def _session(self, session_id: str) -> AcpSession:
        if session_id not in self._sessions:
            raise NotFound(f"session {session_id} is not open", "session/load")
        return self._sessions[session_id]

    def _recorded(self, session_id: str) -> Path:
        """Return the file of a session by its id; a path is refused, since it could be any file."""
        try:
            name = str(UUID(session_id))
        except ValueError:
            raise NotFound(f"{session_id} is not the id of a session", "session/list") from None
        return find_session(self._store, name).path

    async def _open(self, given: Fields) -> AcpSession:
        assert self._client, "requests come from a client"
        options = replace(self._options, **given)
        options = replace(options, directories=self._options.directories + options.directories)
        options = replace(options, servers=self._options.servers + options.servers)
        # One at a time: opening sets a project's variables, which must not leak into the next one.
        async with self._opening:
            # Two chats must not append to one file. A fork only reads it.
            if options.resume and not options.is_fork:
                await self._reclose(options.resume.stem)
            self._reset_environment()
            session = await open_acp_session(
                self._store, options, self._client, self._has_terminals, self._complain
            )
        self._sessions[session.id] = session
        # Sent after the response to this request, which tells the client the session's id.
        task = asyncio.create_task(session.report_commands())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return session

    def _reset_environment(self) -> None:
        for name in set(os.environ) - set(self._environment):
            del os.environ[name]
        os.environ.update(self._environment)

    async def _reclose(self, session_id: str) -> None:
        """Close a session that the client loads again."""
        if session := self._sessions.pop(session_id, None):
            await session.close()


def _placed(cwd: str, more: list[str] | None, servers: Sequence[Any] | None) -> Fields:
    """Return the chat options for a client's request; raise `RequestError` for a bad directory."""
    named = [cwd, *(more or [])]
    for each in named:
        if not (Path(each).is_absolute() and Path(each).is_dir()):
            raise RequestError.invalid_params({"details": f"{each} is not an absolute directory"})
    place, *others = (Path(each).resolve() for each in named)
    config = {each.name: _server(each) for each in servers or ()}
    given = (json.dumps({"mcpServers": config}),) if config else ()
    return {"cwd": place, "directories": tuple(others), "servers": given}


def _server(server: Any) -> Fields:
    """Return the configuration of an MCP server in the format of `.mcp.json`."""
    match server:
        case McpServerStdio():
            env = {each.name: each.value for each in server.env}
            return {"command": server.command, "args": server.args, "env": env}
        case HttpMcpServer() | SseMcpServer():
            headers = {each.name: each.value for each in server.headers}
            return {"type": server.type, "url": server.url, "headers": headers}
        case _:
            raise RequestError.invalid_params({"details": f"{server.name}: unknown transport"})


def _info(session: SessionFile) -> SessionInfo:
    described = describe(session)
    # A title is usually the first prompt, which may contain secrets, and editors list all projects.
    title = described.title and one_line(mask(described.title))
    return SessionInfo(
        session_id=session.path.stem,
        cwd=described.cwd or "",
        title=title,
        updated_at=session.last_active.isoformat(),
    )


async def serve_acp(
    store: Store,
    options: ChatOptions,
    lines: AsyncIterable[str],
    write: Callable[[str], None],
    complain: Callable[[str], None],
) -> None:
    """Serve a client until it closes the stream."""
    agent = AcpAgent(store, options, complain)
    transport = LineTransport(lines, write)
    connection = AgentSideConnection(
        cast("Agent", agent), transport, listening=False, use_unstable_protocol=True
    )
    try:
        await connection.listen()
    finally:
        await agent.close()
        with suppress(Exception):  # requests may still be in progress
            await connection.close()
