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
"""Integers with at least this many digits become floats; JavaScript rounds beyond 16 digits."""


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
    """True if it comes from a project's file: turnlog's credentials are then withheld from it."""
    variables: dict[str, str] = {}
    """The directories of the plugin that it belongs to."""

    @property
    def environment(self) -> dict[str, str]:
        """Environment of a command hook; an HTTP hook takes header variables from it."""
        known = without_credentials(os.environ) if self.is_project else dict(os.environ)
        return known | self.variables

    @property
    def kind(self) -> str:
        """command, http, mcp_tool, prompt, agent or callback."""
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
    """True if the output was truncated."""

    @property
    def answer(self) -> str:
        """The output without surrounding whitespace and without a byte order mark."""
        return self.stdout.strip().removeprefix("\ufeff").lstrip()


class HookReply(Struct, frozen=True):
    """The reply of a hook that is not a command."""

    text: str
    """Equivalent stdout of a command hook."""
    status: int | None = None
    is_cut: bool = False
    """True if the reply was truncated."""


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
    # `exit_code` is None: by itself, a timeout neither blocks nor allows.
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
    """Return a payload as JSON; lone surrogates are escaped, as in the client."""
    try:
        return msgspec.json.encode(payload)
    except UnicodeEncodeError:
        return json.dumps(payload, separators=(",", ":")).encode()


def decode_output(text: str) -> Any:
    """Return the JSON value that a hook printed; raise `ValueError` if it is not JSON.

    This is as tolerant as JavaScript. A hook that quotes the start of a command may cut an emoji in
    half: a stricter decoder would take its "block" for plain text, and the call would run.
    """
    value = json.loads(text, parse_constant=_refuse_constant, parse_int=_number)
    whole = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    return json.loads(whole, parse_int=_number)


def _number(digits: str) -> int | float:
    # Python refuses to parse very long integers, and the output would count as plain text.
    return int(digits) if len(digits) < LONGEST_NUMBER else float(digits)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
