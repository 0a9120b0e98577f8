"""Run programs that use the Agent SDK against a client and a scripted Messages API.

A program is a function of a `Rig` that returns its outcome: JSON that is the same for each client.
"""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    Message,
    ResultMessage,
    SystemMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    query,
)

from support.scripted_api import Reply, ScriptedApi, scripted_api
from turnlog.format.json_values import is_object

Fields = dict[str, Any]
Outcome = Any
LONGEST = 60
"""Texts of a request that are longer were added by the client."""
SECONDS = 120.0
"""A program that takes longer has failed."""
SLOW = ("t1", "Bash", {"command": "perl -e 'sleep 60'"})
"""A call that runs until it is interrupted."""


class Rig:
    """A client with a home, a project and an API of its own."""

    def __init__(self, api: ScriptedApi, home: Path, client: Path) -> None:
        self.api = api
        self.home = home
        self.client = client
        self.work = home / "work"
        self.work.mkdir()
        (self.work / "a.txt").write_text("alpha\n")
        self.complaints: list[str] = []
        """What the client printed to stderr."""

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "CLAUDE_CONFIG_DIR": str(self.home / "claude"),
            "TURNLOG_HOME": str(self.home / "turnlog"),
            "ANTHROPIC_BASE_URL": self.api.url,
            "ANTHROPIC_API_KEY": "not-a-key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",
        }

    def options(self, **given: Any) -> ClaudeAgentOptions:
        """Options for this client; `env` adds to its environment."""
        env = self.environment | given.pop("env", {})
        given.setdefault("cwd", self.work)
        given.setdefault("stderr", self.complaints.append)
        return ClaudeAgentOptions(cli_path=self.client, env=env, **given)

    def script(self, *replies: Reply) -> None:
        """Let the API give these replies from now on."""
        self.api.replies[:] = replies

    async def ask(self, prompt: str | AsyncIterable[Fields] = "go", **given: Any) -> list[Message]:
        """All messages of one `query()`."""
        return [message async for message in query(prompt=prompt, options=self.options(**given))]

    async def failing(self, **given: Any) -> tuple[list[Message], str]:
        """The messages of a `query()` that fails, and the kind of its error."""
        messages: list[Message] = []
        try:
            async for message in query(prompt="go", options=self.options(**given)):
                messages.append(message)  # noqa: PERF401 - those before an error count
        except Exception as error:  # what a program gets is what is compared
            return messages, type(error).__name__
        return messages, ""

    @asynccontextmanager
    async def connect(self, **given: Any) -> AsyncGenerator[ClaudeSDKClient]:
        """A connected client."""
        async with ClaudeSDKClient(self.options(**given)) as client:
            yield client

    @property
    def bodies(self) -> list[Fields]:
        """The requests that the API got."""
        return [request.body for request in self.api.requests]

    def plain(self, value: Any) -> Any:
        """A value with the home directory replaced."""
        if isinstance(value, str):
            return value.replace(str(self.home), "~")
        if is_object(value):
            return {key: self.plain(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.plain(each) for each in cast("Iterable[Any]", value)]
        return value


class Program(NamedTuple):
    """A program and its name."""

    name: str
    run: Callable[[Rig], Awaitable[Outcome]]


PROGRAMS: dict[str, Program] = {}
DIFFERENT: dict[str, Any] = {"approvals of the project": [[["t1", True]], [["t1", False]]]}
"""What `turnlog-chat` does on purpose unlike the client, each for a reason in docs/sdk.md."""


def program(run: Callable[[Rig], Awaitable[Outcome]]) -> Callable[[Rig], Awaitable[Outcome]]:
    """Register a program under the name of its function."""
    name = run.__name__.replace("_", " ")
    assert name not in PROGRAMS
    PROGRAMS[name] = Program(name, run)
    return run


def run_program(name: str, home: Path, client: Path) -> Outcome:
    """The outcome of a program with a client."""
    home.mkdir(parents=True, exist_ok=True)

    async def run(rig: Rig) -> Outcome:
        async with asyncio.timeout(SECONDS):
            return rig.plain(await PROGRAMS[name].run(rig))

    with scripted_api() as api:
        return asyncio.run(run(Rig(api, home.resolve(), client)))


def own_client(folder: Path) -> Path:
    """An executable that is `turnlog-chat` of this checkout."""
    path = folder / "turnlog-chat"
    source = Path(__file__).parents[2] / "src"
    command = f'exec "{sys.executable}" -m turnlog.cli.hosted "$@"'
    path.write_text(f'#!/bin/sh\nPYTHONPATH="{source}" {command}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


async def until(is_done: Callable[[], bool]) -> None:
    """Wait for a condition."""
    while not is_done():
        await asyncio.sleep(0.02)


def last(messages: list[Message]) -> ResultMessage:
    """The result at the end."""
    found = messages[-1]
    assert isinstance(found, ResultMessage), found
    return found


def ended(messages: list[Message]) -> Fields:
    """Return the fields of a result that matter."""
    result = next(each for each in reversed(messages) if isinstance(each, ResultMessage))
    return {
        "subtype": result.subtype,
        "is_error": result.is_error,
        "result": result.result,
        "num_turns": result.num_turns,
        "stop_reason": result.stop_reason,
        "terminal_reason": result.terminal_reason,
        "denials": [each["tool_name"] for each in result.permission_denials or []],
    }


def started(messages: list[Message]) -> Fields:
    """The data of the `system/init` message."""
    (data,) = [
        each.data for each in messages if isinstance(each, SystemMessage) and each.subtype == "init"
    ]
    return data


def noted(messages: list[Message], subtype: str) -> list[Fields]:
    """The data of the system messages of a subtype."""
    told = [each for each in messages if isinstance(each, SystemMessage)]
    return [each.data for each in told if each.subtype == subtype]


def texts(messages: list[Message]) -> list[str]:
    """The texts of the model."""
    return [
        block.text
        for message in messages
        if isinstance(message, AssistantMessage)
        for block in message.content
        if isinstance(block, TextBlock)
    ]


def calls(messages: list[Message]) -> list[str]:
    """The tools that the model called."""
    return [
        block.name
        for message in messages
        if isinstance(message, AssistantMessage)
        for block in message.content
        if isinstance(block, ToolUseBlock)
    ]


def results(messages: list[Message]) -> list[tuple[str, bool]]:
    """The results of calls: the id, and whether it is an error."""
    return [
        (block.tool_use_id, bool(block.is_error))
        for message in messages
        if isinstance(message, UserMessage) and isinstance(message.content, list)
        for block in message.content
        if isinstance(block, ToolResultBlock)
    ]


def result_text(messages: list[Message], call_id: str) -> str:
    """The text of one result."""
    for message in messages:
        if isinstance(message, UserMessage) and isinstance(message.content, list):
            for block in message.content:
                if isinstance(block, ToolResultBlock) and block.tool_use_id == call_id:
                    content = block.content or ""
                    return content if isinstance(content, str) else content[0].get("text", "")
    return ""


def kinds(messages: list[Message]) -> list[str]:
    """The kinds of messages, without those about progress."""
    return [
        type(each).__name__
        for each in messages
        if type(each) is not SystemMessage or each.subtype == "init"
    ]


async def request_of(client: ClaudeSDKClient, request: Fields) -> Fields:
    """The response to a control request for which the SDK has no method."""
    running: Any = client
    return await running._query._send_control_request(request)


async def write_line(client: ClaudeSDKClient, line: str) -> None:
    """Write a line to the client as it is."""
    running: Any = client
    await running._query.transport.write(f"{line}\n")


async def said_to(client: ClaudeSDKClient, prompt: str) -> list[Message]:
    """The messages of one turn of a client."""
    await client.query(prompt)
    return [message async for message in client.receive_response()]


def asked(body: Fields) -> list[str]:
    """The texts that users and the model exchanged, as a request has them."""
    found: list[str] = []
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [
            f"{message['role']}: {block['text']}"
            for block in blocks
            if block["type"] == "text"
            and len(block["text"]) < LONGEST
            and "\n" not in block["text"]
        ]
    return found


def is_root() -> bool:
    return os.geteuid() == 0
