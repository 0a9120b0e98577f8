"""Plugins: directories with commands, skills, agents, hooks and MCP servers.

The user names a plugin on the command line, so what it brings counts as the user's own.
"""

import json
import re
from pathlib import Path
from typing import Any

from msgspec import Struct

from turnlog.agent.hooks.matchers import objects_in
from turnlog.agent.workspace.project_directories import LARGEST, SERVERS
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields, is_array, is_object
from turnlog.format.regular_files import read_regular

MANIFEST = Path(".claude-plugin", "plugin.json")
HOOKS = Path("hooks", "hooks.json")
ROOT = "${CLAUDE_PLUGIN_ROOT}"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
UNSAFE = re.compile(r"[\"'`$\\\n;&|<>]")
"""Characters that a shell would read as more than a part of the path."""
HINT = "--plugin-dir DIR"


class Plugin(Struct, frozen=True):
    """A plugin."""

    name: str
    root: Path
    hooks: dict[str, list[Fields]] = {}
    """Hook groups by event."""
    servers: Fields = {}
    """MCP servers by name, as the plugin configures them."""

    def folder(self, kind: str) -> Path:
        """Return the directory of its commands, skills or agents."""
        return self.root / kind


def read_plugin(folder: Path) -> Plugin:
    """Return the plugin in a directory; raise if there is none or it cannot be read."""
    root = folder.resolve()
    if not root.is_dir():
        raise UsageError(f"{folder} is not a directory", HINT)
    # Hooks are shell commands with this path in them: `$(…)` in a name would run.
    if UNSAFE.search(str(root)):
        raise UsageError(f"the path of plugin {folder} has characters that a shell reads", HINT)
    manifest = _object(root / MANIFEST)
    name = str(manifest.get("name") or root.name)
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a name of a plugin: {root / MANIFEST}", HINT)
    hooks, servers = _object(root / HOOKS), _object(root / SERVERS)
    named, nested = hooks.get("hooks"), servers.get("mcpServers")
    groups = named if is_object(named) else hooks
    return Plugin(
        name,
        root,
        {event: objects_in(_placed(each, root)) for event, each in groups.items()},
        _placed(nested if is_object(nested) else servers, root),
    )


def _object(path: Path) -> Fields:
    """Return the object in a JSON file; empty if there is no such file."""
    try:
        value = json.loads(read_regular(path, LARGEST))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", HINT) from error
    if not is_object(value):
        raise UsageError(f"{path} is not an object", HINT)
    return value


def _placed(value: Any, root: Path) -> Any:
    """Replace the variable for the plugin's directory in all strings of a value."""
    if isinstance(value, str):
        return value.replace(ROOT, str(root))
    if is_array(value):
        return [_placed(each, root) for each in value]
    if is_object(value):
        return {name: _placed(each, root) for name, each in value.items()}
    return value
