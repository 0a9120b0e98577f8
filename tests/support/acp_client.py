"""An editor: a client of the Agent Client Protocol, made with the protocol's own library.

It starts `turnlog-chat --acp` as a process and keeps every update that it gets.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from acp.client.connection import ClientSideConnection
from acp.helpers import text_block
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)
from acp.stdio import spawn_agent_process

from turnlog.agent.workspace.repository import CEILINGS
from turnlog.store.paths import Store

SECONDS = 60.0
Fields = dict[str, Any]
Scene = Callable[[ClientSideConnection, "Editor"], Awaitable[None]]


class Editor:
    """Shows sessions, and answers questions with the first option of the chosen kind."""

    def __init__(self) -> None:
        self.updates: list[Fields] = []
        """Every update, with the session that it is about as `session`."""
        self.questions: list[Fields] = []
        self.choose: Callable[[list[PermissionOption]], str | None] = lambda options: None
        """Returns the id of the option to take; None to cancel."""
        self.messages: list[Fields] = []
        """Every message that the agent has written."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        shown = update.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.updates.append(shown | {"session": session_id})

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_: Any
    ) -> RequestPermissionResponse:
        shown = tool_call.model_dump(mode="json", by_alias=True, exclude_none=True)
        named = {option.option_id: option.name for option in options}
        self.questions.append({"session": session_id, "call": shown, "options": named})
        chosen = self.choose(options)
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        outcome = AllowedOutcome(outcome="selected", option_id=chosen)
        return RequestPermissionResponse(outcome=outcome)

    def on_connect(self, conn: Any) -> None:
        """Nothing to do: tests hold the connection."""

    def of(self, kind: str) -> list[Fields]:
        """The updates of a kind."""
        return [each for each in self.updates if each["sessionUpdate"] == kind]

    def text(self, kind: str = "agent_message_chunk") -> str:
        """The text of all chunks of a kind."""
        return "".join(each["content"].get("text", "") for each in self.of(kind))

    def statuses(self, call_id: str) -> list[str]:
        """The statuses that a call went through."""
        calls = [*self.of("tool_call"), *self.of("tool_call_update")]
        mine = [each for each in self.updates if each in calls and each["toolCallId"] == call_id]
        return [each["status"] for each in mine if "status" in each]

    async def until(self, is_done: Callable[[], bool]) -> None:
        """Wait for a condition."""
        async with asyncio.timeout(SECONDS):
            while not is_done():
                await asyncio.sleep(0.02)


class AcpRig:
    """A home, a project and the executable that serves editors."""

    def __init__(self, client: Path, home: Path, address: str) -> None:
        self.client = client
        self.home = home
        self.work = home / "work"
        self.work.mkdir(parents=True)
        self.store = Store(home / "claude")
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TMPDIR": str(home),
            "CLAUDE_CONFIG_DIR": str(self.store.root),
            "TURNLOG_HOME": str(home / "turnlog"),
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": "not-a-key",
            "IS_SANDBOX": "1",
            CEILINGS: str(home),  # rules are saved in the project, not in this repository
        }

    @asynccontextmanager
    async def connect(
        self, editor: Editor, *arguments: str, meta: Fields | None = None
    ) -> AsyncGenerator[ClientSideConnection]:
        """Start the agent and initialize the connection; stop it at the end."""
        capabilities = ClientCapabilities(field_meta=meta)
        async with (
            asyncio.timeout(SECONDS),
            spawn_agent_process(
                editor,  # pyright: ignore[reportArgumentType] - the methods that are called
                str(self.client),
                *("--acp", *arguments),
                env=self.environment,
                cwd=self.work,
                use_unstable_protocol=True,
            ) as (connection, _),
        ):
            await connection.initialize(protocol_version=1, client_capabilities=capabilities)
            yield connection

    def sessions(self) -> list[Path]:
        """The session files of the project."""
        return sorted(self.store.project_of(str(self.work)).glob("*.jsonl"))


def play(rig: AcpRig, scene: Scene, *arguments: str, **given: Any) -> Editor:
    """Connect an editor and let it do something."""
    editor = Editor()

    async def run() -> None:
        async with rig.connect(editor, *arguments, **given) as connection:
            await scene(connection, editor)

    asyncio.run(run())
    return editor


async def opened(connection: ClientSideConnection, rig: AcpRig, **given: Any) -> str:
    """A new session in the project."""
    given.setdefault("mcp_servers", [])
    return (await connection.new_session(cwd=str(rig.work), **given)).session_id


async def ask(connection: ClientSideConnection, session: str, *prompt: Any) -> str:
    """The reason why a turn ended."""
    blocks = [text_block(each) if isinstance(each, str) else each for each in prompt]
    return (await connection.prompt(session_id=session, prompt=blocks)).stop_reason
