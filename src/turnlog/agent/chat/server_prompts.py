"""MCP prompts as slash commands, and MCP resources that a prompt mentions as `@server:uri`.

The user types both, but permission rules still apply: a rule that denies a server, or asks about
it, also covers its prompts and resources.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from turnlog.agent.chat.mentions import MENTION
from turnlog.agent.config.command_expansion import split_arguments
from turnlog.agent.config.custom_commands import CustomCommand
from turnlog.agent.config.memory_text import PUNCTUATION
from turnlog.agent.loop.conversation import Parts
from turnlog.agent.loop.lifecycle_hooks import ContextForModel
from turnlog.agent.mcp.connections import Connections, spelt, tool_name
from turnlog.agent.mcp.server_offers import ServerPrompt, ServerResource
from turnlog.agent.permissions import VerdictKind
from turnlog.agent.permissions.policy import Question
from turnlog.agent.session.entry_builders import mcp_resource
from turnlog.agent.workspace.access import Uses
from turnlog.agent.workspace.tool import ToolError
from turnlog.conversation.quoted_text import escape_tags
from turnlog.format.json_values import Fields

ORIGIN = "mcp"
READING = "ReadMcpResourceTool"
"""The client's tool that reads resources; rules for it apply to mentions as well."""
QUOTES = ('"', "\\")
"""Characters that cannot be typed after `@`."""


def server_commands(servers: Connections, parts: Parts) -> dict[str, CustomCommand]:
    """Return a command for each prompt of the running servers; the first of equal names wins."""
    found: dict[str, CustomCommand] = {}
    for prompt in servers.prompts:
        name = tool_name(prompt.server, prompt.name)
        found.setdefault(name, _command(name, prompt, servers, parts))
    return found


def _command(name: str, prompt: ServerPrompt, servers: Connections, parts: Parts) -> CustomCommand:
    wanted = [(spelt(each.name), each.is_required) for each in prompt.arguments]
    return CustomCommand(
        name=name,
        description=" ".join(prompt.description.split()),
        body="",
        path=Path(),
        origin=ORIGIN,
        hint=" ".join(f"<{each}>" if is_required else f"[{each}]" for each, is_required in wanted),
        for_model=False,
        fetch=partial(_fetch, name, prompt, servers, parts),
    )


async def _fetch(
    name: str, prompt: ServerPrompt, servers: Connections, parts: Parts, arguments: str
) -> list[Fields]:
    """Return the content of a prompt; raise `ToolError` if a rule denies it or it fails."""
    given = _split(arguments, len(prompt.arguments))
    required = [each.name for each in prompt.arguments if each.is_required]
    if len(given) < len(required):
        missing = ", ".join(map(spelt, required[len(given) :]))
        raise ToolError(f"/{name} needs a value for: {missing}")
    if why := await _refusal([name], prompt.server, {"arguments": arguments}, parts):
        raise ToolError(f"/{name} was not run: {why}")
    blocks = await servers.fetch_prompt(prompt, given, parts.workspace.folder)
    if not blocks:
        raise ToolError(f"/{name} has no content")
    return blocks


def _split(arguments: str, count: int) -> list[str]:
    """Split arguments at unquoted spaces; the last argument takes the remaining text.

    >>> _split('"Ann Lee" very kind', 2)
    ['Ann Lee', 'very kind']
    """
    parts = split_arguments(arguments)
    return [*parts[: count - 1], " ".join(parts[count - 1 :])] if len(parts) > count > 0 else parts


async def resource_context(typed: str, servers: Connections, parts: Parts) -> list[ContextForModel]:
    """Return an attachment for each resource that a text mentions, or a note if reading fails."""
    listed = {(each.server, each.uri): each for each in servers.resources}
    found: list[ContextForModel] = []
    for server, uri in dict.fromkeys(mentioned_resources(typed, servers)):
        names = [READING, tool_name(server, READING)]
        why = await _refusal(names, server, {"server": server, "uri": uri}, parts)
        try:
            if why:
                raise ToolError(f"it was not read: {why}")
            content = await servers.fetch_resource(server, uri, parts.workspace.folder)
        except ToolError as error:
            found.append(_reminders(server, uri, [_text(str(error))]))
            continue
        # A URI made from a template is not listed.
        about = listed.get((server, uri), ServerResource(server, uri, uri))
        named = {"server": server, "uri": uri, "name": about.name, "description": about.description}
        found.append(mcp_resource(named, content, _reminders(server, uri, content)))
    return found


def mentioned_resources(text: str, servers: Connections) -> Iterator[tuple[str, str]]:
    """Yield the server and the URI of each resource that a text mentions."""
    known = {each.server for each in servers.resources}
    listed = {(each.server, each.uri) for each in servers.resources}
    for quoted, plain in MENTION.findall(text):
        server, colon, uri = (quoted or plain).partition(":")
        if colon and server in known:
            # In `see @shop:shop://list.` the dot ends the sentence.
            short = uri.rstrip(PUNCTUATION)
            yield server, uri if (server, uri) in listed else short


def resource_names(servers: Connections) -> list[str]:
    """Return the resources that can be typed after `@`, as `server:uri`.

    URIs with control characters are left out: completion would type those characters.
    """
    names = (f"{each.server}:{each.uri}" for each in servers.resources)
    return [
        name for name in names if name.isprintable() and not any(mark in name for mark in QUOTES)
    ]


async def _refusal(names: list[str], server: str, given: Fields, parts: Parts) -> str:
    """Return why a server may not be used, asking the user if a rule says so; empty if it may."""
    uses = [Uses(server=spelt(server))]
    verdicts = {name: parts.rules.decide(name, uses, parts.workspace) for name in names}
    # Denials first: the user's consent for one name must not override a denial of the other.
    for verdict in verdicts.values():
        if verdict.kind is VerdictKind.DENY:
            return verdict.reason
    for name, verdict in verdicts.items():
        # Ask only if a rule says so: the user has just requested it.
        if verdict.kind is VerdictKind.ASK and verdict.is_firm:
            if parts.ask is None:
                return verdict.reason
            reply = await parts.ask(Question(name, name, given, verdict))
            return "" if reply.kind == "allow" else "you refused it"
    return ""


def _reminders(server: str, uri: str, content: list[Fields]) -> list[Fields]:
    """Wrap the content of a resource, with its origin, as the client does."""
    whose = escape_tags(f"{' '.join(uri.split())} of MCP server {' '.join(server.split())}")
    blocks: list[Fields] = []
    for each in content:
        is_text = each["type"] == "text"
        tail = f":\n{each['text']}" if is_text else " follows."
        head = f"Resource {whose}{tail}"
        blocks.append(_text(f"<system-reminder>\n{head}\n</system-reminder>"))
        blocks += [] if is_text else [each]
    return blocks


def _text(text: str) -> Fields:
    return {"type": "text", "text": text}
