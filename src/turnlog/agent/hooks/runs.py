"""Hook invocations and their results, common to all hook types."""

import asyncio
import json
import os
import time
from collections.abc import Awaitable
from typing import Any

import msgspec
from msgspec import Struct

from turnlog.agent.workspace.project_environment import without_credentials
from turnlog.format.json_values import Fields

MOST_OUTPUT = 1 << 20
"""Maximum bytes read from a hook's output."""

LONGEST_NUMBER = 400
"""Digits of a number that is read exactly; JavaScript rounds all beyond 16."""


class Firing(Struct, frozen=True):
    """A hook about to run."""

    event: str
    name: str
    """The event with its subject, such as `PreToolUse:Bash`."""
    handler: Fields
    """The hook's settings."""
    payload: Fields
    """The payload as JSON."""
    timeout: float
    is_project: bool = False
    """True if it comes from a project's file: it then gets no credentials of turnlog."""
    variables: dict[str, str] = {}
    """The directories of the plugin that it belongs to."""

    @property
    def environment(self) -> dict[str, str]:
        """Environment of the hook, or source of its variables."""
        known = without_credentials(os.environ) if self.is_project else dict(os.environ)
        return known | self.variables

    @property
    def kind(self) -> str:
        """command, http, mcp_tool, prompt or agent."""
        return str(self.handler.get("type", "command"))

    def text(self, field: str) -> str:
        """Return a string field of the hook's settings."""
        return str(self.handler.get(field) or "")


class HookRun(Struct, frozen=True):
    """The result of a hook run."""

    event: str
    name: str
    """The event with its subject."""
    command: str
    """Display name: the command, URL or prompt."""
    exit_code: int | None
    """None after a timeout; 127 if the hook could not be started."""
    stdout: str
    stderr: str
    seconds: float
    timeout: float | None = None
    """The timeout in seconds, if it was exceeded."""
    status: int | None = None
    """HTTP status of an HTTP hook; the session records it as the exit code (observed)."""
    kind: str = "command"
    is_cut: bool = False
    """True if it printed more than is read."""

    @property
    def answer(self) -> str:
        """Its output without blanks around it, nor the byte order mark of some shells."""
        return self.stdout.strip().removeprefix("\ufeff").lstrip()


class HookReply(Struct, frozen=True):
    """The reply of a hook that is not a command."""

    text: str
    """Equivalent stdout of a command hook."""
    status: int | None = None
    is_cut: bool = False
    """True if there was more of it than is read."""


class Failed(Exception):
    """A hook failed without blocking anything; the message says why."""

    def __init__(self, why: str, reply: HookReply | None = None) -> None:
        super().__init__(why)
        self.reply = reply or HookReply("")


async def timed(firing: Firing, shown: str, work: Awaitable[HookReply]) -> HookRun:
    """Await the reply of a hook that is not a command, within its timeout."""
    started = time.monotonic()
    code, why, late = 0, "", None
    try:
        async with asyncio.timeout(firing.timeout):
            reply = await work
    # A late hook neither blocks nor allows: `exit_code` is None.
    except TimeoutError:
        code, late, reply = None, firing.timeout, HookReply("")
    except Failed as error:
        code, why, reply = 1, str(error), error.reply
    except Exception as error:  # whatever happens to a hook, the turn continues
        code, why, reply = 1, f"{type(error).__name__}: {error}", HookReply("")
    seconds = time.monotonic() - started
    about = (firing.event, firing.name, shown, code, reply.text, why, seconds)
    return HookRun(*about, late, reply.status, firing.kind, reply.is_cut)


def encode_payload(payload: object) -> bytes:
    """Return a payload as JSON; half a surrogate pair is escaped, as the client does."""
    try:
        return msgspec.json.encode(payload)
    except UnicodeEncodeError:
        return json.dumps(payload, separators=(",", ":")).encode()


def decode_output(text: str) -> Any:
    """Return the JSON value that a hook printed; raise `ValueError` if it is not JSON.

    As tolerant as JavaScript. A hook that quotes the start of a command may cut an emoji in half:
    to a stricter decoder, its "block" would be plain text, and the call would run.
    """
    value = json.loads(text, parse_constant=_refuse_constant, parse_int=_number)
    whole = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    return json.loads(whole, parse_int=_number)


def _number(digits: str) -> int | float:
    # Python refuses to read longer ones, which would make plain text of an answer.
    return int(digits) if len(digits) < LONGEST_NUMBER else float(digits)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
