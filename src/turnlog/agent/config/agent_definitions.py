"""Agent definitions: built-in ones, and those in Markdown files."""

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from turnlog.agent.config.definition_directories import DefinitionFiles, read_text
from turnlog.agent.config.frontmatter import model_of, names_of, number_of, split_head, text_of
from turnlog.agent.hooks.matchers import groups_of
from turnlog.agent.permissions.rules import TOOLS, server_in
from turnlog.agent.workspace.access import ApprovalMode
from turnlog.format.json_values import Fields, is_array, is_object
from turnlog.store.paths import Store

CALLS = ("Task", "Agent")
"""The old and the current name of the tool that starts agents."""
WIDER = (ApprovalMode.ACCEPT_EDITS, ApprovalMode.BYPASS)
"""Modes that ask less than the default."""


class AgentDefinition(Struct, frozen=True):
    """A type of sub-agent."""

    name: str
    description: str
    """The description for the model, which says when to start it."""
    prompt: str
    tools: tuple[str, ...] | None = None
    """Allowed tools; None for all."""
    disallowed_tools: tuple[str, ...] = ()
    model: str | None = None
    """None for the model of the starting conversation."""
    permission_mode: str | None = None
    max_turns: int | None = None
    skills: tuple[str, ...] = ()
    """Skills preloaded at its start."""
    path: Path | None = None
    """None for a built-in agent."""
    loads_memory: bool = True
    """True if its system prompt includes memory files."""
    hooks: dict[str, list[Fields]] = {}
    """Hooks active while it runs."""

    memory: str | None = None
    """Scope of its persistent memory: user, project or local."""
    servers: Fields = {}
    """Its own MCP servers, as listed in the file."""
    is_project: bool = False
    """True if a project's file defines it."""

    def may_use(self, tool: str, server: str | None = None) -> bool:
        """Return whether a built-in or MCP tool is in the agent's allowlist."""
        if self.is_refused(tool, server):
            return False
        return self.tools is None or any(_names(entry, tool, server) for entry in self.tools)

    def is_refused(self, tool: str, server: str | None = None) -> bool:
        """Return whether a tool is in the agent's denylist."""
        return any(_names(entry, tool, server) for entry in self.disallowed_tools)


BUILT_IN = (
    AgentDefinition(
        "general-purpose",
        "For tasks of several steps that take both finding out and changing things, or whose"
        " course is not clear beforehand.",
        "You carry out one task for another agent. Do what it asks, all of it and nothing else."
        " Search widely where you do not know the place, and look at what you find. Change or"
        " add files only where the task needs it. When you are done, report in a few sentences"
        " what you did and found, with absolute paths: your last message is all that the other"
        " agent gets to see.",
    ),
    AgentDefinition(
        "Explore",
        "For finding things in the files of a project without changing any: by name, by content,"
        " or by what they do. Say how thorough it should be: quick, medium or very thorough.",
        "You find things in a project for another agent, and change nothing: no files are made,"
        " edited, moved or removed, also not through the shell. Search by name and by content,"
        " several searches at once where you can, and read what looks right. As thorough as you"
        " were asked to be, no more. Report what you found with absolute paths and line numbers,"
        " and what you did not find: your last message is all that the other agent gets to see.",
        disallowed_tools=("Write", "Edit", "NotebookEdit", *CALLS),
        loads_memory=False,
    ),
)


def load_agents(
    store: Store, cwd: Path, files: DefinitionFiles | None = None
) -> dict[str, AgentDefinition]:
    """Return all agents by name; the nearest definition wins, the project's before the user's.

    Agents of an untrusted project lose their hooks, servers, memory, skills and any wider mode.
    """
    known = files or DefinitionFiles(store, cwd)
    found = {each.name: each for each in BUILT_IN}
    for folder in (*known.user_folders("agents"), *known.project_folders("agents")):
        for path in known.markdown(folder):
            is_project = known.is_project(path)
            definition = known.read(path, partial(read_agent, is_project=is_project))
            if definition and not known.may_act(path, _wants(definition)):
                definition = _without_privileges(definition)
            if definition:
                found[definition.name] = definition
    return found | _of_plugins(known)


def _of_plugins(files: DefinitionFiles) -> dict[str, AgentDefinition]:
    """Return the agents of plugins, without their hooks, servers and modes.

    The client ignores these, too (documented): a plugin cannot hide them in an agent's file.
    """
    found: dict[str, AgentDefinition] = {}
    for plugin, place in files.of_plugins("agents"):
        for path in files.markdown(place):
            if definition := files.read(path, read_agent):
                name = f"{plugin.name}:{definition.name}"
                found[name] = msgspec.structs.replace(
                    definition,
                    name=name,
                    prompt=plugin.placed(definition.prompt),
                    hooks={},
                    servers={},
                    permission_mode=None,
                    is_project=plugin.source.is_project,
                )
    return found


def _wants(agent: AgentDefinition) -> list[str]:
    wants = {
        "hooks": agent.hooks,
        "mcpServers": agent.servers,
        "permissionMode": agent.permission_mode in WIDER,
        "memory": agent.memory,
        "skills": agent.skills,
    }
    return [name for name, value in wants.items() if value]


def _without_privileges(agent: AgentDefinition) -> AgentDefinition:
    mode = None if agent.permission_mode in WIDER else agent.permission_mode
    # `memory: user` would let the agent read ~/.claude/agent-memory, the notes of the user's
    # agents, and plant notes for their next tasks in any project. `skills: deploy` would run the
    # commands in a skill of the user without asking; a call of the skill would ask.
    return msgspec.structs.replace(
        agent, hooks={}, servers={}, permission_mode=mode, memory=None, skills=()
    )


def read_agent(path: Path, is_project: bool = False) -> AgentDefinition | None:
    """Return the agent of a file; None if name or description is missing."""
    fields, body = split_head(read_text(path) or "")
    name, description = text_of(fields.get("name")), text_of(fields.get("description"))
    if not name or not description or name.startswith("-") or ":" in name:
        return None
    tools = names_of(fields.get("tools"))
    return AgentDefinition(
        name=name,
        description=description,
        prompt=body.strip(),
        tools=None if tools is None else tuple(tools),
        disallowed_tools=tuple(names_of(fields.get("disallowedTools")) or ()),
        model=model_of(fields.get("model")),
        permission_mode=text_of(fields.get("permissionMode")) or None,
        max_turns=number_of(fields.get("maxTurns")),
        skills=tuple(names_of(fields.get("skills")) or ()),
        path=path,
        hooks=_hooks(fields, is_project),
        memory=text_of(fields.get("memory")) or None,
        servers=_servers(fields.get("mcpServers")),
        is_project=is_project,
    )


def _servers(listed: Any) -> Fields:
    """Return the servers that a list defines; plain names refer to existing servers."""
    entries = listed if is_array(listed) else [listed]
    return {name: each for entry in entries if is_object(entry) for name, each in entry.items()}


def _hooks(fields: Fields, is_project: bool) -> dict[str, list[Fields]]:
    """Return an agent's hooks; a `Stop` hook becomes a SubagentStop hook of the session."""
    found = groups_of(fields.get("hooks"), is_project=is_project)
    ends = [*found.pop("Stop", []), *found.pop("SubagentStop", [])]
    return found | ({"SubagentStop": ends} if ends else {})


def _names(entry: str, tool: str, server: str | None) -> bool:
    """Return whether a list entry names a tool; a part in parentheses is ignored."""
    entry = entry.partition("(")[0]
    # A definition written for `Task` also allows or denies `Agent`, as the tool is called now.
    if entry in ("*", tool) or (entry in CALLS and tool in CALLS):
        return True
    owner = f"{TOOLS}{server}" if server else server_in(tool)
    if entry == f"{TOOLS}*":
        return tool.startswith(TOOLS)
    return owner is not None and entry.removesuffix("__*") == owner
