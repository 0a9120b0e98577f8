"""List and fetch the prompts and resources of MCP servers.

Texts of a server are untrusted: tags that mark context, commands and results are escaped, so that
no server can close its own block and open one that seems to come from somebody else.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from turnlog.agent.mcp.results import content_block, resource_block
from turnlog.agent.workspace.spilled_results import fit_blocks
from turnlog.agent.workspace.tool import ToolError
from turnlog.conversation.quoted_text import escape_tags
from turnlog.format.json_values import Fields

if TYPE_CHECKING:
    from mcp import Client

Listed = TypeVar("Listed")

SECONDS = 60.0
"""Seconds for a server to answer."""
LISTING = 5.0
"""Seconds for a server to list its prompts or resources, which delays the start of the chat."""
PAGES = 20
MOST = 1_000
"""Maximum number of prompts, and of resources, of a server."""
LONGEST = 500
"""Maximum characters of a description."""
LONGEST_ERROR = 2_000
"""Maximum characters of an error."""


class PromptArgument(Struct, frozen=True):
    """An argument of a prompt."""

    name: str
    is_required: bool = False


class ServerPrompt(Struct, frozen=True):
    """A prompt that a server offers."""

    server: str
    name: str
    """The name in the server's own spelling."""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class ServerResource(Struct, frozen=True):
    """A resource that a server offers."""

    server: str
    uri: str
    name: str = ""
    description: str = ""


class ServerOffer(Struct, frozen=True):
    """Everything besides tools that a server offers."""

    prompts: tuple[ServerPrompt, ...] = ()
    resources: tuple[ServerResource, ...] = ()


async def list_offer(server: str, client: "Client") -> ServerOffer:
    """Return the prompts and resources of a server; a list ends early if the server fails."""
    abilities = client.server_capabilities
    prompts, resources = await asyncio.gather(
        _listed(client.list_prompts, "prompts", bool(abilities.prompts)),
        _listed(client.list_resources, "resources", bool(abilities.resources)),
    )
    return ServerOffer(
        tuple(_prompt(server, each) for each in prompts),
        tuple(_resource(server, each) for each in resources),
    )


async def _listed(
    list_page: Callable[..., Awaitable[Any]], kind: str, is_offered: bool
) -> list[Any]:
    """Return all items of a list, page by page."""
    from mcp import MCPError

    found: list[Any] = []
    cursor: str | None = None
    if not is_offered:
        return found
    try:
        async with asyncio.timeout(LISTING):
            # A server whose list never ends must not keep the chat from starting.
            for _ in range(PAGES):
                page = await list_page(cursor=cursor)
                found += getattr(page, kind)
                cursor = page.next_cursor
                if cursor is None or len(found) >= MOST:
                    break
    except (MCPError, TimeoutError, ValueError):
        # The server's tools are useful even without a complete list.
        return found
    return found[:MOST]


def _prompt(server: str, listed: Any) -> ServerPrompt:
    arguments = [PromptArgument(each.name, bool(each.required)) for each in listed.arguments or ()]
    described = (listed.description or listed.title or "")[:LONGEST]
    return ServerPrompt(server, listed.name, described, tuple(arguments))


def _resource(server: str, listed: Any) -> ServerResource:
    described = (listed.description or "")[:LONGEST]
    return ServerResource(server, str(listed.uri), listed.title or listed.name, described)


async def fetch_prompt(
    prompt: ServerPrompt, given: Sequence[str], client: "Client", folder: Path
) -> list[Fields]:
    """Return the content of a prompt as blocks; raise `ToolError` if the server fails."""
    names = [each.name for each in prompt.arguments]
    filled = dict(zip(names, given, strict=False))
    result = await _answer(prompt.server, client.get_prompt(prompt.name, filled or None))
    blocks = [content_block(message.content) for message in result.messages]
    return await asyncio.to_thread(fit_blocks, list(map(_tamed, blocks)), folder)


async def fetch_resource(server: str, uri: str, client: "Client", folder: Path) -> list[Fields]:
    """Return the content of a resource as blocks; raise `ToolError` if the server fails."""
    result = await _answer(server, client.read_resource(uri))
    blocks = [resource_block(each) for each in result.contents]
    return await asyncio.to_thread(fit_blocks, list(map(_tamed, blocks)), folder)


async def _answer(server: str, answer: Awaitable[Listed]) -> Listed:
    from mcp import MCPError

    try:
        async with asyncio.timeout(SECONDS):
            return await answer
    except TimeoutError as error:
        raise ToolError(f"MCP server {server} did not answer within {SECONDS:g} s") from error
    except (MCPError, ValueError, RuntimeError) as error:
        # Error messages come from the server, so they are as untrusted as its answers.
        raise ToolError(
            f"MCP server {server}: {escape_tags(str(error)[:LONGEST_ERROR])}"
        ) from error


def _tamed(block: Fields) -> Fields:
    return block | {"text": escape_tags(block["text"])} if block["type"] == "text" else block
