"""A hook that is to run, and what came of it, whatever kind of hook it is."""

import asyncio
import os
import time
from collections.abc import Awaitable

from msgspec import Struct

from turnlog.agent.workspace.project_environment import without_credentials
from turnlog.format.json_values import Fields

MOST_OUTPUT = 1 << 20
"""Bytes that are read of what a hook says."""


class Firing(Struct, frozen=True):
    """A hook that is to run."""

    event: str
    name: str
    """The event, and what it is about: `PreToolUse:Bash`."""
    handler: Fields
    """As the settings have it."""
    told: Fields
    """What it is told, as JSON."""
    timeout: float
    is_project: bool = False
    """Whether a project's file brings it, so that it does not get turnlog's own credentials."""

    @property
    def environment(self) -> dict[str, str]:
        """The environment that it runs in, or takes variables from."""
        return without_credentials(os.environ) if self.is_project else dict(os.environ)

    @property
    def kind(self) -> str:
        """command, http, mcp_tool, prompt or agent."""
        return str(self.handler.get("type", "command"))

    def text(self, field: str) -> str:
        """A field of the hook that is meant as text."""
        return str(self.handler.get(field) or "")


class HookRun(Struct, frozen=True):
    """A hook that was run."""

    event: str
    name: str
    """The event, and what it was about: `PreToolUse:Bash`."""
    command: str
    """What the session names it by: the command, the address, the prompt."""
    exit_code: int | None
    """None for one that was late; 127 for one that could not be started."""
    stdout: str
    stderr: str
    seconds: float
    timeout: float | None = None
    """The seconds it was given, if they were not enough."""
    status: int | None = None
    """Of an address, what it answered with: the session has it as the exit code (observed)."""
    kind: str = "command"


class HookReply(Struct, frozen=True):
    """What a hook says that is no command."""

    text: str
    """As a command would print it."""
    status: int | None = None


class Failed(Exception):
    """A hook that came to nothing, which stops nothing: its text is why."""

    def __init__(self, why: str, reply: HookReply | None = None) -> None:
        super().__init__(why)
        self.reply = reply or HookReply("")


async def timed(firing: Firing, shown: str, work: Awaitable[HookReply]) -> HookRun:
    """Wait for what a hook says that is no command, as long as it may take."""
    started = time.monotonic()
    code, why, late = 0, "", None
    try:
        async with asyncio.timeout(firing.timeout):
            reply = await work
    except TimeoutError:
        code, late, reply = None, firing.timeout, HookReply("")
    except Failed as error:
        code, why, reply = 1, str(error), error.reply
    except Exception as error:  # whatever becomes of a hook, the work goes on
        code, why, reply = 1, f"{type(error).__name__}: {error}", HookReply("")
    seconds = time.monotonic() - started
    about = (firing.event, firing.name, shown, code, reply.text, why, seconds)
    return HookRun(*about, late, reply.status, firing.kind)
