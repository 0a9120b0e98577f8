"""Options that a program sends with `initialize` instead of on the command line.

The TypeScript SDK sends its system prompt, schema and title this way. On request it also sends
servers and plugins, as other users of the machine could read the command line (0.3.326, observed).
"""

import json
from pathlib import Path

from msgspec.structs import replace

from turnlog.agent.chat.assembly import ChatOptions
from turnlog.agent.config.plugins import read_plugin
from turnlog.agent.mcp.server_config import HOST
from turnlog.format.json_values import Fields, as_object, is_array, is_object, objects_in


def requested_options(options: ChatOptions, request: Fields) -> ChatOptions:
    """Return the chat's options, updated with those in the `initialize` request."""
    title, schema, more = (
        request.get(name) for name in ("title", "jsonSchema", "appendSystemPrompt")
    )
    plugins = [each.get("path") for each in objects_in(request.get("plugins"))]
    return replace(
        options,
        system_prompt=_system_prompt(request.get("systemPrompt"), options.system_prompt),
        more_system_prompt=more if isinstance(more, str) else options.more_system_prompt,
        schema=schema if is_object(schema) and schema else options.schema,
        name=title if isinstance(title, str) and title else options.name,
        servers=(*options.servers, *_servers(request)),
        plugins=(*options.plugins, *(read_plugin(Path(each)) for each in _texts(plugins))),
    )


def _system_prompt(given: object, usual: str | None) -> str | None:
    """Return the requested system prompt, which may be empty, or else the usual one."""
    if isinstance(given, str):
        return given
    return "\n\n".join(_texts(given)) if is_array(given) else usual


def _servers(request: Fields) -> tuple[str, ...]:
    """Return the servers that the request configures, and the program's in-process servers."""
    listed = request.get("mcpServers")
    inside = {name: {"type": HOST, "name": name} for name in _texts(request.get("sdkMcpServers"))}
    every = as_object(listed) | inside
    return (json.dumps({"mcpServers": every}),) if every else ()


def _texts(values: object) -> list[str]:
    return [each for each in values if isinstance(each, str)] if is_array(values) else []
