"""Which MCP servers a chat may start: the user's own, and those of a project that were approved.

A server is a program, and a project's `.mcp.json` comes with its files: what a repository brings
along can forbid its servers, but never approve them.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct

from turnlog.agent.permissions import Kind, Verdict
from turnlog.agent.permissions.asking import Ask, Question
from turnlog.agent.permissions.saving import change_settings, with_name
from turnlog.agent.servers.config import ServerConfig, Servers, read_own_servers, read_servers
from turnlog.agent.settings import LOCAL, Content, Settings, Source
from turnlog.store.paths import Store

ENABLED, DISABLED = "enabledMcpjsonServers", "disabledMcpjsonServers"


class Approved(Struct, frozen=True):
    """The servers that may start."""

    configs: dict[str, ServerConfig]
    waiting: dict[str, ServerConfig]
    """Those of the project that nobody has approved or refused."""
    problems: list[str]


def find_servers(
    store: Store, settings: Settings, environment: Mapping[str, str] = os.environ
) -> Approved:
    """The servers for a session; of several with one name the user's for this directory counts,
    then the project's, then the user's for all."""
    root = settings.root
    local, everywhere = read_own_servers(store.client_state(environment), root, environment)
    project = read_servers(root / ".mcp.json", environment)
    refused = {name for source in settings.sources for name in _refused(source)}
    asked = {name: each for name, each in project.configs.items() if name not in refused}
    said = _said_in(settings, store) if asked else Content()
    granted = {name: each for name, each in asked.items() if _approves(said, name)}
    waiting = {
        name: each for name, each in asked.items() if name not in {**granted, **local.configs}
    }
    return Approved(
        everywhere.configs | granted | local.configs,
        waiting,
        [*local.problems, *project.problems, *everywhere.problems],
    )


def with_given(found: Approved, given: Servers) -> Approved:
    """The same with the servers of the command line, which count first and need no approval."""
    waiting = {name: each for name, each in found.waiting.items() if name not in given.configs}
    return Approved(found.configs | given.configs, waiting, [*found.problems, *given.problems])


async def ask_for(found: Approved, settings: Settings, approve: Ask | None) -> Approved:
    """Ask the user once about each server that waits, and remember the answers.

    Where nobody can be asked they do not start, and a line says so.
    """
    if approve is None:
        return Approved(found.configs, found.waiting, found.problems + _note(found.waiting))
    configs = dict(found.configs)
    for name, config in found.waiting.items():
        reply = await approve(_question(name, config))
        key = ENABLED if reply.kind == "allow" else DISABLED
        change_settings(settings.local_file, partial(with_name, key=key, name=name))
        if reply.kind == "allow":
            configs[name] = config
    return Approved(configs, {}, found.problems)


def _note(waiting: Mapping[str, ServerConfig]) -> list[str]:
    names = ", ".join(waiting)
    told = f"MCP servers of .mcp.json that nobody approved did not start: {names} ({ENABLED})"
    return [told] if waiting else []


def _question(name: str, config: ServerConfig) -> Question:
    starts = " ".join([config.command, *config.args]) if config.command else config.url or ""
    verdict = Verdict(Kind.ASK, "the project's .mcp.json names it")
    return Question(name, f"MCP server {name}", {"description": starts}, verdict)


def _refused(source: Source) -> list[str]:
    return source.content.disabled_mcpjson_servers or []


def _said_in(settings: Settings, store: Store) -> Content:
    """What the files that may approve servers say, taken together."""
    counted = [source.content for source in settings.sources if _counts(source, store)]
    said = [each.enable_all_project_mcp_servers for each in counted]
    last = [each for each in said if each is not None][-1:]
    names = [name for each in counted for name in each.enabled_mcpjson_servers or []]
    return Content(enable_all_project_mcp_servers=last == [True], enabled_mcpjson_servers=names)


def _approves(said: Content, name: str) -> bool:
    names = said.enabled_mcpjson_servers or []
    return bool(said.enable_all_project_mcp_servers) or name in names


def _counts(source: Source, store: Store) -> bool:
    """Whether a settings file may approve: it is the system's, or of the user alone."""
    if source.is_managed or source.is_given or source.path == store.settings:
        return True
    return source.path.name == LOCAL.name and not _is_tracked(source.path)


def _is_tracked(path: Path) -> bool:
    """Whether a file is part of a repository."""
    git = shutil.which("git")
    if not git:
        return False
    command = [git, "-c", "core.fsmonitor=false", "ls-files", "--error-unmatch", path.name]
    done = subprocess.run(command, cwd=path.parent, capture_output=True, check=False)
    return done.returncode == 0
