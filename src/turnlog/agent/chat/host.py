"""Agents, hooks, servers and skills that a host program contributes to a chat.

The user runs the program, so its contributions count as the user's, never as the project's.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from turnlog.agent.config.agent_definitions import AgentDefinition
from turnlog.agent.config.custom_commands import CustomCommand
from turnlog.agent.config.frontmatter import model_of
from turnlog.agent.config.plugins import Plugin
from turnlog.agent.hooks.hooks import CallBack, Observe
from turnlog.agent.hooks.matchers import Groups
from turnlog.agent.mcp.connections import OpenHost
from turnlog.agent.mcp.server_config import Servers, listed_servers
from turnlog.agent.permissions.rules import TOOLS
from turnlog.agent.workspace.tool import Tool
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields, is_array, is_object

EVERY_TOOL = "default"
CONFIGURED = "${user_config."
"""Prefix of placeholders for a plugin's own settings."""


@dataclass(frozen=True)
class Host:
    """The contributions of a program to a chat."""

    agents: Mapping[str, AgentDefinition] = field(default_factory=dict[str, AgentDefinition])
    hooks: Groups = field(default_factory=dict[str, list[Fields]])
    call_back: CallBack | None = None
    """Calls one of the program's hooks."""
    observe: Observe | None = None
    """Called before and after each hook that is not the program's own."""
    open_server: OpenHost | None = None
    """Connects to one of the program's MCP servers."""
    skills: tuple[str, ...] | None = None
    """The skills that the model may use; None for all."""
    moves_surroundings: bool = False
    """Send user-dependent context with the first prompt, not in the system prompt."""


def read_agents(listed: object) -> dict[str, AgentDefinition]:
    """Return the agents that a program defines: an object with a definition for each name."""
    if not is_object(listed):
        return {}
    return {name: _agent(name, fields) for name, fields in listed.items()}


def _agent(name: str, fields: Any) -> AgentDefinition:
    if not is_object(fields) or not isinstance(fields.get("prompt"), str):
        raise UsageError(f"agent {name!r} has no prompt", '{"reviewer": {"prompt": "Review it"}}')
    tools, turns = fields.get("tools"), fields.get("maxTurns")
    servers = fields.get("mcpServers")
    inline = [each for each in servers if is_object(each)] if is_array(servers) else []
    return AgentDefinition(
        name=name,
        description=str(fields.get("description") or ""),
        prompt=str(fields["prompt"]),
        tools=_names(tools) if is_array(tools) else None,
        disallowed_tools=_names(fields.get("disallowedTools")),
        model=model_of(fields.get("model")),
        permission_mode=_text(fields.get("permissionMode")),
        max_turns=turns if isinstance(turns, int) else None,
        skills=_names(fields.get("skills")),
        memory=_text(fields.get("memory")),
        servers={key: value for each in inline for key, value in each.items()},
    )


def _names(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if is_array(value) else ()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def offered_tools(
    tools: Mapping[str, Tool], wanted: Collection[str] | None, denied: Iterable[str]
) -> dict[str, Tool]:
    """Return the tools to offer to the model.

    `wanted` restricts built-in tools, not those of servers. A tool that a rule denies as a whole
    is not offered: the model would only try it in vain.
    """
    rules = [each for each in denied if "(" not in each]
    return {
        name: tool
        for name, tool in tools.items()
        if (wanted is None or EVERY_TOOL in wanted or name in _renamed(wanted) or tool.server)
        and not any(_covers(rule, tool) for rule in rules)
    }


def _renamed(wanted: Collection[str]) -> set[str]:
    return {"Agent" if name == "Task" else name for name in wanted}


def _covers(rule: str, tool: Tool) -> bool:
    if tool.server and rule.startswith(TOOLS):
        return rule in (tool.name, f"{TOOLS}{tool.server}", f"{TOOLS}{tool.server}__*", f"{TOOLS}*")
    return tool.name in _renamed([rule])


def plugin_servers(plugin: Plugin, environment: Mapping[str, str]) -> Servers:
    """Return the MCP servers of a plugin, with its directories in their environment."""
    # turnlog does not ask for plugin settings: the server would get the placeholder as its value.
    asking = [name for name, each in plugin.servers.items() if CONFIGURED in str(each)]
    rest = {name: each for name, each in plugin.servers.items() if name not in asking}
    found = listed_servers(rest, environment, is_project=plugin.source.is_project)
    problems = [f"MCP server {name}: turnlog does not set plugin user_config" for name in asking]
    return Servers(
        {
            f"plugin:{plugin.name}:{name}": replace(each, env=plugin.variables | each.env)
            for name, each in found.configs.items()
        },
        [*problems, *found.problems],
    )


def usable_skills(
    commands: Mapping[str, CustomCommand], wanted: Collection[str] | None
) -> dict[str, CustomCommand]:
    """Return the commands without the skills that the host program excludes."""
    return {
        name: command
        for name, command in commands.items()
        if wanted is None or not command.is_skill or command.name in wanted
    }
