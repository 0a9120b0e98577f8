"""Read MCP server configurations and expand environment variables in them.

A project's servers are in `.mcp.json`. The user's servers are in the client's `.claude.json`, for
all projects or for one.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from turnlog.agent.workspace.project_directories import LARGEST
from turnlog.agent.workspace.project_environment import without_credentials
from turnlog.errors import UsageError
from turnlog.format.json_values import as_object, is_array, is_object, parse_json
from turnlog.format.regular_files import read_regular
from turnlog.store.paths import expand_user

VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
HINT = "--mcp-config FILE"
TYPES = ("stdio", "http", "streamable-http", "sse")
HOST = "sdk"
"""Type of a server inside the host program."""


class ServerConfig(Struct, frozen=True):
    """An MCP server: a command or a URL."""

    type: str | None = None
    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}
    is_project: bool = False
    """True if it comes from a project's file: turnlog's credentials are then withheld from it."""


class Servers(Struct, frozen=True):
    """The valid servers of a file, and problems with the others."""

    configs: dict[str, ServerConfig]
    problems: list[str]

    def of_project(self) -> "Servers":
        """Return the same servers marked as a project's, which do not get turnlog's credentials."""
        marked = {
            name: msgspec.structs.replace(config, is_project=True)
            for name, config in self.configs.items()
        }
        return Servers(marked, self.problems)


class _Missing(Exception):
    """A variable is not set."""


def read_servers(path: Path, environment: Mapping[str, str]) -> Servers:
    """Return the servers of a file; a missing file has none."""
    listed, problems = _load(path)
    if problems or listed is None:
        return Servers({}, problems)
    if not is_object(listed) or not is_object(listed.get("mcpServers")):
        return Servers({}, [f"{path} names no servers: it has no mcpServers"])
    return _servers(listed, environment)


def given_servers(texts: Sequence[str], root: Path, environment: Mapping[str, str]) -> Servers:
    """Return the servers given on the command line, as files or JSON."""
    found = Servers({}, [])
    for text in texts:
        listed = _given(text, root)
        if not is_object(listed) or not is_object(listed.get("mcpServers")):
            raise UsageError(f"--mcp-config {text} names no servers: it has no mcpServers")
        servers = _servers(listed, environment, has_host=True)
        found.configs.update(servers.configs)
        found.problems.extend(servers.problems)
    return found


def _given(text: str, root: Path) -> Any:
    try:
        is_json = text.lstrip().startswith("{")
        return parse_json(text if is_json else (root / expand_user(text)).read_bytes())
    except OSError as error:
        raise UsageError(f"--mcp-config {text}: {error.strerror}", HINT) from error
    except ValueError as error:
        raise UsageError(f"--mcp-config {text} is not JSON: {error}", HINT) from error


def listed_servers(
    named: Mapping[str, Any], environment: Mapping[str, str], is_project: bool
) -> Servers:
    """Return the servers listed in a plugin's manifest or another file."""
    # `${ANTHROPIC_API_KEY}` in a project's file would pass the key to its server.
    known = without_credentials(environment) if is_project else environment
    found = _servers({"mcpServers": dict(named)}, known)
    return found.of_project() if is_project else found


def read_own_servers(path: Path, root: Path, environment: Mapping[str, str]) -> tuple[Servers, ...]:
    """Return the user's servers: those for one directory, and those for all directories."""
    listed, problems = _load(path)
    fields = as_object(listed)
    projects = fields.get("projects")
    project = projects.get(str(root)) if is_object(projects) else None
    local = _servers(as_object(project), environment)
    return local, Servers(_servers(fields, environment).configs, problems)


def _load(path: Path) -> tuple[Any, list[str]]:
    try:
        return parse_json(read_regular(path, LARGEST)), []
    except FileNotFoundError:
        return None, []
    except OSError as error:
        return None, [f"{path} is not loaded: {error.strerror}"]
    except ValueError as error:
        return None, [f"{path} cannot be read: {error}"]


def _servers(
    listed: dict[str, Any], environment: Mapping[str, str], has_host: bool = False
) -> Servers:
    """Return the servers of a list; with `has_host`, it may name servers in the host program."""
    named = listed.get("mcpServers")
    found = Servers({}, [])
    for name, fields in named.items() if is_object(named) else ():
        try:
            found.configs[name] = _config(fields, environment, has_host)
        except (_Missing, msgspec.ValidationError) as error:
            found.problems.append(f"MCP server {name}: {error}")
    return found


def _config(fields: Any, environment: Mapping[str, str], has_host: bool) -> ServerConfig:
    # Overwritten, as `"is_project": false` in a project's file would give its server the user's
    # keys.
    config = msgspec.structs.replace(
        msgspec.convert(expand(fields, environment), ServerConfig), is_project=False
    )
    wanted = config.type or ("stdio" if config.command else "http")
    if has_host and wanted == HOST:
        return config
    if wanted not in TYPES:
        raise msgspec.ValidationError(f"type {wanted} is not supported: {', '.join(TYPES)}")
    if not (config.command if wanted == "stdio" else config.url):
        missing = "command" if wanted == "stdio" else "url"
        raise msgspec.ValidationError(f"it has no {missing}")
    return config


def expand(value: Any, environment: Mapping[str, str]) -> Any:
    """Expand `${NAME}` and `${NAME:-default}` in all strings of a value.

    >>> expand(["${A:-x}/y"], {})
    ['x/y']
    """
    if isinstance(value, str):
        return VARIABLE.sub(lambda match: _value(match, environment), value)
    if is_array(value):
        return [expand(item, environment) for item in value]
    if is_object(value):
        return {name: expand(item, environment) for name, item in value.items()}
    return value


def _value(match: re.Match[str], environment: Mapping[str, str]) -> str:
    name, default = match.groups()
    value = environment.get(name, "")
    if value or default is not None:
        return value or default
    if name in environment:
        return ""
    raise _Missing(f"the variable {name} is not set")
