"""Plugins: directories with commands, skills, agents, hooks, MCP servers and output styles.

The user installs a plugin or names it on the command line, so its content counts as the user's,
unless the project contains the plugin. Files outside its directory are never part of a plugin.
"""

import re
from pathlib import Path
from typing import Any

from msgspec import Struct

from turnlog.agent.workspace.project_directories import LARGEST, SERVERS, is_within
from turnlog.errors import UsageError
from turnlog.format.json_values import Fields, is_array, is_object, objects_in, parse_json
from turnlog.format.regular_files import read_regular
from turnlog.text import one_line

MANIFEST = Path(".claude-plugin", "plugin.json")
HOOKS = Path("hooks", "hooks.json")
PLUGIN_ROOT, PLUGIN_DATA = "CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
UNSAFE = re.compile(r"[\"'`$\\\n;&|<>]")
"""Characters that are special in a shell."""
HINT = "--plugin-dir DIR"
OPTION = "--plugin-dir"
SHOWN = 200
"""Maximum characters of an invalid path in an error message."""
FIELDS = {
    "commands": "commands",
    "skills": "skills",
    "agents": "agents",
    "output-styles": "outputStyles",
}
"""The manifest's field for the paths of each kind of file."""
ADDING = ("skills",)
"""Kinds whose paths in the manifest add to the usual folder instead of replacing it."""
SKILL = "SKILL.md"


class PluginSource(Struct, frozen=True):
    """The source of a plugin."""

    id: str = ""
    """`NAME@MARKETPLACE`; empty for a directory named on the command line."""
    enabled_by: str = OPTION
    """The settings file or option that enables it."""
    data: Path | None = None
    """The plugin's data directory."""
    linked: Path | None = None
    """A directory that the plugin's files may link into, as the client installs some by links."""
    is_project: bool = False
    """True if the project contains it, so that others may have written it."""
    is_managed: bool = False
    """True if the organisation enables it."""


class Plugin(Struct, frozen=True):
    """A plugin."""

    name: str
    root: Path
    hooks: dict[str, list[Fields]] = {}
    """Hook groups by event."""
    servers: Fields = {}
    """MCP servers by name, as the plugin configures them."""
    paths: dict[str, tuple[Path, ...]] = {}
    """Files and directories of each kind that its manifest names."""
    source: PluginSource = PluginSource()
    version: str = ""
    description: str = ""

    def folder(self, kind: str) -> Path:
        """Return the usual directory of its commands, skills or agents."""
        return self.root / kind

    def places(self, kind: str) -> tuple[Path, ...]:
        """Return the files and directories of its commands, skills, agents or output styles."""
        named = self.paths.get(kind, ())
        usual = self.folder(kind)
        # A plugin may be a single skill, with its file at the top.
        if kind == "skills" and not named and not usual.is_dir() and (self.root / SKILL).is_file():
            return (self.root,)
        return tuple(dict.fromkeys((usual, *named))) if kind in ADDING else named or (usual,)

    def holds(self, path: Path) -> bool:
        """Return whether a file belongs to the plugin after links are resolved."""
        return is_within(path, _roots(self.root, self.source))

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that tell hooks and servers the plugin's directories."""
        data = {PLUGIN_DATA: str(self.source.data)} if self.source.data else {}
        return {PLUGIN_ROOT: str(self.root)} | data

    def placed(self, text: str) -> str:
        """Replace the variables for its directories in a text."""
        return _placed(text, self.variables)


def read_plugin(
    folder: Path, source: PluginSource | None = None, entry: Fields | None = None
) -> Plugin:
    """Return the plugin in a directory; raise if there is none or it cannot be read.

    `entry` is the plugin's entry in a marketplace, used for fields that its manifest lacks.
    """
    try:
        root = folder.resolve()
        is_folder = root.is_dir()
    except (OSError, ValueError, RuntimeError):  # a name too long, a NUL in it, links in a circle
        root, is_folder = folder, False
    if not is_folder:
        raise UsageError(f"{one_line(str(folder))[:SHOWN]} is not a directory", HINT)
    # The path is inserted into the shell commands of hooks, where `$(…)` in a name would run.
    if UNSAFE.search(str(root)):
        raise UsageError(f"the path of plugin {folder} has characters special to a shell", HINT)
    try:
        return _read(root, source or PluginSource(), entry or {})
    except RecursionError as error:
        raise UsageError(f"a file of plugin {folder} is nested too deeply", HINT) from error


def _read(root: Path, source: PluginSource, entry: Fields) -> Plugin:
    within = _roots(root, source)
    manifest = entry | _object(root / MANIFEST, within)
    name = str(manifest.get("name") or source.id.partition("@")[0] or root.name)
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a valid plugin name: {root / MANIFEST}", HINT)
    paths = {kind: _named_paths(root, manifest, kind, within) for kind in FIELDS}
    bare = Plugin(name, root, source=source)
    hooks = _configured(root, manifest.get("hooks"), HOOKS, "hooks", within)
    servers = _configured(root, manifest.get("mcpServers"), Path(SERVERS), "mcpServers", within)
    groups: dict[str, list[Fields]] = {}
    for event, each in ((event, each) for part in hooks for event, each in part.items()):
        groups.setdefault(event, []).extend(_marked(group, bare) for group in objects_in(each))
    return Plugin(
        name,
        root,
        groups,
        {name: _placed(each, bare.variables) for part in servers for name, each in part.items()},
        {kind: named for kind, named in paths.items() if named},
        source,
        _text(manifest.get("version")),
        _text(manifest.get("description")),
    )


def _roots(root: Path, source: PluginSource) -> list[Path]:
    return [root, *([source.linked] if source.linked else [])]


def _marked(group: Fields, plugin: Plugin) -> Fields:
    """Return a hook group with its origin, overwriting any origin that the group claims."""
    origin = {"source": str(plugin.root), "is_project": plugin.source.is_project, "skill": None}
    about = {"plugin": plugin.source.id or plugin.name, "variables": plugin.variables}
    return _placed(group, plugin.variables) | origin | about


def _named_paths(root: Path, manifest: Fields, kind: str, within: list[Path]) -> tuple[Path, ...]:
    given = manifest.get(FIELDS[kind])
    named = given if is_array(given) else [] if given is None else [given]
    return tuple(_inside(root, each, within) for each in named)


def _inside(root: Path, named: Any, within: list[Path]) -> Path:
    """Return a path of the manifest; raise if it leaves the plugin."""
    # Only `./` paths are accepted, so that no path leaves the plugin by accident.
    is_relative = isinstance(named, str) and (named.startswith("./") or named == ".")
    path = root / named if is_relative and "\0" not in named else None
    if path is None or not is_within(path, within):
        raise UsageError(f"{named!r} is not a path in the plugin: {root / MANIFEST}", HINT)
    return path


def _configured(root: Path, given: Any, usual: Path, key: str, within: list[Path]) -> list[Fields]:
    """Return the objects in the default file, in the manifest and in files that it names."""
    found = [_unwrapped(_object(root / usual, within), key)]
    for each in given if is_array(given) else [] if given is None else [given]:
        if is_object(each):
            found.append(_unwrapped(each, key))
        elif (path := _inside(root, each, within)) != root / usual:
            found.append(_unwrapped(_object(path, within), key))
    return found


def _unwrapped(value: Fields, key: str) -> Fields:
    inner = value.get(key)
    return inner if is_object(inner) else value


def _object(path: Path, within: list[Path]) -> Fields:
    """Return the object in a JSON file; empty if there is no such file."""
    if not is_within(path, within):
        raise UsageError(f"{path} links to outside of the plugin", HINT)
    try:
        value = parse_json(read_regular(path, LARGEST))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", HINT) from error
    if not is_object(value):
        raise UsageError(f"{path} is not an object", HINT)
    return value


def _placed(value: Any, variables: dict[str, str]) -> Any:
    """Replace the variables for the plugin's directories in all strings of a value."""
    if isinstance(value, str):
        for name, path in variables.items():
            value = value.replace(f"${{{name}}}", path)
        return value
    if is_array(value):
        return [_placed(each, variables) for each in value]
    if is_object(value):
        return {name: _placed(each, variables) for name, each in value.items()}
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
